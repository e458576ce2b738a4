//! The plan of a new volume.

use crate::error::VolumeError;
use crate::format::VolumeFormat;
use crate::raw_headers::store_headers;
use lode_btt::Plan;
use lode_layout::{PmdkHeader, PmdkKind, RawVolume, VolumeClass, Want};
use lode_nvdimm::BttVersion;
use lode_pmem::{Durability, Medium};
use std::time::{SystemTime, UNIX_EPOCH};
use uuid::Uuid;

/// The options of a new volume.
#[derive(Clone, Copy, Debug)]
pub struct CreateVolume {
    /// Size of the file in bytes.
    pub size: u64,
    /// The format.
    pub format: VolumeFormat,
    /// Size of a block in bytes, with its metadata.
    pub block_size: u64,
    /// The class. Only a raw volume can be a DAX volume.
    pub class: VolumeClass,
    /// The durability to use. `None` uses the durability that the medium offers, which must then be durable.
    pub durability: Option<Durability>,
}

/// A volume that is to be made.
pub(crate) enum Structures {
    Table(Box<Plan>),
    Raw(RawVolume),
    Pool { block_size: u32 },
}

impl Structures {
    /// Stores the structures of a table or a raw volume. A pool has its own way.
    ///
    /// # Errors
    /// Fails if the medium can't be stored to, or if its sync fails.
    ///
    /// # Durability
    /// The volume is durable on return.
    pub(crate) fn store<M: Medium>(&self, medium: &M) -> Result<(), VolumeError> {
        match self {
            Structures::Table(plan) => plan.format(medium).map_err(|error| VolumeError::Format { error }),
            Structures::Raw(header) => store_headers(medium, header),
            Structures::Pool { .. } => unreachable!("a pool stores its own structures"),
        }
    }

    /// Skips the clearing of a table's map, for a new file.
    pub(crate) fn on_zeros(self) -> Structures {
        match self {
            Structures::Table(plan) => Structures::Table(Box::new(plan.on_zeros())),
            other => other,
        }
    }
}

/// Bytes of the smallest block of a volume.
const BLOCK_SIZE_MIN: u64 = 512;

/// Plans a volume.
///
/// # Errors
/// [`VolumeError::NoDax`], [`VolumeError::Plan`].
pub(crate) fn plan(options: &CreateVolume) -> Result<Structures, VolumeError> {
    let CreateVolume { size, format, block_size, class, .. } = *options;
    if class == VolumeClass::Dax && format != VolumeFormat::Raw {
        return Err(VolumeError::NoDax { format });
    }
    let [uuid, part] = [Uuid::new_v4(), Uuid::new_v4()];
    let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let refused = |error| VolumeError::Plan { format, size, block_size, error };
    let lbasize = u32::try_from(block_size).map_err(|_| {
        let found = block_size;
        let want = Want::AtMost(u32::MAX.into());
        refused(lode_layout::InvalidField { field: "block_size", index: 0, found, want }.into())
    })?;
    let kernel = |version| Plan::kernel(size, lbasize, version, [uuid, Uuid::nil()]);
    let table = match format {
        VolumeFormat::Btt => kernel(BttVersion::V1_1),
        VolumeFormat::Btt2 => kernel(BttVersion::V2_0),
        VolumeFormat::Pmemblk => {
            // Pools of PMDK have smaller blocks, too, which no guest takes.
            Want::AtLeast(BLOCK_SIZE_MIN)
                .check("block_size", 0, block_size)
                .map_err(|error| refused(error.into()))?;
            Plan::pmdk(size, lbasize, PmdkHeader::new(PmdkKind::Blocks, uuid, part, created))
        }
        VolumeFormat::Atomic => return Ok(Structures::Pool { block_size: lbasize }),
        VolumeFormat::Raw => {
            let header = RawVolume::plan(size, lbasize, class, uuid, created);
            return Ok(Structures::Raw(
                header.map_err(|error| VolumeError::raw_plan(size, block_size, error))?,
            ));
        }
    };
    Ok(Structures::Table(Box::new(table.map_err(refused)?)))
}
