//! PMDK's side: a C program on libpmemobj, and `pmempool`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

/// PMDK, where it is installed.
#[derive(Clone, Copy)]
pub(crate) struct Pmdk {
    program: &'static Path,
}

impl Pmdk {
    /// Returns PMDK, or skips the tests if it is not installed.
    pub(crate) fn find() -> Option<Pmdk> {
        static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
        PROGRAM.get_or_init(compile).as_deref().map(|program| Pmdk { program })
    }

    fn command(self, path: &Path, words: &[&str]) -> Command {
        // Without that, libpmem calls msync for each store to the page cache.
        let mut command = Command::new(self.program);
        command.arg(path).args(words).env("PMEM_IS_PMEM_FORCE", "1");
        command
    }

    /// Takes so many random steps on a pool, which is made if it is missing. It is closed, or left in a transaction.
    pub(crate) fn work(self, path: &Path, seed: u64, steps: u64, is_closed: bool) {
        let end = if is_closed { "close" } else { "exit" };
        let status = self.command(path, &["work", &seed.to_string(), &steps.to_string(), end]).status();
        assert!(status.unwrap().success(), "seed {seed}");
    }

    /// Takes random steps on a pool, and kills them after a while.
    pub(crate) fn kill(self, path: &Path, seed: u64, after: Duration) {
        let mut command = self.command(path, &["work", &seed.to_string(), "0", "kill"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "seed {seed}");
        thread::sleep(after);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Opens and closes a pool, and returns a line for each object.
    pub(crate) fn list(self, path: &Path) -> Vec<String> {
        let output = self.command(path, &["list"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    /// Fails unless `pmempool` finds the pool consistent, and lists its heap.
    pub(crate) fn assert_consistent(self, path: &Path) {
        for words in [&["check", "-v"][..], &["info", "-A", "-l", "-o", "-H", "-Z", "-C", "-O"]] {
            let output = Command::new("pmempool").args(words).arg(path).output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{words:?}: {text}");
        }
    }
}

/// Compiles the program. `None` if PMDK is not installed.
fn compile() -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pmdk/obj.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pmemobj-obj");
    let new = program.with_extension(std::process::id().to_string());
    let has_pmempool = Command::new("pmempool").arg("--version").output().is_ok();
    let mut probe = Command::new("cc");
    probe.args(["-E", "-x", "c", "-", "-o", "/dev/null"]).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut probe = probe.spawn().unwrap();
    probe.stdin.take().unwrap().write_all(b"#include <libpmemobj.h>\n").unwrap();
    if !(has_pmempool && probe.wait().unwrap().success()) {
        lode_testing::skip("libpmemobj", "libpmemobj-dev or pmdk-tools is not installed");
        return None;
    }
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-Wall", "-Werror", "-o"]).arg(&new).arg(source);
    assert!(compiler.arg("-lpmemobj").status().unwrap().success());
    std::fs::rename(&new, &program).unwrap();
    Some(program)
}
