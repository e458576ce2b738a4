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
        Program::of("cc", &source(name), library, &["-Wall", "-Wextra", "-Werror"])
    }

    /// Compiles `c/NAME.cc`, a program in C++, as [`compile`](Program::compile) does one in C.
    pub fn compile_cpp(name: &str, library: Library) -> Option<Program> {
        let source = source(name).with_extension("cc");
        Program::of("c++", &source, library, &["-std=c++17", "-Wall", "-Wextra", "-Werror"])
    }

    /// Compiles an example of Debian's, as [`compile`](Program::compile) does.
    pub fn compile_example(source: &Path, library: Library) -> Option<Program> {
        let headers = format!("-I{}/c", env!("CARGO_MANIFEST_DIR"));
        Program::of("cc", source, library, &["-w", &headers])
    }

    /// Compiles `c/NAME.c` with the compiler's thread sanitizer, as [`compile`](Program::compile) does without.
    pub fn compile_sanitized(name: &str, library: Library) -> Option<Program> {
        Program::of("cc", &source(name), library, &["-g", "-fsanitize=thread"])
    }

    /// Compiles `c/NAME.c` against Debian's headers, and links it with our shared object.
    pub fn link(name: &str, library: Library) -> Option<Program> {
        let folder = format!("-L{}", library.ours().display());
        Program::of("cc", &source(name), library, &[&folder])
    }

    fn of(compiler: &str, source: &Path, library: Library, options: &[&str]) -> Option<Program> {
        if library.debians().is_none() {
            lode_testing::skip(&library.soname(), "Debian's library is not installed");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let mut compiler = Command::new(compiler);
        compiler.args(["-O1", "-pthread"]).args(options).arg("-o").arg(&path);
        compiler
            .arg(source)
            .arg("-Wl,--as-needed")
            .arg(format!("-l{}", library.name))
            .args(["-lpmem", "-ldl"]);
        assert!(compiler.status().unwrap().success(), "{} does not compile", source.display());
        Some(Program { _folder: folder, path, library })
    }

    /// Links `c/NAME.c` with our archive into a static program.
    pub fn link_statically(name: &str, library: Library) -> Program {
        Program::of_archive(name, library, &["-static"])
    }

    /// Links `c/NAME.c` with our archive into a program that takes the C library from the system.
    pub fn link_archive(name: &str, library: Library) -> Program {
        Program::of_archive(name, library, &["-Wl,-Bstatic"])
    }

    fn of_archive(name: &str, library: Library, options: &[&str]) -> Program {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-pthread", "-o"]).arg(&path).args(options).arg(source(name)).arg("-L");
        compiler.arg(library.ours()).arg(format!("-l{}", library.name));
        if library.name == "pmemobj" {
            compiler.arg("-lpmem");
        }
        if !options.contains(&"-static") {
            compiler.args(["-Wl,-Bdynamic", "-lgcc_s", "-ldl", "-lm"]);
        }
        assert!(compiler.status().unwrap().success(), "{name}.c does not link with our archive");
        Program { _folder: folder, path, library }
    }

    /// Compiles `c/NAME.rs`, a program in Rust, and links it with our archive.
    pub fn link_rust(name: &str, library: Library) -> Program {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let mut compiler = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        compiler.args(["--edition=2024", "-L"]).arg(library.ours()).arg("-o").arg(&path);
        compiler.arg(source(name).with_extension("rs"));
        assert!(compiler.status().unwrap().success(), "{name}.rs does not link");
        Program { _folder: folder, path, library }
    }

    /// Returns the program's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the library that the program calls.
    pub fn library(&self) -> Library {
        self.library
    }

    /// Runs the program in an empty folder, on our library or on Debian's.
    pub fn run<A: AsRef<OsStr>>(&self, is_ours: bool, arguments: &[A], variables: &[(&str, &str)]) -> Output {
        self.run_in(in_memory().path(), is_ours, arguments, variables)
    }

    /// Runs the program in this folder, on our library or on Debian's.
    pub fn run_in<A: AsRef<OsStr>>(
        &self,
        folder: &Path,
        is_ours: bool,
        arguments: &[A],
        variables: &[(&str, &str)],
    ) -> Output {
        let mut command = Command::new(&self.path);
        command.args(arguments).current_dir(folder);
        on_library(&mut command, is_ours.then(|| self.library.ours()).as_deref());
        command.envs(variables.iter().copied()).output().unwrap()
    }
}

/// Compiles `c/NAME.c`, which calls no library of ours. Returns the program's path and the folder that it is removed with.
pub(crate) fn compiled(name: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&path).arg(source(name));
    assert!(compiler.status().unwrap().success(), "{name}.c does not compile");
    (folder, path)
}

/// Sets the variables of a program's environment that choose its libraries, and removes PMDK's.
pub fn on_library(command: &mut Command, folder: Option<&Path>) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("PMEM") || ["LD_LIBRARY_PATH", "LODE_CPU_MASK", "LODE_OBJ"].contains(&&*text) {
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
