//! The check of a volume, without a store to it.

use crate::error::VolumeError;
use crate::format::VolumeFormat;
use crate::raw_headers::{RawCopy, RawHeaders};
use crate::recognise::{Found, pool_header, recognise};
use crate::volume::map;
use lode_blocks::Damage as BlocksDamage;
use lode_btt::{BttError, Finding as TableFinding};
use lode_layout::RawVolumeError;
use lode_pmem::{Fault, FaultKind, Medium};
use lode_pool::{Access, Damage as PoolDamage, check_headers};
use std::path::Path;

/// A finding of the check.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeFinding {
    /// A finding of a table.
    #[error(transparent)]
    Table(TableFinding),
    /// A finding of the header of a pool.
    #[error(transparent)]
    Pool(PoolDamage),
    /// A finding of atomic blocks.
    #[error(transparent)]
    Blocks(BlocksDamage),
    /// A copy of the header of a raw volume is unusable. The other one serves.
    #[error("the copy of the header at {at:#x} is unusable: {error}; a repair copies the other one")]
    Header {
        /// Offset of the copy in bytes.
        at: u64,
        /// The reason.
        #[source]
        error: RawVolumeError,
    },
    /// The copies of the header of a raw volume differ. The first one serves.
    #[error("the copies of the header differ; a repair copies the first one")]
    HeadersDiffer,
    /// The volume can't be opened.
    #[error(transparent)]
    Unusable(VolumeError),
}

impl VolumeFinding {
    /// Returns true if a repair mends it.
    pub fn is_repairable(&self) -> bool {
        match self {
            VolumeFinding::Table(TableFinding::Unusable(error)) => matches!(error, BttError::Damaged { .. }),
            VolumeFinding::Table(_) => true,
            VolumeFinding::Pool(damage) => matches!(damage, PoolDamage::Copy { .. }),
            VolumeFinding::Blocks(damage) => {
                matches!(damage, BlocksDamage::Descriptor { .. } | BlocksDamage::DescriptorDiffers { .. })
            }
            VolumeFinding::Header { .. } | VolumeFinding::HeadersDiffer => true,
            VolumeFinding::Unusable(_) => false,
        }
    }

    /// Returns the fault of the access that failed, if that is the finding.
    fn fault(&self) -> Option<Fault> {
        match self {
            VolumeFinding::Table(TableFinding::Unusable(BttError::Memory(fault)))
            | VolumeFinding::Blocks(BlocksDamage::Memory(fault)) => Some(*fault),
            VolumeFinding::Unusable(error) => error.fault(),
            _ => None,
        }
    }
}

/// Checks the volume at `path`. Returns its format, if that is recognised, and the findings: none if it is sound. The traces
/// of a crash are no damage.
///
/// # Errors
/// [`VolumeError::At`] this path: [`VolumeError::Absent`], [`VolumeError::File`] if another handle writes it, and those of
/// the medium; [`VolumeError::Memory`] if the file system has no space for a place that is read. Damage is a finding.
///
/// # Cost
/// Reads each map entry of a table, and no block; all of a pool of atomic blocks.
pub fn check(path: &Path) -> Result<(Option<VolumeFormat>, Vec<VolumeFinding>), VolumeError> {
    let (_lock, medium) = map(path, Access::ReadOnly, None).map_err(|error| error.at(path))?;
    match recognise(&medium) {
        Ok(found) => {
            if let Found::Pool = found
                && let Err(error @ VolumeError::Layout { .. }) = pool_header(&medium)
            {
                return Err(error.at(path));
            }
            let findings = findings(&medium, &found);
            // A place that was not read for lack of space is not known to be damaged, nor to be sound.
            let full = findings
                .iter()
                .find_map(|finding| finding.fault().filter(|fault| fault.kind == FaultKind::NoSpace));
            match full {
                Some(fault) => Err(VolumeError::Memory(fault).at(path)),
                None => Ok((Some(found.format()), findings)),
            }
        }
        Err(error) if error.is_damage() => Ok((None, vec![VolumeFinding::Unusable(error)])),
        Err(error) => Err(error.at(path)),
    }
}

/// Checks the volume that was found on `medium`.
pub(crate) fn findings<M: Medium>(medium: &M, found: &Found) -> Vec<VolumeFinding> {
    match found {
        Found::Table(_) => lode_btt::check(medium).into_iter().map(VolumeFinding::Table).collect(),
        Found::Raw(headers) => header_findings(headers),
        Found::Pool => pool_findings(medium),
    }
}

fn pool_findings<M: Medium>(medium: &M) -> Vec<VolumeFinding> {
    let headers = check_headers(medium).into_iter().map(VolumeFinding::Pool);
    let header = match pool_header(medium) {
        Ok(header) => header,
        Err(error) => return headers.chain([VolumeFinding::Unusable(error)]).collect(),
    };
    let blocks = lode_blocks::check(medium, &header.geometry, header.uuid.as_bytes());
    headers.chain(blocks.into_iter().map(VolumeFinding::Blocks)).collect()
}

fn header_findings(headers: &RawHeaders) -> Vec<VolumeFinding> {
    let finding = |(at, copy)| match copy {
        RawCopy::Whole | RawCopy::Unfinished => None,
        RawCopy::Differs => Some(VolumeFinding::HeadersDiffer),
        RawCopy::Unusable(error) => Some(VolumeFinding::Header { at, error }),
    };
    headers.header.copies().into_iter().zip(headers.copies).filter_map(finding).collect()
}
