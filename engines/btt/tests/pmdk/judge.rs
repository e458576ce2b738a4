//! PMDK's side: a C program on libpmemblk, and `pmempool`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

/// PMDK, where it is installed.
#[derive(Clone, Copy)]
pub(crate) struct Pmdk {
    program: &'static Path,
}

/// A block as libpmemblk reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Tag(u64),
    Lost,
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
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    }

    /// Makes a pool, and returns its number of blocks.
    pub(crate) fn create(self, path: &Path, block_size: u32, size: u64) -> u64 {
        let output = self.start(&["create", &block_size.to_string(), &size.to_string()], path);
        let output = output.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    }

    /// Opens a pool.
    pub(crate) fn open(self, path: &Path) -> PmdkPool {
        let mut child = self.start(&["open"], path);
        let (requests, replies) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut pool =
            PmdkPool { child, requests: Some(requests), replies: BufReader::new(replies), block_count: 0 };
        pool.block_count = pool.reply().parse().unwrap();
        pool
    }

    /// Starts threads that write until the process is killed.
    pub(crate) fn storm(self, path: &Path, threads: u64) -> Child {
        self.start(&["storm", &threads.to_string()], path)
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
    // Tests of other crates use this module, too.
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../engines/btt/tests/pmdk/blocks.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pmemblk-blocks");
    let new = program.with_extension(std::process::id().to_string());
    let has_pmempool = Command::new("pmempool").arg("--version").output().is_ok();
    let header = "#include <libpmemblk.h>\n";
    let mut probe = Command::new("cc");
    probe.args(["-E", "-x", "c", "-", "-o", "/dev/null"]).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut probe = probe.spawn().unwrap();
    probe.stdin.take().unwrap().write_all(header.as_bytes()).unwrap();
    if !(has_pmempool && probe.wait().unwrap().success()) {
        lode_testing::skip("libpmemblk", "libpmemblk-dev or pmdk-tools is not installed");
        return None;
    }
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&new).arg(source);
    assert!(compiler.arg("-lpmemblk").status().unwrap().success());
    std::fs::rename(&new, &program).unwrap();
    Some(program)
}

/// A pool that libpmemblk has open.
pub(crate) struct PmdkPool {
    child: Child,
    requests: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
    pub(crate) block_count: u64,
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

    pub(crate) fn write(&mut self, lba: u64, tag: u64) {
        assert_eq!(self.ask(&format!("write {lba} {tag}")), "ok");
    }

    pub(crate) fn zero(&mut self, lba: u64) {
        assert_eq!(self.ask(&format!("zero {lba}")), "ok");
    }

    pub(crate) fn mark_lost(&mut self, lba: u64) {
        assert_eq!(self.ask(&format!("error {lba}")), "ok");
    }

    pub(crate) fn read(&mut self, lba: u64) -> Seen {
        match self.ask(&format!("read {lba}")).as_str() {
            "lost" => Seen::Lost,
            tag => Seen::Tag(tag.parse().unwrap_or_else(|_| panic!("block {lba} is {tag:?}"))),
        }
    }
}

impl Drop for PmdkPool {
    fn drop(&mut self) {
        drop(self.requests.take());
        let status = self.child.wait().unwrap();
        assert!(std::thread::panicking() || status.success(), "{status}");
    }
}
