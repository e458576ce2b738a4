//! The recognition of formats. The head of the crate has the order and its reasons.

use crate::error::VolumeError;
use crate::format::VolumeFormat;
use lode_btt::{BttError, Description, describe};
use lode_layout::{PoolOffset, RawVolume, RawVolumeError};
use lode_pmem::{Fault, Medium};

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
/// [`VolumeError::Absent`]; fails if the volume is damaged so far that it can't be opened.
pub(crate) fn recognise<M: Medium>(medium: &M) -> Result<Found, VolumeError> {
    let copies = RawVolume::COPIES.map(|at| read_header(medium, at));
    let [first, second] = copies;
    let table = describe(medium);
    let is_newer_table = table.is_ok_and(|table| VolumeFormat::from(table.format) == VolumeFormat::Btt);
    let header = match (first, table) {
        (Ok(header), _) if !is_newer_table => header,
        (_, Ok(table)) => return Ok(Found::Table(table)),
        (_, Err(BttError::Absent)) if second.is_ok() => second.map_err(|_| VolumeError::Absent)?,
        (_, Err(BttError::Absent)) => return Err(unusable(first, second)),
        (_, Err(error)) => return Err(error.into()),
    };
    let len = medium.memory().len();
    if header.end() > len {
        return Err(VolumeError::CutShort { end: header.end(), len });
    }
    Ok(Found::Raw(header, copies))
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

/// Reads a copy of the header. A copy that can't be read is one of zeros.
fn read_header<M: Medium>(medium: &M, at: u64) -> HeaderCopy {
    let mut bytes = [0; RawVolume::LEN];
    let read = medium.memory().reading(|memory| memory.read(PoolOffset::new(at), &mut bytes));
    read.map_err(|_: Fault| RawVolumeError::TooShort { len: 0 })?;
    RawVolume::decode(&bytes)
}
