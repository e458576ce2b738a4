//! The recognition of formats. The head of the crate has the order and its reasons.

use crate::error::VolumeError;
use crate::format::VolumeFormat;
use lode_btt::{BttError, Description, TableFormat, describe};
use lode_layout::{PoolOffset, RawVolume, RawVolumeError};
use lode_nvdimm::{BttInfo, BttVersion};
use lode_pmem::Medium;

/// A copy of the header of a raw volume, or the reason why it is none.
pub(crate) type HeaderCopy = Result<RawVolume, RawVolumeError>;

/// The volume of a medium.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    /// A table.
    Table(Description),
    /// A raw volume, its header, and both copies of it.
    Raw(RawVolume, [HeaderCopy; 2]),
}

impl Found {
    pub(crate) fn format(&self) -> VolumeFormat {
        match self {
            Found::Table(table) => table.format.into(),
            Found::Raw(..) => VolumeFormat::Raw,
        }
    }
}

/// Recognises the volume on `medium`.
///
/// # Errors
/// [`VolumeError::Absent`], [`VolumeError::Ambiguous`]; fails if the volume is damaged so far that it can't be opened.
pub(crate) fn recognise<M: Medium>(medium: &M) -> Result<Found, VolumeError> {
    let blocks = RawVolume::COPIES.map(|at| read(medium, at));
    let copies = [&blocks[0], &blocks[1]].map(|bytes| RawVolume::decode(bytes));
    let [first, second] = copies;
    let table = describe(medium);
    let header = if is_intact(first) {
        if is_info_of_1_1(&blocks[1]) {
            return Ok(Found::Table(table?));
        }
        first?
    } else if is_intact(second) && !is_info_signed(&blocks[0]) && !is_pmdk(&table) {
        match table {
            Err(BttError::Absent) => second?,
            _ => return Err(VolumeError::Ambiguous),
        }
    } else {
        return match table {
            Err(BttError::Absent) => Err(unusable(first, second)),
            table => Ok(Found::Table(table?)),
        };
    };
    let len = medium.memory().len();
    if header.end() > len {
        return Err(VolumeError::CutShort { end: header.end(), len });
    }
    Ok(Found::Raw(header, copies))
}

/// Returns true if the copy is as it was written, also if this program can't use it.
fn is_intact(copy: HeaderCopy) -> bool {
    !matches!(
        copy,
        Err(RawVolumeError::TooShort { .. }
            | RawVolumeError::NotAVolume { .. }
            | RawVolumeError::Checksum { .. })
    )
}

/// Returns true if the bytes are the first info block of a table of version 1.1, which lies where a raw volume has its second
/// header. The last info block lies where a raw volume has a guest's block, so it proves nothing.
fn is_info_of_1_1(bytes: &[u8]) -> bool {
    BttInfo::decode(bytes).is_ok_and(|info| info.version == BttVersion::V1_1)
}

/// Returns true if the bytes begin as an info block does, whatever is damaged in it.
fn is_info_signed(bytes: &[u8]) -> bool {
    bytes.starts_with(&BttInfo::SIG_WORD.to_le_bytes())
}

/// Returns true if the table is that of a block pool, whose header lies where a raw volume has its first one.
fn is_pmdk(table: &Result<Description, BttError>) -> bool {
    table.is_ok_and(|table| table.format == TableFormat::Pmdk)
}

fn unusable(first: HeaderCopy, second: HeaderCopy) -> VolumeError {
    let is_none = |copy: &HeaderCopy| {
        matches!(copy, Err(RawVolumeError::NotAVolume { .. } | RawVolumeError::TooShort { .. }))
    };
    match (first, second) {
        (Err(first), Err(second)) if !(is_none(&Err(first)) && is_none(&Err(second))) => {
            VolumeError::Raw { first, second }
        }
        _ => VolumeError::Absent,
    }
}

/// Reads the bytes of a copy of the header; none if they can't be read.
fn read<M: Medium>(medium: &M, at: u64) -> Vec<u8> {
    let mut bytes = vec![0; RawVolume::LEN];
    let read = medium.memory().reading(|memory| memory.read(PoolOffset::new(at), &mut bytes));
    read.map_or(Vec::new(), |()| bytes)
}
