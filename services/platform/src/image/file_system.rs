//! Data of a namespace: a file system, or a partition table with one.

use super::sectors::Sectors;
use crate::directory::{BttError, Directory, Media};
use crate::error::PlatformError;
use crate::namespace::{Namespace, Personality};
use crate::region::Region;
use std::ops::Range;
use uuid::Uuid;

/// Bytes at the start of the data that identify the file system.
pub(super) const HEAD: u64 = 8192;
/// Bytes of a sector of partition tables.
const SECTOR: u64 = 512;

/// A file system, as described by its superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// `ext4` or `xfs`.
    pub kind: &'static str,
    /// Its volume label.
    pub label: String,
    /// Its UUID.
    pub uuid: Uuid,
    /// Offset in bytes from the start of the data; greater than 0 after a partition table.
    pub off: u64,
    /// Space that it offers to files; `None` if the superblock does not tell.
    pub space: Option<FileSystemSpace>,
}

/// Space of a file system in bytes, as a kernel reports it once it is mounted (`statfs`, `df`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystemSpace {
    /// Bytes for files: without the tables of the file system.
    pub total: u64,
    /// Bytes of them that are free.
    pub free: u64,
    /// Free bytes that any user can have.
    pub available: u64,
}

/// Returns the range of the namespace's data in its region; `None` in sector mode, where it is not contiguous.
pub(super) fn data_range(namespace: &Namespace) -> Option<Range<u64>> {
    let Namespace { offset, size, personality, .. } = namespace;
    match personality {
        Personality::Raw | Personality::Legacy => Some(*offset..offset + size),
        Personality::PageMap(info) => {
            let start = offset + info.data_start().min(*size);
            Some(start..start + info.data_len(*size))
        }
        Personality::Sectors { .. } => None,
    }
}

impl Directory {
    /// Returns a namespace and the file system on it; `None` for the file system if there is none that is known.
    ///
    /// # Errors
    /// Fails if the namespace does not exist, or its start can't be read.
    pub fn file_system(&self, name: &str) -> Result<(Namespace, Option<FileSystem>), PlatformError> {
        let (region, namespace) = self.platform().namespace(name)?;
        let found = FileSystem::find(&mut self.media(), &region, &namespace)?;
        Ok((namespace, found))
    }
}

impl FileSystem {
    /// Finds the file system of a namespace; `None` if the type is unknown.
    pub(super) fn find(
        media: &mut Media,
        region: &Region,
        namespace: &Namespace,
    ) -> Result<Option<FileSystem>, PlatformError> {
        let mut read = |off: u64| match data_range(namespace) {
            Some(range) if range.end - range.start >= off + HEAD => {
                media.bytes(region, range.start + off, HEAD)
            }
            Some(_) => Ok(Vec::new()),
            None => match Sectors::open(media, region, namespace) {
                Ok(Some(sectors)) => match sectors.bytes(media, off, HEAD) {
                    Err(PlatformError::Btt(BttError::Arena { .. })) => Ok(Vec::new()),
                    read => read,
                },
                // A damaged BTT is treated as no file system.
                Ok(None)
                | Err(PlatformError::Btt(
                    BttError::Arena { .. } | BttError::ArenaInfo { .. } | BttError::ArenaEnd { .. },
                )) => Ok(Vec::new()),
                Err(error) => Err(error),
            },
        };
        let head = read(0)?;
        if let Some(found) = FileSystem::at(&head, 0) {
            return Ok(Some(found));
        }
        match first_partition(&head) {
            Some(off) => Ok(FileSystem::at(&read(off)?, off)),
            None => Ok(None),
        }
    }

    /// Identifies the file system that begins with these bytes. Never panics, for any bytes.
    pub fn at(bytes: &[u8], off: u64) -> Option<FileSystem> {
        FileSystem::ext4(bytes, off).or_else(|| FileSystem::xfs(bytes, off))
    }

    /// Parses an ext4 superblock, at byte 1024 (Linux, Documentation/filesystems/ext4/super.rst).
    fn ext4(bytes: &[u8], off: u64) -> Option<FileSystem> {
        let block = bytes.get(1024..2048)?;
        const MAGIC: [u8; 2] = [0x53, 0xef];
        /// Files are mapped by extents, which identifies ext4.
        const EXTENTS: u8 = 0x40;
        let is_ext4 = block[0x38..0x3a] == MAGIC && block[0x60] & EXTENTS != 0;
        is_ext4.then(|| FileSystem {
            kind: "ext4",
            label: text(&block[0x78..0x88]),
            uuid: uuid(&block[0x68..0x78]),
            off,
            space: ext4_space(block),
        })
    }

    /// Parses an XFS superblock, in the first sector (Linux, Documentation/filesystems/xfs).
    fn xfs(bytes: &[u8], off: u64) -> Option<FileSystem> {
        let block = bytes.get(..SECTOR as usize)?;
        block.starts_with(b"XFSB").then(|| FileSystem {
            kind: "xfs",
            label: text(&block[108..120]),
            uuid: uuid(&block[32..48]),
            off,
            space: xfs_space(block),
        })
    }
}

