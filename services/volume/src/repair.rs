//! The repair of a volume.

use crate::check::{VolumeFinding, findings};
use crate::error::VolumeError;
use crate::raw_headers::{RawCopy, settle_headers};
use crate::recognise::{Found, pool_header, recognise};
use crate::volume::map;
use lode_blocks::{BlockPoolError, Damage, random_log_epoch};
use lode_pmem::{Durability, Medium};
use lode_pool::{Access, HeaderCopy, repair_headers};
use std::path::Path;

/// A change that a repair made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeRepair {
    /// A change of a table.
    #[error(transparent)]
    Table(lode_btt::Repair),
    /// A copy of the header of a pool was written anew.
    #[error("copied the header of the pool over its copy {0}")]
    PoolHeader(HeaderCopy),
    /// A change of atomic blocks.
    #[error(transparent)]
    Blocks(lode_blocks::Repair),
    /// Both copies of the header of a raw volume were written anew.
    #[error("copied the header of the raw volume")]
    Headers,
}

impl VolumeRepair {
    /// Returns true if a block lost its content.
    pub fn is_loss(&self) -> bool {
        matches!(
            self,
            VolumeRepair::Table(lode_btt::Repair::LostBlock { .. })
                | VolumeRepair::Blocks(lode_blocks::Repair::LostBlock { .. })
        )
    }
}

/// Repairs the volume at `path`. Returns the changes, none if it was sound, and the findings of a check after them, apart from
/// blocks that were lost, which a repair can't bring back.
///
/// # Errors
/// [`VolumeError::At`] this path: [`VolumeError::Absent`], [`VolumeError::File`] if another handle has it open, and those of
/// damage that leaves nothing to repair from.
///
/// # Durability
/// The changes are durable on return. After a power cut in between, another repair does the rest.
///
/// # Cost
/// That of `lode_btt::repair`, or two headers; one drain. The check after it reads all of a pool of atomic blocks.
pub fn repair(
    path: &Path,
    durability: Option<Durability>,
) -> Result<(Vec<VolumeRepair>, Vec<VolumeFinding>), VolumeError> {
    let repair = || {
        let (_lock, medium) = map(path, Access::ReadWrite, durability)?;
        let found = recognise(&medium)?;
        let repairs = match &found {
            Found::Table(_) => lode_btt::repair(&medium)?.into_iter().map(VolumeRepair::Table).collect(),
            Found::Pool => repair_pool(&medium)?,
            Found::Raw(headers) if headers.copies == [RawCopy::Whole; 2] => Vec::new(),
            Found::Raw(headers) => {
                settle_headers(&medium, &headers.header)?;
                vec![VolumeRepair::Headers]
            }
        };
        let mut left = findings(&medium, &recognise(&medium)?);
        left.retain(|finding| !matches!(finding, VolumeFinding::Blocks(Damage::Lost { .. })));
        Ok((repairs, left))
    };
    repair().map_err(|error: VolumeError| error.at(path))
}

/// Repairs the copies of the header and of the descriptors, and damaged map words. Damaged contents stay as they are.
fn repair_pool<M: Medium>(medium: &M) -> Result<Vec<VolumeRepair>, VolumeError> {
    let header = pool_header(medium)?;
    let copied = repair_headers(medium)?.map(VolumeRepair::PoolHeader);
    let log_epoch =
        random_log_epoch().map_err(|errno| BlockPoolError::Random { errno: errno.raw_os_error() })?;
    let repairs = lode_blocks::repair(medium, &header.geometry, header.uuid.as_bytes(), log_epoch)?;
    Ok(copied.into_iter().chain(repairs.into_iter().map(VolumeRepair::Blocks)).collect())
}
