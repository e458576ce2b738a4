//! The file of a program, and the reasons why the loader would not give it our libraries.

use crate::failure::Failure;
use lode_capi_program::{Program, interpreter_of_script};
use rustix::fs::getxattr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Interpreters of interpreters that are followed, as the kernel does.
const INTERPRETERS: usize = 4;
const SET_ID: u32 = 0o6000;

/// A program, or the interpreter of a script.
#[derive(Debug)]
pub(super) struct Elf {
    path: PathBuf,
    program: Program,
    is_privileged: bool,
}

impl Elf {
    /// Reads the program at `path`, or the interpreter if it is a script.
    pub(super) fn of_program(path: &Path) -> Result<Elf, Failure> {
        let mut path = path.to_owned();
        for _ in 0..INTERPRETERS {
            let bytes = fs::read(&path).map_err(|error| refused(&path, &error.to_string()))?;
            match interpreter_of_script(&bytes) {
                Some(next) => path = next,
                None => return Elf::parse(path, &bytes),
            }
        }
        Err(refused(&path, "its interpreters are scripts, too many of them"))
    }

    fn parse(path: PathBuf, bytes: &[u8]) -> Result<Elf, Failure> {
        let program = Program::parse(bytes).map_err(|error| refused(&path, &error.to_string()))?;
        let metadata = path.metadata().map_err(|error| refused(&path, &error.to_string()))?;
        let has_capabilities = getxattr(&path, "security.capability", &mut [0u8; 64]).is_ok();
        let is_privileged = metadata.permissions().mode() & SET_ID != 0 || has_capabilities;
        Ok(Elf { path, program, is_privileged })
    }

    /// Returns the path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the loader's path.
    pub(super) fn loader(&self) -> Option<&Path> {
        self.program.loader.as_deref()
    }

    /// Returns the reason why the program can't get our libraries, which have these sonames; `None` if it can.
    pub(super) fn refusal(&self, sonames: &[&str]) -> Option<String> {
        if !self.program.is_for_this_cpu {
            return Some("it is a program for another CPU".into());
        }
        if self.loader().is_none() {
            return Some("it is a static program, which has its own copy of the libraries; link it with target/capi/lib anew".into());
        }
        if self.is_privileged {
            let why = "it is setuid or setgid, or has capabilities, so the loader ignores LD_LIBRARY_PATH";
            return Some(format!("{why}; install the libraries in the system's folder"));
        }
        let is_first = |folder: &PathBuf| sonames.iter().any(|name| folder.join(name).exists());
        let folder = self.before_environment().into_iter().find(is_first)?;
        Some(format!(
            "its DT_RPATH has {} before LD_LIBRARY_PATH, with libraries of these names; remove the entry, as by `chrpath -c`",
            folder.display()
        ))
    }

    /// Returns the folders in which the loader looks before those of the environment.
    fn before_environment(&self) -> Vec<PathBuf> {
        let Some(rpath) = &self.program.rpath else { return Vec::new() };
        let origin = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        let origin = origin.parent().unwrap_or(Path::new("/")).display().to_string();
        let expanded = rpath.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin);
        expanded.split(':').filter(|folder| !folder.is_empty()).map(PathBuf::from).collect()
    }
}

fn refused(path: &Path, why: &str) -> Failure {
    Failure::usage_error(format!("running {}: {why}", path.display()))
}
