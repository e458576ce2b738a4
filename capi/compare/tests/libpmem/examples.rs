//! The examples of Debian's libpmem-dev: the same output and the same files on both libraries.

use lode_capi_compare::{Library, assert_memcheck_is_silent, assert_same_runs_and_files, example, in_memory};
use std::fs;
use std::path::Path;
use std::process::Command;

const LIBRARY: Library = Library::PMEM;

/// The answers of the environment whether a file is persistent memory.
const ENVIRONMENTS: [&[(&str, &str)]; 3] =
    [&[], &[("PMEM_IS_PMEM_FORCE", "1")], &[("PMEM_IS_PMEM_FORCE", "0")]];

/// Files to copy: the examples copy 4 KiB at a time.
fn with_files(folder: &Path) {
    for len in [1, 4096, 10_000] {
        let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + at / 256) as u8).collect();
        fs::write(folder.join(len.to_string()), bytes).unwrap();
    }
    fs::write(folder.join("empty"), "").unwrap();
}

#[test]
fn manpage() {
    let Some(program) = example(LIBRARY, "manpage.c") else { return };
    for variables in ENVIRONMENTS {
        let text = assert_same_runs_and_files(&program, |_| (), &[&[], &[]], variables, &["pool"]);
        assert_eq!(text.matches("exit status: 0").count(), 2, "{text}");
    }
}

/// Copies files, refuses one that is there, one that is empty, one that is missing, and no arguments.
fn copy(name: &str) {
    let Some(program) = example(LIBRARY, name) else { return };
    let runs: &[&[&str]] = &[
        &["1", "one"],
        &["4096", "page"],
        &["10000", "more"],
        &["1", "one"],
        &["empty", "nothing"],
        &["missing", "x"],
        &["1", "missing/x"],
        &[],
    ];
    for variables in ENVIRONMENTS {
        let copies = ["one", "page", "more"];
        let text = assert_same_runs_and_files(&program, with_files, runs, variables, &copies);
        assert!(text.matches("exit status: 0").count() >= 3 && text.contains("File exists"), "{text}");
    }
}

#[test]
fn full_copy() {
    copy("full_copy.c");
}

#[test]
fn simple_copy() {
    copy("simple_copy.c");
}

#[test]
fn memcheck_is_silent() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return lode_testing::skip("memcheck_is_silent", "needs valgrind and the examples of libpmem-dev");
    }
    for (name, arguments) in
        [("manpage.c", &[][..]), ("full_copy.c", &["10000", "more"]), ("simple_copy.c", &["4096", "page"])]
    {
        let Some(program) = example(LIBRARY, name) else { return };
        let folder = in_memory();
        with_files(folder.path());
        assert_memcheck_is_silent(&program, LIBRARY, folder.path(), arguments);
    }
}
