//! The parts of an ELF file that matter: its code and its imports.

use crate::own_flush::{OwnFlush, Unreadable};
use object::elf::{self, FileHeader64};
use object::read::elf::{ElfFile, FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, Object, ObjectSymbol, ReadCache, ReadRef};
use std::fs::File;
use std::path::Path;

#[cfg(target_arch = "aarch64")]
use crate::aarch64 as cpu;
#[cfg(target_arch = "x86_64")]
use crate::x86_64 as cpu;

#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = elf::EM_AARCH64;
#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = elf::EM_X86_64;

/// The section that holds the code of our own archives, see `capi/link.sh`: it flushes by way of the log.
const OWN_SECTION: &[u8] = b".lode_text";

/// Bytes of a file that the CPU may run.
#[derive(Clone, Copy, Debug)]
struct Code {
    off: u64,
    len: u64,
    address: u64,
}

/// Returns the first thing in the bytes of a file by which it makes stores durable by itself; `None` if there is none.
///
/// # Errors
/// Fails if they are no ELF file for this CPU, or one that is damaged.
pub fn own_flush(bytes: &[u8]) -> Result<Option<OwnFlush>, Unreadable> {
    first_flush(bytes)
}

/// Returns what [`own_flush`] does of the file at `path`.
///
/// # Errors
/// Those of [`own_flush`], and those of reading.
///
/// # Cost
/// Reads the headers, the symbols for the loader, and the code.
pub fn own_flush_of_file(path: &Path) -> Result<Option<OwnFlush>, Unreadable> {
    let file = File::open(path).map_err(|error| Unreadable(error.to_string()))?;
    first_flush(&ReadCache::new(file))
}

/// Returns the first instruction or import of a file by which it makes stores durable.
fn first_flush<'d, R: ReadRef<'d>>(data: R) -> Result<Option<OwnFlush>, Unreadable> {
    let damaged = |error: object::read::Error| Unreadable(format!("it is no sound ELF file: {error}"));
    let file = ElfFile::<FileHeader64<Endianness>, R>::parse(data).map_err(damaged)?;
    let endian = file.endian();
    if file.elf_header().e_machine(endian) != MACHINE {
        return Err(Unreadable("it is for another CPU".into()));
    }
    let codes = match sections(&file) {
        codes if codes.is_empty() => segments(&file),
        codes => codes,
    };
    let len = data.len().map_err(|()| Unreadable("its length is unknown".into()))?;
    // So a damaged file takes no more time than a sound one.
    if codes.iter().fold(0u64, |sum, code| sum.saturating_add(code.len)) > len {
        return Err(Unreadable("its parts overlap".into()));
    }
    for Code { off, len, address } in codes {
        let outside = |()| Unreadable("its code is outside of it".into());
        let bytes = data.read_bytes_at(off, len).map_err(outside)?;
        if let Some((name, at)) = cpu::first(bytes, address) {
            return Ok(Some(OwnFlush::Instruction { name, at }));
        }
    }
    imports_msync(&file).map(|imports| imports.then_some(OwnFlush::Msync))
}

/// Returns the sections with code, but for ours. None if the file has no table of them.
fn sections<'d, R: ReadRef<'d>>(file: &ElfFile<'d, FileHeader64<Endianness>, R>) -> Vec<Code> {
    let (endian, table) = (file.endian(), file.elf_section_table());
    let is_code = |flags: u64| flags & u64::from(elf::SHF_EXECINSTR) != 0;
    let found = table
        .iter()
        .filter(|section| is_code(section.sh_flags(endian)) && section.sh_type(endian) != elf::SHT_NOBITS);
    found
        .map(|section| {
            let is_own = table.section_name(endian, section) == Ok(OWN_SECTION);
            // A part without bytes stays in the list, so that the segments are not looked at.
            let len = if is_own { 0 } else { section.sh_size(endian) };
            Code { off: section.sh_offset(endian), len, address: section.sh_addr(endian) }
        })
        .collect()
}

/// Returns the segments with code.
fn segments<'d, R: ReadRef<'d>>(file: &ElfFile<'d, FileHeader64<Endianness>, R>) -> Vec<Code> {
    let endian = file.endian();
    let is_code = |segment: &&elf::ProgramHeader64<Endianness>| {
        segment.p_type(endian) == elf::PT_LOAD && segment.p_flags(endian) & elf::PF_X != 0
    };
    let segments = file.elf_program_headers().iter().filter(is_code);
    segments
        .map(|segment| Code {
            off: segment.p_offset(endian),
            len: segment.p_filesz(endian),
            address: segment.p_vaddr(endian),
        })
        .collect()
}

