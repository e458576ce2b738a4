//! PMDK's side: a C program on libpmemlog, and `pmempool`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

/// PMDK, where it is installed.
#[derive(Clone, Copy)]
pub(crate) struct Pmdk {
    program: &'static Path,
}

/// What a walk of libpmemlog saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Walked {
    pub(crate) chunks: u64,
    pub(crate) len: u64,
    /// FNV-1a.
    pub(crate) hash: u64,
}

impl Walked {
    /// Returns what a walk of these bytes sees.
    pub(crate) fn of(bytes: &[u8], chunk_len: usize) -> Walked {
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
        let chunks = if chunk_len == 0 { 1 } else { bytes.len().div_ceil(chunk_len) };
        Walked { chunks: chunks as u64, len: bytes.len() as u64, hash }
    }
}

impl Pmdk {
    /// Returns PMDK, or skips the tests if it is not installed.
    pub(crate) fn find() -> Option<Pmdk> {
        static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
        PROGRAM.get_or_init(compile).as_deref().map(|program| Pmdk { program })
    }

    fn start(self, words: &[&str], path: &Path) -> Child {
        // Without that, libpmem calls msync for each store to the page cache.
        let mut command = Command::new(self.program);
        command.arg(path).args(words).env("PMEM_IS_PMEM_FORCE", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Makes a pool, and returns its capacity.
    pub(crate) fn create(self, path: &Path, size: u64) -> u64 {
        let output = self.start(&["create", &size.to_string()], path).wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    }

    /// Opens a pool.
    pub(crate) fn open(self, path: &Path) -> PmdkPool {
        let mut child = self.start(&["open"], path);
        let (requests, replies) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut pool =
            PmdkPool { child, requests: Some(requests), replies: BufReader::new(replies), capacity: 0 };
        pool.capacity = pool.reply().parse().unwrap();
        pool
    }

    /// Returns the message of an open that fails.
    pub(crate) fn refused(self, path: &Path) -> String {
        let output = self.start(&["open"], path).wait_with_output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    }

    /// Starts appends until the process is killed.
    pub(crate) fn storm(self, path: &Path) -> Child {
        self.start(&["storm"], path)
    }

    /// Fails unless `pmempool check` finds the pool consistent.
    pub(crate) fn assert_consistent(self, path: &Path) {
        let output = Command::new("pmempool").args(["check", "-v"]).arg(path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }

    /// Returns what `pmempool info` lists.
    pub(crate) fn info(self, path: &Path) -> String {
        let output = Command::new("pmempool").arg("info").arg(path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Compiles the program. `None` if PMDK is not installed.
fn compile() -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pmdk/log.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pmemlog-log");
    let new = program.with_extension(std::process::id().to_string());
    let has_pmempool = Command::new("pmempool").arg("--version").output().is_ok();
    let mut probe = Command::new("cc");
    probe.args(["-E", "-x", "c", "-", "-o", "/dev/null"]).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut probe = probe.spawn().unwrap();
    probe.stdin.take().unwrap().write_all(b"#include <libpmemlog.h>\n").unwrap();
    if !(has_pmempool && probe.wait().unwrap().success()) {
        lode_testing::skip("libpmemlog", "libpmemlog-dev or pmdk-tools is not installed");
        return None;
    }
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&new).arg(source);
    assert!(compiler.arg("-lpmemlog").status().unwrap().success());
    std::fs::rename(&new, &program).unwrap();
    Some(program)
}

/// A pool that libpmemlog has open.
pub(crate) struct PmdkPool {
    child: Child,
    requests: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
    pub(crate) capacity: u64,
}

impl PmdkPool {
    fn reply(&mut self) -> String {
        let mut line = String::new();
        self.replies.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn ask(&mut self, request: &str) -> String {
        writeln!(self.requests.as_mut().unwrap(), "{request}").unwrap();
        self.reply()
    }

    /// Appends `len` bytes of a tag. Returns false if the log is full.
    pub(crate) fn append(&mut self, len: usize, tag: u64) -> bool {
        self.ask(&format!("append {len} {tag}")) == "ok"
    }

    /// Appends `count` parts at once. Returns false if the log is full.
    pub(crate) fn appendv(&mut self, count: usize, len: usize, tag: u64) -> bool {
        self.ask(&format!("appendv {count} {len} {tag}")) == "ok"
    }

    pub(crate) fn rewind(&mut self) {
        assert_eq!(self.ask("rewind"), "ok");
    }

    pub(crate) fn tell(&mut self) -> u64 {
        self.ask("tell").parse().unwrap()
    }

    pub(crate) fn walk(&mut self, chunk_len: usize) -> Walked {
        let reply = self.ask(&format!("walk {chunk_len}"));
        let words: Vec<u64> = reply.split(' ').map(|word| word.parse().unwrap()).collect();
        Walked { chunks: words[0], len: words[1], hash: words[2] }
    }
}

impl Drop for PmdkPool {
    fn drop(&mut self) {
        drop(self.requests.take());
        let status = self.child.wait().unwrap();
        assert!(std::thread::panicking() || status.success(), "{status}");
    }
}
