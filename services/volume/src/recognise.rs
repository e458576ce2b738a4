//! The recognition of formats. The head of the crate has the order and its reasons.

use crate::error::VolumeError;
use crate::format::VolumeFormat;
use crate::raw_headers::{RawCopy, RawHeaders};
use lode_blocks::BlockPool;
use lode_btt::{BttError, Description, TableFormat, describe};
use lode_layout::{BLOCK, Header, PoolOffset, RawVolume, RawVolumeError};
use lode_nvdimm::{BttInfo, BttVersion};
use lode_pmem::Medium;
use lode_pool::{HeaderCopy, Headers};

/// A copy of the header of a raw volume, or the reason why it is none.
type RawHeader = Result<RawVolume, RawVolumeError>;

/// The volume of a medium.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    /// A table.
    Table(Description),
    /// A pool, whatever its layout.
    Pool,
    /// A raw volume.
    Raw(RawHeaders),
}

impl Found {
    pub(crate) fn format(&self) -> VolumeFormat {
        match self {
            Found::Table(table) => table.format.into(),
            Found::Pool => VolumeFormat::Atomic,
            Found::Raw(..) => VolumeFormat::Raw,
        }
    }
}

/// Recognises the volume on `medium`.
///
/// # Errors
/// [`VolumeError::Absent`], [`VolumeError::Ambiguous`]; fails if the volume is damaged so far that it can't be opened.
pub(crate) fn recognise<M: Medium>(medium: &M) -> Result<Found, VolumeError> {
    let blocks = [0, BLOCK].map(|at| read(medium, at));
    let first = RawVolume::decode(&blocks[0]);
    let last = last_copy(medium);
    let table = describe(medium);
    let header = if is_pool(medium, HeaderCopy::A) {
        return match is_info_of_1_1(&blocks[1]) {
            true => Ok(Found::Table(table?)),
            false => Ok(Found::Pool),
        };
    } else if is_intact(first) {
        if is_info_of_1_1(&blocks[1]) {
            return Ok(Found::Table(table?));
        }
        first?
    } else if is_intact(last) && !is_first_info(&blocks) && !is_pmdk(&table) && has_no_pool(medium) {
        last?
    } else if is_pool(medium, HeaderCopy::B) && !is_first_info(&blocks) && !is_pmdk(&table) {
        return match table {
            Err(BttError::Absent) => Ok(Found::Pool),
            _ => Err(VolumeError::Ambiguous),
        };
    } else {
        return match table {
            Err(BttError::Absent) => match Headers::read(medium) {
                Err(error) if !error.has_no_pool() => Err(error.into()),
                _ => Err(unusable(first, last)),
            },
            table => Ok(Found::Table(table?)),
        };
    };
    let len = medium.memory().len();
    if header.end() > len {
        return Err(VolumeError::CutShort { end: header.end(), len });
    }
    let copies = [blocks[0].clone(), read(medium, header.copies()[1])].map(|copy| state(&header, &copy));
    // A growth that stops before it stores the first copy leaves the second one at the new end.
    let is_growing = last.is_ok_and(|last| header.is_grown(&last));
    let copies = match copies {
        // A place that can't be read is lost all the same.
        [first, RawCopy::Unusable(error)]
            if is_growing && !matches!(error, RawVolumeError::TooShort { .. }) =>
        {
            [first, RawCopy::Unfinished]
        }
        copies => copies,
    };
    Ok(Found::Raw(RawHeaders { header, copies }))
}

/// Returns the state of a copy of this header in `bytes`.
fn state(header: &RawVolume, bytes: &[u8]) -> RawCopy {
    match RawVolume::decode(bytes) {
        Ok(copy) if copy == *header => RawCopy::Whole,
        Ok(copy) if header.is_grown(&copy) => RawCopy::Unfinished,
        Ok(_) => RawCopy::Differs,
        Err(_) if header.is_unfinished(bytes) => RawCopy::Unfinished,
        Err(error) => RawCopy::Unusable(error),
    }
}

/// Returns the header of a pool of atomic blocks.
///
/// # Errors
/// [`VolumeError::File`] if neither copy is valid, [`VolumeError::Layout`] of another pool.
pub(crate) fn pool_header<M: Medium>(medium: &M) -> Result<Header, VolumeError> {
    let header = *Headers::read(medium)?.current();
    match header.layout == BlockPool::layout() {
        true => Ok(header),
        false => Err(VolumeError::Layout { layout: header.layout }),
    }
}

/// Reads the second header of a raw volume that ends with the medium.
fn last_copy<M: Medium>(medium: &M) -> RawHeader {
    let at = RawVolume::last_copy_at(medium.memory().len());
    // The first 8192 bytes belong to first headers.
    let bytes = if at < 2 * BLOCK { Vec::new() } else { read(medium, at) };
    RawVolume::decode(&bytes)
}

/// Returns true if neither copy of the header of a pool is there, not even a damaged one.
fn has_no_pool<M: Medium>(medium: &M) -> bool {
    Headers::read(medium).is_err_and(|error| error.has_no_pool())
}

/// Returns true if this copy of the header of a pool is as it was written, also if this program can't use it.
fn is_pool<M: Medium>(medium: &M, copy: HeaderCopy) -> bool {
    copy.read(medium).map_or_else(|fault| fault.is_incompatible(), |_| true)
}

/// Returns true if a table has its first info block, where version 2.0 has it or where 1.1 does.
fn is_first_info([first, second]: &[Vec<u8>; 2]) -> bool {
    is_info_signed(first) || is_info_of_1_1(second)
}

/// Returns true if the copy is as it was written, also if this program can't use it.
fn is_intact(copy: RawHeader) -> bool {
    !matches!(
        copy,
        Err(RawVolumeError::TooShort { .. }
            | RawVolumeError::NotAVolume { .. }
            | RawVolumeError::Checksum { .. })
    )
}

/// Returns true if the bytes are the first info block of a table of version 1.1. A raw volume has no guest's block there.
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

fn unusable(first: RawHeader, second: RawHeader) -> VolumeError {
    let is_none = |copy: &RawHeader| {
        matches!(copy, Err(RawVolumeError::NotAVolume { .. } | RawVolumeError::TooShort { .. }))
    };
    match (first, second) {
        (Err(first), Err(second)) if !(is_none(&Err(first)) && is_none(&Err(second))) => {
            VolumeError::Raw { first, second }
        }
        _ => VolumeError::Absent,
    }
}

/// Reads the bytes of a copy of a header; none if they can't be read.
fn read<M: Medium>(medium: &M, at: u64) -> Vec<u8> {
    let mut bytes = vec![0; RawVolume::LEN];
    let read = medium.memory().reading(|memory| memory.read(PoolOffset::new(at), &mut bytes));
    read.map_or(Vec::new(), |()| bytes)
}
