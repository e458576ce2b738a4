//! The parts of a program that decide which libraries the loader gives it.

use crate::own_flush::Unreadable;
use object::elf::{self, DT_RPATH, DT_RUNPATH, FileHeader64, PT_INTERP};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, read};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// A program, as the kernel and the loader read it. Source: the System V ABI, "Object Files" and "Dynamic Linking"; ld.so(8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The loader's path; `None` for a static program.
    pub loader: Option<PathBuf>,
    /// DT_RPATH: folders, with colons between them, in which the loader looks before those of the environment. `None` without the entry, and
    /// beside DT_RUNPATH, where the loader ignores it.
    pub rpath: Option<String>,
    /// True if the program is for this CPU.
    pub is_for_this_cpu: bool,
}

impl Program {
    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// They are no ELF file of 64 bits, or one that is damaged.
    pub fn parse(bytes: &[u8]) -> Result<Program, Unreadable> {
        let damaged = |_| Unreadable("it is no ELF program of 64 bits, and no script".into());
        let header = FileHeader64::<Endianness>::parse(bytes).map_err(damaged)?;
        let endian = header.endian().map_err(damaged)?;
        let segments = header.program_headers(endian, bytes).map_err(damaged)?;
        let mut loader = None;
        for segment in segments.iter().filter(|segment| segment.p_type(endian) == PT_INTERP) {
            let name = segment
                .data(endian, bytes)
                .map_err(|()| Unreadable("its loader's name is outside of it".into()))?;
            loader = name.split(|byte| *byte == 0).next().map(path);
        }
        let rpath = rpath(header, endian, bytes).map_err(damaged)?;
        let machine = if cfg!(target_arch = "aarch64") { elf::EM_AARCH64 } else { elf::EM_X86_64 };
        let is_for_this_cpu = header.e_machine(endian) == machine;
        Ok(Program { loader, rpath, is_for_this_cpu })
    }
}

/// Returns the interpreter of a script; `None` for another file. Source: execve(2).
pub fn interpreter_of_script(bytes: &[u8]) -> Option<PathBuf> {
    let line = bytes.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    line.trim_ascii().split(|byte| byte.is_ascii_whitespace()).next().map(path)
}

fn rpath(
    header: &FileHeader64<Endianness>,
    endian: Endianness,
    bytes: &[u8],
) -> read::Result<Option<String>> {
    let sections = header.sections(endian, bytes)?;
    let Some((entries, link)) = sections.dynamic(endian, bytes)? else { return Ok(None) };
    let strings = sections.strings(endian, bytes, link)?;
    let has = |tag: u32| entries.iter().find(|entry| entry.tag32(endian) == Some(tag));
    let Some(entry) = has(DT_RPATH).filter(|_| has(DT_RUNPATH).is_none()) else { return Ok(None) };
    Ok(Some(String::from_utf8_lossy(entry.string(endian, strings)?).into_owned()))
}

fn path(name: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(name.to_vec()))
}

#[cfg(test)]
mod test {
    use super::*;
    use std::fs;

    #[test]
    fn damaged_programs_never_panic() {
        let sound = fs::read("/bin/sh").unwrap();
        let program = Program::parse(&sound).unwrap();
        assert!(program.loader.is_some() && program.is_for_this_cpu);
        for len in (0..sound.len()).step_by(sound.len() / 200 + 1).chain(0..200) {
            let _ = Program::parse(&sound[..len]);
        }
        // The header, the segments, and the sections at the end.
        let end = sound.len();
        for at in (0..1024).chain(end - 2048..end) {
            for bit in [1, 0x80] {
                let mut damaged = sound.clone();
                damaged[at] ^= bit;
                let _ = Program::parse(&damaged);
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
            assert_eq!(interpreter_of_script(script), wanted.map(PathBuf::from));
        }
    }
}
