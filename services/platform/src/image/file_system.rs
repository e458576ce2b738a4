//! Data of a namespace: a file system, or a partition table with one.

use super::sectors::Sectors;
use crate::directory::{BttError, Media};
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
        })
    }
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
