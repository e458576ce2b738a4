//! The survey of a device or a file, before a volume is made in its place.

use crate::error::VolumeError;
use crate::occupant::Occupant;
use crate::recognise::{Found, pool_header, recognise};
use lode_layout::{BLOCK, PmdkHeader, PmdkHeaderError, PoolOffset, align_down};
use lode_nvdimm::{
    BttGeometry, BttVersion, InfoBlockError, LabelArea, LabelError, PAGE_MAP_OFF, PageMapInfo,
};
use lode_pmem::{Fault, Medium};

/// Bytes at the end of an image of a memory module in which its label area begins, at the latest.
const LABELS_MAX: u64 = 16 << 20;

/// The bytes with which an index block of a label area begins.
const LABELS_SIGNATURE: &[u8] = b"NAMESPACE_INDEX\0";

/// The number with which the superblock of a Linux software RAID begins, little-endian.
const RAID: &[u8] = b"\xfc\x4e\x2b\xa9";

/// Signatures of other programs: offset, bytes, and the content that they identify.
const SIGNATURES: [(u64, &[u8], &str); 26] = [
    (0, b"LUKS\xba\xbe", "an encrypted device"),
    (0, b"XFSB", "a file system, XFS"),
    (0x438, b"\x53\xef", "a file system, ext2, ext3 or ext4"),
    (0x1_0040, b"_BHRfS_M", "a file system, btrfs"),
    (1024, b"\x10\x20\xf5\xf2", "a file system, F2FS"),
    (0, b"hsqs", "a file system, squashfs"),
    (1024, b"\xe2\xe1\xf5\xe0", "a file system, EROFS"),
    (0x8001, b"CD001", "a file system, ISO 9660"),
    (0x1_0034, b"ReIsEr", "a file system, ReiserFS"),
    (0x8000, b"JFS1", "a file system, JFS"),
    (0x406, b"\x34\x34", "a file system, NILFS2"),
    (0x1_0000, b"\x01\x16\x19\x70", "a file system, GFS2"),
    (4096 + 24, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81", "a cache of bcache"),
    (
        4096 + 24,
        b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef",
        "a file system, bcachefs",
    ),
    (4086, b"SWAPSPACE2", "swap space"),
    (4096, RAID, "a member of a RAID"),
    (0, RAID, "a member of a RAID"),
    (0, b"LABELONE", "a physical volume of LVM"),
    (512, b"LABELONE", "a physical volume of LVM"),
    (1024, b"LABELONE", "a physical volume of LVM"),
    (1536, b"LABELONE", "a physical volume of LVM"),
    (512, b"EFI PART", "a partition table"),
    (4096, b"EFI PART", "a partition table"),
    (510, b"\x55\xaa", "a partition table or a boot sector"),
    (0, b"QFI\xfb", "an image, qcow2"),
    (0, b"KDMV", "an image, VMDK"),
];

/// Returns the signatures that other programs store at the end of `len` bytes: superblocks of RAID, versions 0.90 and 1.0,
/// and the second header of a partition table, for blocks of 512 and of 4096 bytes.
fn signatures_at_end(len: u64) -> [(u64, &'static [u8], &'static str); 4] {
    [
        (align_down(len, 64 << 10).saturating_sub(64 << 10), RAID, "a member of a RAID"),
        (align_down(len.saturating_sub(8 << 10), BLOCK), RAID, "a member of a RAID"),
        (len.saturating_sub(512), b"EFI PART", "a partition table"),
        (len.saturating_sub(4096), b"EFI PART", "a partition table"),
    ]
}

/// Returns the content that is recognised on `medium`, if any.
///
/// # Errors
/// [`VolumeError::Memory`] if bytes that identify content can't be read.
pub(crate) fn occupant<M: Medium>(medium: &M) -> Result<Option<Occupant>, VolumeError> {
    for at in places(medium) {
        bytes(medium, at, BLOCK)?;
    }
    Ok(match recognise(medium) {
        Ok(Found::Pool) if pool_header(medium).is_err() => Some(Occupant::Pool),
        Ok(found) => Some(Occupant::Volume(found.format())),
        Err(VolumeError::Absent) => occupant_of_others(medium)?,
        Err(_) => Some(Occupant::Damaged),
    })
}

fn occupant_of_others<M: Medium>(medium: &M) -> Result<Option<Occupant>, Fault> {
    let header = PmdkHeader::decode(&bytes(medium, 0, BLOCK)?);
    if !matches!(header, Err(PmdkHeaderError::NotAPool { .. } | PmdkHeaderError::TooShort { .. })) {
        return Ok(Some(Occupant::Pmdk));
    }
    let info = PageMapInfo::decode(&bytes(medium, PAGE_MAP_OFF, BLOCK)?);
    if !matches!(info, Err(InfoBlockError::Absent | InfoBlockError::TooShort { .. })) {
        return Ok(Some(Occupant::PageMap));
    }
    let at_end = signatures_at_end(medium.memory().len());
    for (at, signature, what) in SIGNATURES.into_iter().chain(at_end) {
        if bytes(medium, at, signature.len() as u64)? == signature {
            return Ok(Some(Occupant::Other(what)));
        }
    }
    Ok(if has_labels(medium)? { Some(Occupant::Labels) } else { None })
}

/// Returns true if a label area lies at the end: its length is that of the image less the data, which are of any length.
fn has_labels<M: Medium>(medium: &M) -> Result<bool, Fault> {
    let len = medium.memory().len();
    let first = align_down(len.saturating_sub(LABELS_MAX), BLOCK);
    let end = bytes(medium, first, len - first)?;
    for at in (0..end.len()).step_by(BLOCK as usize) {
        if end[at..].starts_with(LABELS_SIGNATURE)
            && matches!(LabelArea::read(&end[at..]), Ok(_) | Err(LabelError::NoIndex { .. }))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the offsets of the blocks that identify volumes and pools.
pub(crate) fn places<M: Medium>(medium: &M) -> Vec<u64> {
    let len = medium.memory().len();
    let end_of_arena = |version: BttVersion| {
        let start = version.arenas_off();
        start + align_down(len.saturating_sub(start).min(BttGeometry::ARENA_MAX), BLOCK)
    };
    let ends = [end_of_arena(BttVersion::V2_0), end_of_arena(BttVersion::V1_1), align_down(len, BLOCK)];
    let mut places: Vec<u64> =
        [0, BLOCK].into_iter().chain(ends.map(|end| end.saturating_sub(BLOCK))).collect();
    places.sort_unstable();
    places.dedup();
    places.retain(|at| at + BLOCK <= len);
    places
}

/// Reads bytes of the medium; none if it ends before them.
fn bytes<M: Medium>(medium: &M, at: u64, len: u64) -> Result<Vec<u8>, Fault> {
    if at + len > medium.memory().len() {
        return Ok(Vec::new());
    }
    let mut bytes = vec![0; len as usize];
    medium.memory().reading(|memory| memory.read(PoolOffset::new(at), &mut bytes))?;
    Ok(bytes)
}
