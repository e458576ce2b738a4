//! PMDK's side: `pmempool`, and a C program on libpmemlog and libpmemblk.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

/// PMDK, where it is installed.
#[derive(Clone, Copy)]
pub(crate) struct Pmdk {
    program: &'static Path,
}

/// A pool that a process of PMDK has open.
pub(crate) struct Held {
    child: Child,
}

impl Pmdk {
    /// Returns PMDK, or skips the tests if it is not installed.
    pub(crate) fn find() -> Option<Pmdk> {
        static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
        PROGRAM.get_or_init(compile).as_deref().map(|program| Pmdk { program })
    }

    fn call(self, words: &[&OsStr]) -> Output {
        let mut command = Command::new(self.program);
        // Without that, libpmem calls msync for each store to the page cache.
        command.args(words).env("PMEM_IS_PMEM_FORCE", "1").output().unwrap()
    }

    /// Makes one call on a pool, and returns what it prints, or the library's message.
    pub(crate) fn run(self, call: &str, path: &Path, words: &[&str]) -> Result<String, String> {
        let mut all = vec![OsStr::new(call), path.as_os_str()];
        all.extend(words.iter().map(OsStr::new));
        let Output { status, stdout, stderr } = self.call(&all);
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim_end().to_owned();
        if status.success() { Ok(text(stdout)) } else { Err(text(stderr)) }
    }

    /// Returns length and checksum of all bytes of a log.
    pub(crate) fn read_log(self, path: &Path) -> (u64, u64) {
        let reply = self.run("log-read", path, &[]).unwrap();
        let (len, hash) = reply.split_once(' ').unwrap();
        (len.parse().unwrap(), hash.parse().unwrap())
    }

    /// Opens a log and keeps it open.
    pub(crate) fn hold(self, path: &Path) -> Held {
        let mut command = Command::new(self.program);
        command.arg("log-hold").arg(path).env("PMEM_IS_PMEM_FORCE", "1");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "open\n");
        Held { child }
    }

    /// Makes a pool by `pmempool create`.
    pub(crate) fn create(self, words: &[&str], path: &Path) {
        let output = Command::new("pmempool").arg("create").args(words).arg(path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Fails unless `pmempool check` finds the pool consistent.
    pub(crate) fn assert_consistent(self, path: &Path) {
        let output =
            Command::new("pmempool").args(["check", "-v"]).arg(path).env("PMEM_IS_PMEM_FORCE", "1").output();
        let output = output.unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("consistent"), "{text}");
    }

    /// Returns what `pmempool info` lists.
    pub(crate) fn info(self, path: &Path) -> String {
        let output = Command::new("pmempool").arg("info").arg(path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let status = self.child.wait().unwrap();
        assert!(std::thread::panicking() || status.success(), "{status}");
    }
}

/// Returns the checksum that the C program makes of bytes.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Compiles the program. `None` if PMDK is not installed.
fn compile() -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pmdk/pools.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pmdk-pools");
    let new = program.with_extension(std::process::id().to_string());
    let has_pmempool = Command::new("pmempool").arg("--version").output().is_ok();
    let mut probe = Command::new("cc");
    probe.args(["-E", "-x", "c", "-", "-o", "/dev/null"]).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut probe = probe.spawn().unwrap();
    let headers = b"#include <libpmemblk.h>\n#include <libpmemlog.h>\n";
    probe.stdin.take().unwrap().write_all(headers).unwrap();
    if !(has_pmempool && probe.wait().unwrap().success()) {
        lode_testing::skip("pmdk-pools", "libpmemlog-dev, libpmemblk-dev or pmdk-tools is not installed");
        return None;
    }
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&new).arg(source);
    assert!(compiler.args(["-lpmemlog", "-lpmemblk"]).status().unwrap().success());
    std::fs::rename(&new, &program).unwrap();
    Some(program)
}
