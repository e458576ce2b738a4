//! C programs of this folder, compiled against Debian's headers.

use crate::Library;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A compiled program.
#[derive(Debug)]
pub struct Program {
    /// Removed together with the program.
    _folder: TempDir,
    path: PathBuf,
    library: Library,
}

impl Program {
    /// Compiles `c/NAME.c` against Debian's headers, and links it with Debian's shared object if it calls that.
    /// `None`, and a line of a skipped test, if the library is not installed.
    pub fn compile(name: &str, library: Library) -> Option<Program> {
        if library.debians().is_none() {
            lode_testing::skip(&library.soname(), "Debian's library is not installed");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&path);
        compiler.arg(source(name)).arg("-Wl,--as-needed").arg(format!("-l{}", library.name)).arg("-ldl");
        assert!(compiler.status().unwrap().success(), "{name}.c does not compile");
        Some(Program { _folder: folder, path, library })
    }

    /// Links `c/NAME.c` with our archive into a static program.
    pub fn link_statically(name: &str, library: Library) -> Program {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-static", "-pthread", "-o"]).arg(&path).arg(source(name)).arg("-L");
        compiler.arg(library.ours()).arg(format!("-l{}", library.name));
        assert!(compiler.status().unwrap().success(), "{name}.c does not link statically");
        Program { _folder: folder, path, library }
    }

    /// Returns the program's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs the program in an empty folder, on our library or on Debian's.
    pub fn run<A: AsRef<OsStr>>(&self, is_ours: bool, arguments: &[A], variables: &[(&str, &str)]) -> Output {
        let folder = in_memory();
        let mut command = Command::new(&self.path);
        command.args(arguments).current_dir(folder.path());
        on_library(&mut command, is_ours.then(|| self.library.ours()).as_deref());
        command.envs(variables.iter().copied()).output().unwrap()
    }
}

/// Sets the variables of a program's environment that choose its libraries, and removes PMDK's.
pub fn on_library(command: &mut Command, folder: Option<&Path>) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("PMEM") || text == "LD_LIBRARY_PATH" || text == "LODE_CPU_MASK" {
            command.env_remove(&name);
        }
    }
    if let Some(folder) = folder {
        command.env("LD_LIBRARY_PATH", folder);
    }
}

/// Returns an empty folder on tmpfs, or where temporary files are.
pub fn in_memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("c").join(name).with_extension("c")
}
