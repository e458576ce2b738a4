//! What a namespace holds: a file system, or a partition table with one.

use super::sectors::Sectors;
use crate::directory::Media;
use crate::error::PlatformError;
use crate::namespace::{Namespace, Personality};
use crate::region::Region;
use std::ops::Range;
use uuid::Uuid;

/// Bytes at the start of the data that tell what it is.
pub(super) const HEAD: u64 = 8192;
/// Bytes of a sector of partition tables.
const SECTOR: u64 = 512;

/// A file system, as its superblock tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// `ext4` or `xfs`.
    pub kind: &'static str,
    /// What its user calls it.
    pub label: String,
    /// Who it is.
    pub uuid: Uuid,
    /// Where it begins, in bytes from the start of the data: behind a partition table if there is one.
    pub off: u64,
}

/// Where in its region the data of a namespace lies, if it lies there in one piece.
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
    /// The file system of a namespace, if it is one that is known.
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
                    Err(PlatformError::Arena { .. }) => Ok(Vec::new()),
                    read => read,
                },
                // A table that is damaged is no file system.
                Ok(None)
                | Err(
                    PlatformError::Arena { .. }
                    | PlatformError::ArenaInfo { .. }
                    | PlatformError::ArenaEnd { .. },
                ) => Ok(Vec::new()),
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

    /// The file system that begins with these bytes. Never panics, whatever the bytes are.
    pub fn at(bytes: &[u8], off: u64) -> Option<FileSystem> {
        FileSystem::ext4(bytes, off).or_else(|| FileSystem::xfs(bytes, off))
    }

    /// Linux, Documentation/filesystems/ext4/super.rst: 1024 bytes from the start.
    fn ext4(bytes: &[u8], off: u64) -> Option<FileSystem> {
        let block = bytes.get(1024..2048)?;
        const MAGIC: [u8; 2] = [0x53, 0xef];
        /// Files are mapped by extents, which makes it ext4.
        const EXTENTS: u8 = 0x40;
        let is_ext4 = block[0x38..0x3a] == MAGIC && block[0x60] & EXTENTS != 0;
        is_ext4.then(|| FileSystem {
            kind: "ext4",
            label: text(&block[0x78..0x88]),
            uuid: uuid(&block[0x68..0x78]),
            off,
        })
    }

    /// Linux, Documentation/filesystems/xfs: the superblock is the first sector.
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

/// Where the first partition of a table of the old kind begins, in bytes.
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