/// Returns true if a file takes msync(2) from another one.
fn imports_msync<'d, R: ReadRef<'d>>(
    file: &ElfFile<'d, FileHeader64<Endianness>, R>,
) -> Result<bool, Unreadable> {
    let is_dynamic =
        |segment: &elf::ProgramHeader64<Endianness>| segment.p_type(file.endian()) == elf::PT_DYNAMIC;
    if file.elf_section_table().is_empty() && file.elf_program_headers().iter().any(is_dynamic) {
        return Err(Unreadable("it has no table of sections, so its imports are unknown".into()));
    }
    let mut symbols = file.dynamic_symbols().filter(ObjectSymbol::is_undefined);
    Ok(symbols.any(|symbol| symbol.name_bytes() == Ok(b"msync")))
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod test {
    use super::*;
    use std::fs;
    use std::process::Command;

    /// Returns the shared object of a source in assembly.
    fn assembled(source: &str) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a.s"), folder.path().join("a.so"));
        fs::write(&from, source).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-nostdlib", "-Wl,--build-id=none", "-o"]).arg(&to).arg(&from);
        assert!(compiler.status().unwrap().success(), "{source}");
        assert_eq!(own_flush_of_file(&to), own_flush(&fs::read(&to).unwrap()), "{source}");
        fs::read(&to).unwrap()
    }

    fn found(source: &str) -> Option<OwnFlush> {
        own_flush(&assembled(source)).unwrap()
    }

    #[test]
    fn instructions_of_files_are_found() {
        for (text, wanted) in [
            ("clwb (%rdi)", "CLWB"),
            ("clflushopt (%r12)", "CLFLUSHOPT"),
            ("clflush 64(%rsp,%rax,8)", "CLFLUSH"),
            ("movnti %rax, (%rdi)", "MOVNTI"),
            ("movntq %mm0, (%rdi)", "MOVNTQ"),
            ("movntdq %xmm9, sym(%rip)", "MOVNTDQ"),
            ("movntps %xmm0, (%rdi)", "MOVNTPS"),
            ("movntpd %xmm0, (%rdi)", "MOVNTPD"),
            ("vmovntdq %ymm0, (%rdi)", "VMOVNTDQ"),
            ("vmovntps %zmm20, 64(%r9)", "VMOVNTPS"),
            ("vmovntpd %xmm0, (%rdi)", "VMOVNTPD"),
        ] {
            let source =
                format!(".hidden sym\n.data\nsym: .quad 0\n.text\npush %rbx\n{text}\npop %rbx\nret\n");
            let Some(OwnFlush::Instruction { name, at }) = found(&source) else {
                panic!("{text} is not found")
            };
            assert_eq!(name, wanted, "{text}");
            assert!(at % 16 == 1, "{text} is at {at:#x}, after the first instruction");
        }
        assert_eq!(OwnFlush::Instruction { name: "CLWB", at: 0x1d2e }.to_string(), "CLWB at 0x1d2e");
    }

    #[test]
    fn other_code_is_passed_over() {
        for source in [
            "sfence\nmfence\nmov (%rdi), %rax\nmovntdqa (%rdi), %xmm0\nprefetchnta (%rdi)\nret\n",
            // Bytes of a constant, and of data.
            "movabs $0x90300fae66900f00, %rax\nret\n.data\n.byte 0x66, 0x0f, 0xae, 0x30\n",
            // Code of our archives.
            ".section .lode_text, \"ax\", @progbits\nclwb (%rdi)\nret\n",
        ] {
            assert_eq!(found(source), None, "{source}");
        }
        assert!(found(".section .text.other, \"ax\", @progbits\nclwb (%rdi)\nret\n").is_some());
    }

    #[test]
    fn imports_of_msync_are_found() {
        assert_eq!(found("call msync@PLT\nret\n"), Some(OwnFlush::Msync));
        assert_eq!(OwnFlush::Msync.to_string(), "an import of msync");
        assert_eq!(found("call msync2@PLT\ncall munmap@PLT\nret\n"), None);
        assert_eq!(found(".globl msync\nmsync: ret\n"), None, "it has its own");
    }

    /// Without a table of sections the segments are looked at, and the imports are unknown.
    #[test]
    fn files_without_sections_are_read_by_segments() {
        let mut flushing = assembled("clwb (%rdi)\nret\n");
        let mut other = assembled("ret\n");
        for file in [&mut flushing, &mut other] {
            // e_shoff, e_shnum and e_shstrndx.
            file[40..48].fill(0);
            file[60..64].fill(0);
        }
        assert!(matches!(own_flush(&flushing), Ok(Some(OwnFlush::Instruction { name: "CLWB", .. }))));
        assert!(own_flush(&other).unwrap_err().to_string().contains("imports are unknown"));
    }

    #[test]
    fn other_files_are_unreadable() {
        let sound = assembled("ret\n");
        for (at, value, words) in [(18, 183, "another CPU"), (0, 0, "no sound ELF"), (4, 1, "no sound ELF")] {
            let mut file = sound.clone();
            file[at] = value;
            let error = own_flush(&file).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert!(own_flush(b"#!/bin/sh\n").is_err());
        assert!(own_flush_of_file(Path::new("/missing")).unwrap_err().to_string().contains("No such file"));
    }

    #[test]
    fn damaged_files_never_panic() {
        let sound = assembled("push %rbx\nclwb (%rdi)\ncall msync@PLT\nret\n");
        for len in 0..sound.len() {
            let _ = own_flush(&sound[..len]);
        }
        for at in 0..sound.len() {
            for bit in [1, 0x10, 0x80] {
                let mut damaged = sound.clone();
                damaged[at] ^= bit;
                let _ = own_flush(&damaged);
            }
        }
    }
}
