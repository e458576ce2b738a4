//! The examples of Debian's libpmemblk-dev: the same output on both libraries.

use lode_capi_compare::{
    Library, assert_fio_verifies, assert_memcheck_is_silent, assert_same_runs, example, in_memory,
};
use std::fs;
use std::path::Path;
use std::process::Command;

const LIBRARY: Library = Library::PMEMBLK;

/// An empty file of 20 MiB, and a list of assets.
fn with_file(folder: &Path) {
    fs::File::create(folder.join("pool")).unwrap().set_len(20 << 20).unwrap();
    fs::write(folder.join("list"), "a book\na computer\nanother book\n").unwrap();
}

#[test]
fn manpage() {
    let Some(program) = example(LIBRARY, "manpage.c") else { return };
    for variables in [&[][..], &[("PMEM_IS_PMEM_FORCE", "1")]] {
        let text = assert_same_runs(&program, |_| (), &[&[], &[]], variables);
        assert_eq!(text.matches("file holds ").count(), 2, "{text}");
    }
}

#[test]
fn assetdb() {
    let names = ["load", "list", "checkout", "checkin"];
    let programs = names.map(|name| example(LIBRARY, &format!("assetdb/asset_{name}.c")));
    let [Some(load), Some(list), Some(check_out), Some(check_in)] = programs else { return };
    assert_same_runs(&load, with_file, &[&["pool", "list"], &["pool", "list"], &["none", "list"]], &[]);
    for is_first_ours in [true, false] {
        let folder = in_memory();
        with_file(folder.path());
        let run = |program: &lode_capi_compare::Program, is_ours, arguments: &[&str]| {
            let output = program.run_in(folder.path(), is_ours, arguments, &[]);
            assert!(output.status.success(), "{arguments:?}: {output:?}");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        // The libraries take turns on one pool.
        run(&load, is_first_ours, &["pool", "list"]);
        run(&check_out, !is_first_ours, &["pool", "1", "Ada"]);
        let text = run(&list, is_first_ours, &["pool"]);
        assert!(text.contains("a computer") && text.contains("Ada"), "{text}");
        run(&check_in, is_first_ours, &["pool", "1"]);
        let text = run(&list, !is_first_ours, &["pool"]);
        assert!(text.contains("another book") && !text.contains("Ada"), "{text}");
    }
}

#[test]
fn memcheck_is_silent() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return lode_testing::skip("memcheck_is_silent", "needs valgrind and the examples of libpmemblk-dev");
    }
    let folder = in_memory();
    with_file(folder.path());
    for (name, arguments) in [("load", &["pool", "list"][..]), ("list", &["pool"])] {
        let Some(program) = example(LIBRARY, &format!("assetdb/asset_{name}.c")) else { return };
        assert_memcheck_is_silent(&program, LIBRARY, folder.path(), arguments);
    }
}

/// Random writes of fio's engine `pmemblk` are read back with their checksums.
#[test]
fn fio_on_ours() {
    assert_fio_verifies("pmemblk", LIBRARY, "pool,4096,20");
}
