//! PMDK's side: what Debian's libpmemobj does with sizes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The C program, where PMDK is installed.
#[derive(Clone, Copy)]
pub(crate) struct Judge {
    program: &'static Path,
}

impl Judge {
    /// Returns PMDK's side, or skips the test if it is not installed.
    pub(crate) fn find() -> Option<Judge> {
        static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
        PROGRAM.get_or_init(compile).as_deref().map(|program| Judge { program })
    }

    /// Runs the program on a pool, and returns its lines.
    pub(crate) fn run(self, pool: &Path, words: &[&str]) -> Vec<String> {
        let mut command = Command::new(self.program);
        let output = command.arg(pool).args(words).env("PMEM_IS_PMEM_FORCE", "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }
}

/// Compiles the program. `None` if PMDK is not installed.
fn compile() -> Option<PathBuf> {
    let mut probe = Command::new("cc");
    probe.args(["-E", "-x", "c", "-include", "libpmemobj.h", "/dev/null", "-o", "/dev/null"]);
    if !probe.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        lode_testing::skip("libpmemobj", "libpmemobj-dev is not installed");
        return None;
    }
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pmemobj-sizes");
    let new = program.with_extension(std::process::id().to_string());
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-Wall", "-Werror", "-o"]).arg(&new);
    compiler.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/heap/sizes.c")).arg("-lpmemobj");
    assert!(compiler.status().unwrap().success());
    std::fs::rename(&new, &program).unwrap();
    Some(program)
}
