//! The code of a process.

use anyhow::{Context, Result};
use object::elf::FileHeader64;
use object::read::elf::ElfFile;
use object::{Endianness, Object, ObjectSection, SectionKind};
use std::fs;
use std::path::{Path, PathBuf};

/// A section of a file that a process may execute.
pub(super) struct MappedCode {
    path: PathBuf,
    address: u64,
    bytes: Vec<u8>,
}

/// A part of a file in the memory of a process.
struct Mapping<'m> {
    path: &'m Path,
    start: u64,
    len: u64,
    off: u64,
}

impl<'m> Mapping<'m> {
    /// Parses a line of `/proc/PID/maps`. `None` if it is no part of a file, or one that holds no code.
    fn of_line(line: &'m str) -> Option<Mapping<'m>> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [range, access, off, _, _, path] = words[..] else { return None };
        let (start, end) = range.split_once('-')?;
        let number = |digits| u64::from_str_radix(digits, 16).ok();
        let (start, end, off) = (number(start)?, number(end)?, number(off)?);
        let is_code = access.contains('x') && path.starts_with('/');
        is_code.then(|| Mapping { path: Path::new(path), start, len: end - start, off })
    }
}

impl MappedCode {
    /// Returns the code of the process with the number `process`.
    ///
    /// # Errors
    /// Fails if the list of its mappings or one of its files can't be read.
    pub(super) fn of_process(process: u32) -> Result<Vec<MappedCode>> {
        let list = fs::read_to_string(format!("/proc/{process}/maps")).context("reading the mappings")?;
        let mut codes = Vec::new();
        for mapping in list.lines().filter_map(Mapping::of_line) {
            let context = || format!("reading the code of {}", mapping.path.display());
            codes.extend(MappedCode::of_mapping(&mapping).with_context(context)?);
        }
        Ok(codes)
    }

    fn of_mapping(mapping: &Mapping<'_>) -> Result<Vec<MappedCode>> {
        let file = fs::read(mapping.path)?;
        let elf = ElfFile::<FileHeader64<Endianness>>::parse(&*file)?;
        let mut codes = Vec::new();
        for section in elf.sections().filter(|section| section.kind() == SectionKind::Text) {
            let Some((off, len)) = section.file_range() else { continue };
            if off < mapping.off || off + len > mapping.off + mapping.len {
                continue;
            }
            let address = mapping.start + (off - mapping.off);
            codes.push(MappedCode {
                path: mapping.path.to_owned(),
                address,
                bytes: section.data()?.to_vec(),
            });
        }
        Ok(codes)
    }

    /// Returns the name of the file.
    pub(super) fn file_name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Returns the address of the first byte in the process.
    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// Returns the bytes, as they are in the file.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn own_code_is_found() {
        let codes = MappedCode::of_process(std::process::id()).unwrap();
        let own = std::env::current_exe().unwrap();
        let address = own_code_is_found as *const () as u64;
        let holds =
            |code: &&MappedCode| (0..code.bytes.len() as u64).contains(&address.wrapping_sub(code.address));
        assert_eq!(codes.iter().find(holds).unwrap().path, own);
    }
}
