//! The examples of Debian's libpmemlog-dev: the same output on both libraries.

use lode_capi_compare::{Library, assert_memcheck_is_silent, assert_same_runs, example, in_memory};
use std::fs;
use std::path::Path;
use std::process::Command;

const LIBRARY: Library = Library::PMEMLOG;

/// An empty file of 4 MiB.
fn with_file(folder: &Path) {
    fs::File::create(folder.join("pool")).unwrap().set_len(4 << 20).unwrap();
}

#[test]
fn manpage() {
    let Some(program) = example(LIBRARY, "manpage.c") else { return };
    for variables in [&[][..], &[("PMEM_IS_PMEM_FORCE", "1")]] {
        let text = assert_same_runs(&program, |_| (), &[&[], &[]], variables);
        assert_eq!(text.matches("second string").count(), 3, "{text}");
    }
}

/// Entries have the time and the process, so the words of one are looked for.
#[test]
fn logfile() {
    let (Some(add), Some(print)) =
        (example(LIBRARY, "logfile/addlog.c"), example(LIBRARY, "logfile/printlog.c"))
    else {
        return;
    };
    assert_same_runs(
        &add,
        with_file,
        &[&["pool", "one", "two"], &["pool", "three"], &["none", "x"], &[]],
        &[],
    );
    for is_first_ours in [true, false] {
        let folder = in_memory();
        with_file(folder.path());
        // The libraries take turns on one log.
        for (round, word) in ["first", "second", "third", "fourth"].iter().enumerate() {
            let is_ours = is_first_ours == (round % 2 == 0);
            let output = add.run_in(folder.path(), is_ours, &["pool", word, "and more"], &[]);
            assert!(output.status.success(), "{output:?}");
            let output = print.run_in(folder.path(), !is_ours, &["pool"], &[]);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success() && text.contains(word) && text.contains("first"), "{output:?}");
        }
        let output = print.run_in(folder.path(), is_first_ours, &["-t", "pool"], &[]);
        assert!(String::from_utf8_lossy(&output.stdout).contains("third"), "{output:?}");
        let output = print.run_in(folder.path(), !is_first_ours, &["pool"], &[]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0), "{output:?}");
    }
}

#[test]
fn memcheck_is_silent() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return lode_testing::skip("memcheck_is_silent", "needs valgrind and the examples of libpmemlog-dev");
    }
    let folder = in_memory();
    with_file(folder.path());
    let Some(add) = example(LIBRARY, "logfile/addlog.c") else { return };
    assert_memcheck_is_silent(&add, LIBRARY, folder.path(), &["pool", "one", "two"]);
    let Some(print) = example(LIBRARY, "logfile/printlog.c") else { return };
    assert_memcheck_is_silent(&print, LIBRARY, folder.path(), &["-t", "pool"]);
}
