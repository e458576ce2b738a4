//! Programs: any file has a flush of its own at an address, an import, none, or is unreadable; and a loader, or none.

use lode_capi_program::{OwnFlush, Program, interpreter_of_script, own_flush};

/// Looks for flushes in a file, and in its bytes as code, and for what the loader reads.
pub fn run(data: &[u8]) {
    look(data);
    if let Err(error) = Program::parse(data) {
        assert!(!error.to_string().is_empty());
    }
    let is_script = data.starts_with(b"#!");
    assert!(is_script || interpreter_of_script(data).is_none());
    let file = with_section(".text", data);
    let found = look(&file);
    if let Some(OwnFlush::Instruction { at, .. }) = found {
        assert!((ADDRESS..ADDRESS + data.len() as u64).contains(&at), "{at:#x}");
    }
    assert_eq!(look(&with_section(".lode_text", data)), None);
}

fn look(file: &[u8]) -> Option<OwnFlush> {
    match own_flush(file) {
        Ok(found) => {
            assert!(found.is_none_or(|found| !found.to_string().is_empty()));
            found
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

/// The address of the code.
const ADDRESS: u64 = 0x1000;
/// Bytes of a file's header, and of a section's.
const HEADER: usize = 64;

/// Returns an ELF file for this CPU, with one section of code.
fn with_section(name: &str, code: &[u8]) -> Vec<u8> {
    let names = format!("\0{name}\0.names\0");
    let code_off = HEADER + names.len();
    let table_off = (code_off + code.len()).next_multiple_of(8);
    let machine: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    for half in [3, machine, 1, 0] {
        file.extend(half.to_le_bytes());
    }
    for word in [0, 0, table_off as u64] {
        file.extend(word.to_le_bytes());
    }
    // Flags; bytes of this header; no program headers; sections, and the one of their names.
    for half in [0, 0, HEADER as u16, 56, 0, HEADER as u16, 3, 2] {
        file.extend(half.to_le_bytes());
    }
    file.extend_from_slice(names.as_bytes());
    file.extend_from_slice(code);
    file.resize(table_off + HEADER, 0);
    // Type, flags (allocated, code), address, place and bytes.
    let sections =
        [(1, 1u32, 6, ADDRESS, code_off, code.len()), (name.len() + 2, 3, 0, 0, HEADER, names.len())];
    for (name, kind, flags, address, off, len) in sections {
        file.extend((name as u32).to_le_bytes());
        file.extend(kind.to_le_bytes());
        for word in [flags, address, off as u64, len as u64, 0, 1, 0] {
            file.extend(word.to_le_bytes());
        }
    }
    file
}

/// Returns an ELF file with one segment, which names its loader, and no sections.
fn with_loader(loader: &str) -> Vec<u8> {
    const SEGMENT: usize = 56;
    let mut file = with_section(".text", b"");
    file.truncate(HEADER);
    // e_phoff, e_shoff, e_phnum, e_shnum and e_shstrndx.
    file[32..40].copy_from_slice(&(HEADER as u64).to_le_bytes());
    file[40..48].fill(0);
    file[56..58].copy_from_slice(&1u16.to_le_bytes());
    file[60..64].fill(0);
    let (off, len) = ((HEADER + SEGMENT) as u64, loader.len() as u64 + 1);
    // PT_INTERP, readable.
    file.extend([3u32, 4].iter().flat_map(|word| word.to_le_bytes()));
    for word in [off, off, off, len, len, 1] {
        file.extend(word.to_le_bytes());
    }
    file.extend_from_slice(loader.as_bytes());
    file.push(0);
    file
}

/// Returns files with and without a flush, code, a program with a loader, and a script.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let clwb = b"\x53\x66\x0f\xae\x37\x0f\xae\xf8\x5b\xc3";
    let vector = b"\xc5\xfd\xe7\x07\x62\xf1\x7d\x48\xe7\x07\x0f\x2b\x06\x48\x0f\xc3\x07\xc3";
    let plain = b"\x48\x89\xd8\x48\xb8\x66\x0f\xae\x30\x0f\xc3\x07\x00\x85\xc0\x74\x02\x0f\xae\xe8\xc3";
    vec![
        ("flush", with_section(".text", clwb)),
        ("none", with_section(".text", plain)),
        ("own", with_section(".lode_text", clwb)),
        ("code", clwb.to_vec()),
        ("vector_code", [&[0x90; 80], &vector[..]].concat()),
        ("plain_code", plain.repeat(8)),
        ("loaded", with_loader("/lib/ld.so")),
        ("script", b"#! /usr/bin/env python3\n".to_vec()),
    ]
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn seeds_have_what_they_say() {
        let found: Vec<_> = seeds().into_iter().map(|(name, file)| (name, own_flush(&file))).collect();
        let wanted =
            cfg!(target_arch = "x86_64").then_some(OwnFlush::Instruction { name: "CLWB", at: ADDRESS + 1 });
        assert_eq!(found[..3], [("flush", Ok(wanted)), ("none", Ok(None)), ("own", Ok(None))]);
        assert!(found[3..6].iter().all(|(_, found)| found.is_err()));
        let loaded = Program::parse(&with_loader("/lib/ld.so")).unwrap();
        assert_eq!((loaded.loader, loaded.rpath), (Some("/lib/ld.so".into()), None));
    }

    #[test]
    fn mixed_seeds_never_panic() {
        crate::run_mixed_seeds(&seeds(), 2000, run);
    }
}
