//! `lode bench` finds the program that measures, passes options to it, and says what is missing.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{RunResult, documented_fields, text};
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// A copy of the program in a folder, which may have a program `lode-bench` beside it.
struct Installed {
    folder: TempDir,
}

impl Installed {
    fn new() -> Installed {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_lode"), folder.path().join("a/b/lode")).unwrap();
        Installed { folder }
    }

    fn bin(&self) -> PathBuf {
        self.folder.path().join("a/b")
    }

    /// Puts a shell script in the place of the program that measures.
    fn with_bench(self, script: &str) -> Installed {
        let path = self.bin().join("lode-bench");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn run(&self, words: &str) -> RunResult {
        let mut lode = Command::new(self.bin().join("lode"));
        RunResult::of(lode.args(words.split(' ')).env("PATH", "/usr/bin:/bin").output().unwrap())
    }
}

#[test]
fn options_are_passed_on() {
    let installed = Installed::new().with_bench("echo \"$@\"; echo $PATH; exit 5");
    let run = installed.run("bench put --quick nbd");
    assert_eq!((run.code, run.out.lines().next()), (Some(5), Some("--quick -- put nbd")), "{run:?}");
    assert!(run.out.contains(text(&installed.bin())), "lode-bench finds lode: {run:?}");
    assert!(installed.run("bench --json").out.starts_with("--json --\n"));
}

#[test]
fn lacks_are_named() {
    Installed::new().run("bench").failure(1, &["lode-bench is neither beside lode", "make bench"]);
    let installed =
        Installed::new().with_bench("echo 'libpmemobj.so.1: cannot open shared object file' >&2; exit 127");
    installed.run("bench").failure(1, &["libpmemobj.so.1", "lacks a library", "make bench"]);
    let suggested = installed.run("bench --quik").failure(2, &["--quick"]);
    assert!(suggested.contains("similar argument"), "{suggested}");
}

/// The fields are those that lode-bench prints: its workspace, and so its program, is apart.
#[test]
fn documented_fields_are_those_of_lode_bench() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/bench/src/report/json.rs");
    let source = fs::read_to_string(source).unwrap();
    let object = source.split("Ok(json!({").nth(1).unwrap().split("}))").next().unwrap();
    let named = object.lines().filter_map(|line| line.strip_prefix("        \"")?.split('"').next());
    assert_eq!(documented_fields(&["bench"]), named.map(str::to_owned).collect::<BTreeSet<_>>());
}
