//! The properties of a volume, from its headers alone.

use crate::error::VolumeError;
use crate::format::VolumeFormat;
use crate::raw_headers::RawHeaders;
use crate::recognise::{Found, pool_header, recognise};
use crate::volume::map_locked;
use lode_layout::VolumeClass;
use lode_pmem::{Mapping, Medium, PmemError};
use lode_pool::{Access, LockHolder, LockedFile, PoolError};
use std::path::Path;
use uuid::Uuid;

/// The properties of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeInfo {
    /// The format.
    pub format: VolumeFormat,
    /// The class.
    pub class: VolumeClass,
    /// UUID of the volume.
    pub uuid: Uuid,
    /// Size of the file in bytes.
    pub size: u64,
    /// Size of a block in bytes, with its metadata.
    pub block_size: u64,
    /// Number of blocks.
    pub block_count: u64,
    /// Offset of block 0 in bytes; `None` in formats that move their blocks.
    pub data_off: Option<u64>,
    /// Number of arenas of a table.
    pub arenas: Option<u32>,
    /// Number of writes that run at once in an arena of a table.
    pub lanes: Option<u32>,
    /// True while another process has it open for writing.
    pub is_in_use: bool,
    /// That process, if the kernel tells.
    pub holder: Option<LockHolder>,
}

impl VolumeInfo {
    /// Returns the number of bytes of all blocks.
    pub fn capacity(&self) -> u64 {
        self.block_size * self.block_count
    }
}

/// Describes the volume at `path`, also one that another process has open.
///
/// # Errors
/// [`VolumeError::At`] this path: [`VolumeError::Absent`], and those of damage and of the medium.
///
/// # Cost
/// Reads info blocks or headers.
pub fn info(path: &Path) -> Result<VolumeInfo, VolumeError> {
    let describe = || match LockedFile::open(path, Access::ReadOnly) {
        Ok(lock) => describe_medium(&map_locked(&lock, path, Access::ReadOnly, None)?, None),
        Err(PoolError::InUse { holder }) => {
            let look =
                || describe_medium(&Mapping::options().private_view().open(path)?, Some(holder.clone()));
            // What it reads stays as it is while a volume is open, unless the volume grows between the two steps.
            look().or_else(|_| look())
        }
        Err(error) => Err(error.into()),
    };
    describe().map_err(|error| match error {
        VolumeError::Medium(PmemError::Empty { .. }) => VolumeError::Absent.at(path),
        error => error.at(path),
    })
}

/// Describes the volume on `medium`. `user` is the process that has it open for writing.
pub(crate) fn describe_medium(
    medium: &Mapping,
    user: Option<Option<LockHolder>>,
) -> Result<VolumeInfo, VolumeError> {
    let found = recognise(medium)?;
    let format = found.format();
    let (size, is_in_use, holder) = (medium.memory().len(), user.is_some(), user.flatten());
    Ok(match found {
        Found::Table(table) => VolumeInfo {
            format,
            class: VolumeClass::Block,
            uuid: table.uuid,
            size,
            block_size: table.block_size.into(),
            block_count: table.block_count,
            data_off: None,
            arenas: Some(table.arenas),
            lanes: Some(table.lanes),
            is_in_use,
            holder,
        },
        Found::Pool => {
            let header = pool_header(medium)?;
            let blocks = lode_blocks::describe(medium, &header.geometry)?;
            VolumeInfo {
                format,
                class: VolumeClass::Block,
                uuid: header.uuid,
                size,
                block_size: blocks.block_size.into(),
                block_count: blocks.block_count,
                data_off: None,
                arenas: None,
                lanes: None,
                is_in_use,
                holder,
            }
        }
        Found::Raw(RawHeaders { header, .. }) => VolumeInfo {
            format,
            class: header.class,
            uuid: header.uuid,
            size,
            block_size: header.block_size.into(),
            block_count: header.block_count,
            data_off: Some(header.data_off),
            arenas: None,
            lanes: None,
            is_in_use,
            holder,
        },
    })
}
