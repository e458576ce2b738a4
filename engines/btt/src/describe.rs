//! The description of a table, from its info blocks alone.

use crate::error::BttError;
use crate::open::{FoundTable, find_table};
use lode_nvdimm::{BttDialect, BttVersion};
use lode_pmem::Medium;
use uuid::Uuid;

/// The formats of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
    /// UEFI's and the kernel's version 1.1.
    V1_1,
    /// UEFI's and the kernel's version 2.0.
    V2_0,
    /// PMDK's block pool.
    Pmdk,
}

/// A table, as its info blocks describe it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// The format.
    pub format: TableFormat,
    /// UUID of the table.
    pub uuid: Uuid,
    /// Size of a block in bytes, with its metadata.
    pub block_size: u32,
    /// Number of blocks.
    pub block_count: u64,
    /// Number of arenas.
    pub arenas: u32,
    /// Number of writes that an arena can run at once.
    pub lanes: u32,
    /// False in a block pool of PMDK whose table is made by the first write.
    pub is_made: bool,
}

/// Describes the table on `medium`.
///
/// # Errors
/// [`BttError::Absent`] if there is none; fails if both info blocks of an arena are unusable.
///
/// # Cost
/// Reads the info blocks.
pub fn describe<M: Medium>(medium: &M) -> Result<Description, BttError> {
    let found = find_table(medium)?;
    let (format, uuid, is_made) = match &found {
        FoundTable::Planned(plan) => (TableFormat::Pmdk, plan.uuid, false),
        FoundTable::Arenas(dialect, arenas) => {
            let first = arenas.first().ok_or(BttError::Absent)?;
            let format = match (dialect, first.info.version) {
                (BttDialect::Pmdk, _) => TableFormat::Pmdk,
                (BttDialect::Kernel, BttVersion::V1_1) => TableFormat::V1_1,
                (BttDialect::Kernel, BttVersion::V2_0) => TableFormat::V2_0,
            };
            (format, first.info.uuid, true)
        }
    };
    let geometries: Vec<_> = match &found {
        FoundTable::Planned(plan) => plan.arenas.iter().map(|(_, geometry)| *geometry).collect(),
        FoundTable::Arenas(_, arenas) => arenas.iter().map(|arena| arena.info.geometry).collect(),
    };
    let first = geometries.first().ok_or(BttError::Absent)?;
    Ok(Description {
        format,
        uuid,
        block_size: first.external_lbasize(),
        block_count: geometries.iter().map(|geometry| u64::from(geometry.external_nlba())).sum(),
        arenas: geometries.len() as u32,
        lanes: first.nfree(),
        is_made,
    })
}
