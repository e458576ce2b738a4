//! Bad blocks of a source: ranges that the memory has lost.

use crate::code;
use crate::failure::Failure;
use crate::source::Source;
use lode_pmem::{ProgramBacking, Sysfs};
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// The object behind `struct pmem2_badblock_context`.
#[derive(Debug)]
pub(crate) struct BadBlocks {
    backing: ProgramBacking,
    file: BorrowedFd<'static>,
    is_node: bool,
    /// The ranges that the program has not asked for.
    left: std::vec::IntoIter<Range<u64>>,
}

impl BadBlocks {
    /// Lists the bad blocks of a source.
    pub(crate) fn of(source: &Source, sysfs: &Sysfs) -> Result<BadBlocks, Failure> {
        let open = source.open().ok_or_else(|| {
            let text = "Anonymous source does not support bad blocks; use a file or a device-DAX node";
            Failure::new(code::NOSUPP, text)
        })?;
        let backing = open.backing(sysfs);
        let ranges = backing.lost_ranges(open.file).map_err(|error| {
            let remedy = match error.raw_os_error() {
                Some(libc::EOPNOTSUPP) => {
                    "a device below the file's composed device has bad blocks; list those of its parts"
                }
                Some(libc::EACCES) => "the region has bad blocks; run as root",
                _ => return Failure::of_call("ioctl", &error),
            };
            Failure::of_call_with("ioctl", &error, remedy)
        })?;
        Ok(BadBlocks { backing, file: open.file, is_node: open.is_node, left: ranges.into_iter() })
    }

    /// Returns the next one, in bytes of the source.
    pub(crate) fn next(&mut self) -> Result<Range<usize>, Failure> {
        let none = |text: &'static str| Failure::new(code::NO_BAD_BLOCK_FOUND, text);
        if !self.backing.has_region() {
            return Err(none(
                "Cannot find any matching device, no bad blocks found; the source is not on persistent memory",
            ));
        }
        let range = self.left.next().ok_or_else(|| none("no more bad blocks found; the list has ended"))?;
        let [start, end] = [range.start, range.end].map(usize::try_from);
        Ok(start.map_err(|_| Failure::broken())?..end.map_err(|_| Failure::broken())?)
    }

    /// Clears a range, which then has zeros.
    pub(crate) fn clear(&self, offset: usize, len: usize) -> Result<(), Failure> {
        if i64::try_from(offset).is_err() {
            let text = "bad block's offset is greater than INT64_MAX; pass what pmem2_badblock_next gave";
            return Err(Failure::new(code::OFFSET_OUT_OF_RANGE, text));
        }
        if i64::try_from(len).is_err() {
            let text = "bad block's length is greater than INT64_MAX; pass what pmem2_badblock_next gave";
            return Err(Failure::new(code::LENGTH_OUT_OF_RANGE, text));
        }
        let words = if self.is_node { "ndctl_cmd_submit() failed" } else { "fallocate" };
        self.backing
            .clear(self.file, offset as u64, len as u64)
            .map_err(|error| Failure::of_call(words, &error))
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use std::fs::{self, File};
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;

    #[test]
    fn bad_blocks_of_a_node_are_listed_once() {
        let root = tempfile::tempdir().unwrap();
        let region = root.path().join("devices/ndbus77/region3");
        let device = region.join("dax3.0");
        fs::create_dir_all(&device).unwrap();
        fs::create_dir_all(root.path().join("dev/char")).unwrap();
        for (name, value) in [
            ("mappings", "0\n"),
            ("badblocks", "16 2\n64 1\n"),
            ("resource", "0x1000\n"),
            ("dax3.0/resource", "0x2000\n"),
            ("dax3.0/size", "1048576\n"),
        ] {
            fs::write(region.join(name), value).unwrap();
        }
        symlink("../../bus/dax", device.join("subsystem")).unwrap();
        symlink(&device, root.path().join("dev/char/1:5")).unwrap();
        let sysfs = Sysfs::at(root.path());
        let zero: &'static File = Box::leak(Box::new(File::open("/dev/zero").unwrap()));
        let source = Source::of_descriptor(zero.as_fd(), &sysfs).unwrap();
        let mut blocks = BadBlocks::of(&source, &sysfs).unwrap();
        assert_eq!(blocks.next().unwrap(), 4096..5120);
        assert_eq!(blocks.next().unwrap(), 28672..29184);
        assert_eq!(blocks.next().unwrap_err().code, code::NO_BAD_BLOCK_FOUND);
        // The machine of the test has no such bus.
        let failure = blocks.clear(4096, 1024).unwrap_err();
        assert_eq!(
            (failure.code, failure.text.starts_with("ndctl_cmd_submit() failed")),
            (-libc::ENOENT, true)
        );
        assert_eq!(blocks.clear(1 << 63, 1).unwrap_err().code, code::OFFSET_OUT_OF_RANGE);
        assert_eq!(blocks.clear(0, 1 << 63).unwrap_err().code, code::LENGTH_OUT_OF_RANGE);
    }
}
