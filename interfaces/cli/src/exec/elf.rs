//! The file of a program, and the reasons why the loader would not give it our libraries.

use crate::failure::Failure;
use object::elf::{DT_RPATH, DT_RUNPATH, FileHeader64, PT_INTERP};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, elf};
use rustix::fs::getxattr;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Interpreters of interpreters that are followed, as the kernel does.
const INTERPRETERS: usize = 4;
const SET_ID: u32 = 0o6000;

/// A program, or the interpreter of a script.
#[derive(Debug)]
pub(super) struct Elf {
    path: PathBuf,
    /// The loader's path; `None` for a static program.
    loader: Option<PathBuf>,
    /// Folders of DT_RPATH that come before the environment.
    before_environment: Vec<PathBuf>,
    is_privileged: bool,
    is_this_machine: bool,
}

impl Elf {
    /// Reads the program at `path`, or the interpreter if it is a script.
    pub(super) fn of_program(path: &Path) -> Result<Elf, Failure> {
        let mut path = path.to_owned();
        for _ in 0..INTERPRETERS {
            let bytes = fs::read(&path).map_err(|error| refused(&path, &error.to_string()))?;
            match interpreter(&bytes) {
                Some(next) => path = next,
                None => return Elf::parse(path, &bytes),
            }
        }
        Err(refused(&path, "its interpreters are scripts, too many of them"))
    }

    fn parse(path: PathBuf, bytes: &[u8]) -> Result<Elf, Failure> {
        let damaged = |_| refused(&path, "it is no ELF program of 64 bits, and no script");
        let header = FileHeader64::<Endianness>::parse(bytes).map_err(damaged)?;
        let endian = header.endian().map_err(damaged)?;
        let segments = header.program_headers(endian, bytes).map_err(damaged)?;
        let mut loader = None;
        for segment in segments.iter().filter(|segment| segment.p_type(endian) == PT_INTERP) {
            let name = segment
                .data(endian, bytes)
                .map_err(|()| refused(&path, "its loader's name is outside of it"))?;
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            loader = Some(PathBuf::from(OsString::from_vec(name.to_vec())));
        }
        let before_environment = search_path(header, endian, bytes, &path).map_err(damaged)?;
        let metadata = path.metadata().map_err(|error| refused(&path, &error.to_string()))?;
        let has_capabilities = getxattr(&path, "security.capability", &mut [0u8; 64]).is_ok();
        let is_privileged = metadata.permissions().mode() & SET_ID != 0 || has_capabilities;
        let machine = if cfg!(target_arch = "aarch64") { elf::EM_AARCH64 } else { elf::EM_X86_64 };
        let is_this_machine = header.e_machine(endian) == machine;
        Ok(Elf { path, loader, before_environment, is_privileged, is_this_machine })
    }

    /// Returns the path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the loader's path.
    pub(super) fn loader(&self) -> Option<&Path> {
        self.loader.as_deref()
    }

    /// Returns the reason why the program can't get our libraries, which have these sonames; `None` if it can.
    pub(super) fn refusal(&self, sonames: &[&str]) -> Option<String> {
        if !self.is_this_machine {
            return Some("it is a program for another CPU".into());
        }
        if self.loader.is_none() {
            return Some("it is a static program, which has its own copy of the libraries; link it with target/capi/lib anew".into());
        }
        if self.is_privileged {
            let why = "it is setuid or setgid, or has capabilities, so the loader ignores LD_LIBRARY_PATH";
            return Some(format!("{why}; install the libraries in the system's folder"));
        }
        let first = |folder: &&PathBuf| sonames.iter().any(|name| folder.join(name).exists());
        let folder = self.before_environment.iter().find(first)?;
        Some(format!(
            "its DT_RPATH has {} before LD_LIBRARY_PATH, with libraries of these names; remove the entry, as by `chrpath -c`",
            folder.display()
        ))
    }
}

/// Returns the folders of DT_RPATH, which the loader ignores beside DT_RUNPATH.
fn search_path(
    header: &FileHeader64<Endianness>,
    endian: Endianness,
    bytes: &[u8],
    path: &Path,
) -> object::read::Result<Vec<PathBuf>> {
    let sections = header.sections(endian, bytes)?;
    let Some((entries, link)) = sections.dynamic(endian, bytes)? else { return Ok(Vec::new()) };
    let strings = sections.strings(endian, bytes, link)?;
    let has = |tag: u32| entries.iter().find(|entry| entry.tag32(endian) == Some(tag));
    let Some(entry) = has(DT_RPATH).filter(|_| has(DT_RUNPATH).is_none()) else { return Ok(Vec::new()) };
    let text = String::from_utf8_lossy(entry.string(endian, strings)?).into_owned();
    let origin = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let origin = origin.parent().unwrap_or(Path::new("/")).display().to_string();
    let expanded = text.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin);
    Ok(expanded.split(':').filter(|folder| !folder.is_empty()).map(PathBuf::from).collect())
}

/// Returns the interpreter of a script.
fn interpreter(bytes: &[u8]) -> Option<PathBuf> {
    let line = bytes.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let name = line.trim_ascii().split(|byte| byte.is_ascii_whitespace()).next()?;
    Some(PathBuf::from(OsString::from_vec(name.to_vec())))
}

fn refused(path: &Path, why: &str) -> Failure {
    Failure::usage_error(format!("running {}: {why}", path.display()))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn damaged_programs_never_panic() {
        let path = PathBuf::from("/bin/sh");
        let sound = fs::read(&path).unwrap();
        assert!(Elf::parse(path.clone(), &sound).unwrap().loader().is_some());
        for len in (0..sound.len()).step_by(sound.len() / 200 + 1).chain(0..200) {
            let _ = Elf::parse(path.clone(), &sound[..len]);
        }
        // The header, the segments, and the sections at the end.
        let end = sound.len();
        for at in (0..1024).chain(end - 2048..end) {
            for bit in [1, 0x80] {
                let mut damaged = sound.clone();
                damaged[at] ^= bit;
                let _ = Elf::parse(path.clone(), &damaged);
            }
        }
    }

    #[test]
    fn interpreters_of_scripts_are_found() {
        for (script, wanted) in [
            (&b"#!/bin/sh\n"[..], Some("/bin/sh")),
            (b"#! /usr/bin/env python3\n", Some("/usr/bin/env")),
            (b"#!/bin/sh", Some("/bin/sh")),
            (b"\x7fELF", None),
        ] {
            assert_eq!(interpreter(script), wanted.map(PathBuf::from));
        }
    }
}
