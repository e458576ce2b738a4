//! The processes that map a file, from /proc (proc(5), `/proc/pid/maps`).

use std::fs::{self, Metadata};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A process that maps a range of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapper {
    /// Process id.
    pub pid: u32,
    /// Name of the program.
    pub program: String,
    /// Addresses in the process.
    pub addresses: Range<u64>,
    /// Offset in the file of the first address.
    pub file_off: u64,
}

/// Returns the processes whose mappings have any byte of `range` of the file. Other users' processes are seen by root only.
pub fn mappers(path: &Path, range: &Range<u64>) -> Vec<Mapper> {
    let mut found = mappers_of(path);
    found.retain(|mapper| {
        let len = mapper.addresses.end - mapper.addresses.start;
        mapper.file_off < range.end && range.start < mapper.file_off.saturating_add(len)
    });
    found
}

/// Returns the processes that map the file. Other users' processes are seen by root only.
pub fn mappers_of(path: &Path) -> Vec<Mapper> {
    let Ok(path) = fs::canonicalize(path) else { return Vec::new() };
    let Ok(status) = fs::metadata(&path) else { return Vec::new() };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut found = Vec::new();
    for process in processes {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // A process that ends meanwhile maps nothing.
        let maps = fs::read(process.path().join("maps")).unwrap_or_default();
        for line in maps.split(|byte| *byte == b'\n') {
            if let Some(mapping) = mapping(line).filter(|mapping| mapping.is_of(&path, &status)) {
                let program = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
                let program = program.trim_end().to_owned();
                found.push(Mapper { pid, program, addresses: mapping.addresses, file_off: mapping.offset });
            }
        }
    }
    found.sort_by_key(|mapper| (mapper.pid, mapper.addresses.start));
    found
}

/// A line of `maps`.
#[derive(Debug, PartialEq, Eq)]
struct Mapping<'a> {
    addresses: Range<u64>,
    offset: u64,
    /// Major and minor number, and inode.
    file: (u32, u32, u64),
    path: &'a [u8],
}

impl Mapping<'_> {
    /// Some file systems show another device number here than in the status of the file, but the right path.
    fn is_of(&self, path: &Path, status: &Metadata) -> bool {
        let (major, minor) = (rustix::fs::major(status.dev()), rustix::fs::minor(status.dev()));
        self.file == (major, minor, status.ino())
            || self.file.2 == status.ino() && path.as_os_str().as_encoded_bytes() == self.path
    }
}

/// Reads a line: addresses, rights, offset, device, inode and path.
fn mapping(line: &[u8]) -> Option<Mapping<'_>> {
    let mut rest = line;
    let mut word = || {
        let start = rest.iter().position(|byte| *byte != b' ')?;
        rest = &rest[start..];
        let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        let word = std::str::from_utf8(&rest[..end]).ok()?;
        rest = &rest[end..];
        Some(word)
    };
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = word()?.split_once('-')?;
    let addresses = hex(start)?..hex(end)?;
    word()?;
    let offset = hex(word()?)?;
    let (major, minor) = word()?.split_once(':')?;
    let file = (hex(major)?.try_into().ok()?, hex(minor)?.try_into().ok()?, word()?.parse().ok()?);
    let path = rest.iter().position(|byte| *byte != b' ').map_or(&[][..], |start| &rest[start..]);
    (addresses.start <= addresses.end).then_some(Mapping { addresses, offset, file, path })
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn lines_of_maps_are_read() {
        let line =
            b"7f2c40000000-7f2c60000000 rw-s 00200000 103:0a 1234                       /mnt/pmem 0/pool";
        let found = mapping(line).unwrap();
        assert_eq!(found.addresses, 0x7f2c_4000_0000..0x7f2c_6000_0000);
        assert_eq!((found.offset, found.file), (0x20_0000, (0x103, 10, 1234)));
        assert_eq!(found.path, b"/mnt/pmem 0/pool");
        assert_eq!(mapping(b"55d0-55d1 r--p 0 00:00 0").unwrap().path, b"");
        for bad in ["", "1-2", "x-y r 0 0:0 0", "2-1 r 0 0:0 0 /a", "1-2 r 0 0 0"] {
            assert_eq!(mapping(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn own_program_is_mapped_by_this_process() {
        let own = std::env::current_exe().unwrap();
        let found = mappers(&own, &(0..1));
        assert!(found.iter().any(|mapper| mapper.pid == std::process::id()), "{found:?}");
        assert_eq!(mappers(&own, &(u64::MAX - 1..u64::MAX)), []);
    }

    /// A process that maps the end of a range, and not its first byte, was left out.
    #[test]
    fn mappings_of_any_byte_of_a_range_are_found() {
        let own = std::env::current_exe().unwrap();
        let of_this_process = |mapper: &&Mapper| mapper.pid == std::process::id() && mapper.file_off > 0;
        let all = mappers_of(&own);
        let later = all.iter().find(of_this_process).unwrap();
        let last = later.file_off + (later.addresses.end - later.addresses.start) - 1;
        for (range, is_in) in [
            (later.file_off - 1..later.file_off + 1, true),
            (later.file_off - 1..later.file_off, false),
            (last..last + 1, true),
            (last + 1..last + 2, false),
        ] {
            assert_eq!(mappers(&own, &range).contains(later), is_in, "{range:?} of {later:?}");
        }
    }
}