/// Returns the space of ext4 as ext4_statfs computes it (Linux, fs/ext4/super.c); `None` without the number of blocks of
/// tables, which mke2fs writes since 1.43.
fn ext4_space(block: &[u8]) -> Option<FileSystemSpace> {
    /// Block numbers have 64 bits.
    const WIDE: u32 = 0x80;
    /// Clusters that the kernel keeps for its own, at most: one of 50.
    const RESERVED_MAX: u64 = 4096;
    let number = |at: usize| Some(u32::from_le_bytes(block.get(at..at + 4)?.try_into().ok()?));
    let is_wide = number(0x60)? & WIDE != 0;
    let count = |low: usize, high: usize| {
        let high = if is_wide { number(high)? } else { 0 };
        Some(u64::from(high) << 32 | u64::from(number(low)?))
    };
    let blocks = count(0x4, 0x150)?;
    let (reserved, free) = (count(0x8, 0x154)?, count(0xc, 0x158)?);
    let tables = u64::from(number(0x248)?);
    let size = 1024_u64.checked_shl(number(0x18)?).filter(|size| (1024..=64 << 10).contains(size))?;
    let total = blocks.checked_sub(tables).filter(|total| tables > 0 && free <= *total)?;
    let available = free.saturating_sub(reserved).saturating_sub((blocks / 50).min(RESERVED_MAX));
    let bytes = |blocks: u64| blocks.checked_mul(size);
    Some(FileSystemSpace { total: bytes(total)?, free: bytes(free)?, available: bytes(available)? })
}

/// Returns the space of XFS as xfs_fs_statfs computes it of a file system that is mounted read-only (Linux,
/// fs/xfs/xfs_super.c). Mounted for writing, it keeps more to itself.
fn xfs_space(block: &[u8]) -> Option<FileSystemSpace> {
    /// Blocks of each allocation group that are set aside.
    const SET_ASIDE: u64 = 8;
    let number = |at: usize| Some(u64::from(u32::from_be_bytes(block.get(at..at + 4)?.try_into().ok()?)));
    let wide = |at: usize| Some(number(at)? << 32 | number(at + 4)?);
    let (size, blocks, groups, log, free) = (number(4)?, wide(8)?, number(88)?, number(96)?, wide(144)?);
    let total = blocks.checked_sub(log).filter(|total| size > 0 && free <= *total)?;
    let free = free.saturating_sub(SET_ASIDE * groups);
    let bytes = |blocks: u64| blocks.checked_mul(size);
    Some(FileSystemSpace { total: bytes(total)?, free: bytes(free)?, available: bytes(free)? })
}

/// Returns the offset in bytes of the first partition of an MBR partition table.
fn first_partition(bytes: &[u8]) -> Option<u64> {
    let entry = bytes.get(446..462).filter(|_| bytes.get(510..512) == Some(&[0x55, 0xaa]))?;
    let start = u64::from(u32::from_le_bytes(entry[8..12].try_into().ok()?));
    (entry[4] != 0 && start > 0).then_some(start * SECTOR)
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn uuid(bytes: &[u8]) -> Uuid {
    Uuid::from_slice(bytes).unwrap_or_default()
}

#[cfg(test)]
mod test {
    use super::*;

    /// Kernel 6.18 reported these numbers by `df -k` for file systems of mke2fs 1.47 and mkfs.xfs 6.1, mounted read-only.
    #[test]
    fn space_matches_kernel() {
        let kib = |total: u64, used: u64, available: u64| {
            Some(FileSystemSpace {
                total: total << 10,
                free: (total - used) << 10,
                available: available << 10,
            })
        };
        let mut ext4 = [0; 1024];
        for (at, number) in
            [(0x4, 524_288_u32), (0x8, 26_214), (0xc, 498_132), (0x18, 2), (0x60, 0x2c2), (0x248, 26_150)]
        {
            ext4[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        assert_eq!(ext4_space(&ext4), kib(1_992_552, 24, 1_871_288));
        ext4[0x248..0x24c].fill(0);
        assert_eq!(ext4_space(&ext4), None, "the kernel counts the tables itself");
        let mut xfs = [0; 512];
        for (at, number) in [(4, 4096_u32), (12, 1_048_576), (88, 4), (96, 16_384), (148, 1_032_160)] {
            xfs[at..at + 4].copy_from_slice(&number.to_be_bytes());
        }
        assert_eq!(xfs_space(&xfs), kib(4_128_768, 256, 4_128_512));
        for junk in [0, 0xff] {
            assert_eq!((ext4_space(&[junk; 1024]), xfs_space(&[junk; 512])), (None, None), "{junk}");
        }
    }
}
