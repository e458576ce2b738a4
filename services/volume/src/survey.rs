//! The survey of a device or a file, before a volume is made in its place.

use crate::error::VolumeError;
use crate::occupant::Occupant;
use crate::recognise::{Found, pool_header, recognise};
use lode_layout::{BLOCK, PmdkHeader, PmdkHeaderError, PoolOffset, align_down};
use lode_nvdimm::{
    BttGeometry, BttVersion, InfoBlockError, LabelArea, LabelError, PAGE_MAP_OFF, PageMapInfo,
};
use lode_pmem::{Fault, Medium};

/// Alignment in bytes of the data of an image of a memory module. Its label area follows.
const LABELS_ALIGN: u64 = 16 << 20;

/// Signatures of other programs: offset, bytes, and the content that they identify.
const SIGNATURES: [(u64, &[u8], &str); 7] = [
    (0, b"LUKS\xba\xbe", "an encrypted device"),
    (0, b"XFSB", "a file system, XFS"),
    (0x438, b"\x53\xef", "a file system, ext2, ext3 or ext4"),
    (0x1_0040, b"_BHRfS_M", "a file system, btrfs"),
    (512, b"LABELONE", "a physical volume of LVM"),
    (512, b"EFI PART", "a partition table"),
    (510, b"\x55\xaa", "a partition table or a boot sector"),
];

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
    for (at, signature, what) in SIGNATURES {
        if bytes(medium, at, signature.len() as u64)? == signature {
            return Ok(Some(Occupant::Other(what)));
        }
    }
    let len = medium.memory().len();
    let labels = align_down(len, LABELS_ALIGN);
    let labels = LabelArea::read(&bytes(medium, labels, len - labels)?);
    Ok(matches!(labels, Ok(_) | Err(LabelError::NoIndex { .. })).then_some(Occupant::Labels))
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
