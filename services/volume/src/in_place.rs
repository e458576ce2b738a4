//! Making a volume on a device, or in a file that exists.

use crate::error::VolumeError;
use crate::format::VolumeFormat;
use crate::info::{VolumeInfo, describe_medium, info};
use crate::plan::{CreateVolume, Structures, plan};
use crate::survey::{occupant, places};
use crate::volume::map_locked;
use lode_blocks::BlockPool;
use lode_layout::{BLOCK, PoolOffset, VolumeClass};
use lode_pmem::{Durability, FaultScope, Medium, allocate};
use lode_pool::{Access, CreateOptions, LockedFile, PoolError};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Bytes that are cleared at a time.
const ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];

/// The options of a new volume that takes all of a device, or of a file that exists.
#[derive(Clone, Copy, Debug)]
pub struct CreateInPlace {
    /// Size of the device or file in bytes, which is compared with its real one. `None` takes that.
    pub size: Option<u64>,
    /// The format.
    pub format: VolumeFormat,
    /// Size of a block in bytes, with its metadata.
    pub block_size: u64,
    /// The class. Only a raw volume can be a DAX volume.
    pub class: VolumeClass,
    /// The durability to use. `None` uses the durability that the medium offers, which must then be durable.
    pub durability: Option<Durability>,
    /// True if content that is recognised on a device may be overwritten. A file is never overwritten.
    pub overwrite_device: bool,
}

/// Makes a volume on the device-DAX node at `path`, or in the file that exists there, such as the image of a namespace. The
/// volume takes all of it. Blocks of tables and raw volumes keep the content that lies in their places, or are zeros; those of a block pool
/// of PMDK and atomic blocks read as zeros.
///
/// # Errors
/// [`VolumeError::At`] this path: [`VolumeError::Occupied`] if content is recognised, [`VolumeError::Size`],
/// [`VolumeError::Empty`], [`VolumeError::Plan`], [`VolumeError::NoDax`], all of which change nothing; [`VolumeError::Format`] and
/// those of the medium, after which there may be no volume. A full disk changes nothing for atomic blocks; under a table or a raw
/// volume in a sparse file it is an error of the medium.
///
/// # Durability
/// The volume is durable on return. After a crash before that, there is the content from before, perhaps without one of its
/// headers, no volume, or a whole one. A raw volume may lack its second header then, which a repair copies. Atomic blocks may have a
/// header that was torn, and are refused as damaged.
///
/// # Cost
/// Reads the last 16 MiB, and the map of a table, which is stored where it is not zeros. Otherwise that of a new file, and one drain more.
pub fn create_in_place(path: &Path, options: &CreateInPlace) -> Result<VolumeInfo, VolumeError> {
    create_at(path, options).map_err(|error| error.at(path))
}

fn create_at(path: &Path, options: &CreateInPlace) -> Result<VolumeInfo, VolumeError> {
    let CreateInPlace { format, block_size, class, durability, .. } = *options;
    let lock = LockedFile::open(path, Access::ReadWrite)?;
    let stat = lock.file().metadata();
    let stat =
        stat.map_err(|error| PoolError::Io { op: "stat", errno: error.raw_os_error().unwrap_or_default() })?;
    let is_device = stat.file_type().is_char_device();
    if !is_device && stat.len() == 0 {
        return Err(VolumeError::Empty);
    }
    let medium = map_locked(&lock, path, Access::ReadWrite, durability)?;
    let len = medium.memory().len();
    if let Some(size) = options.size.filter(|size| *size != len) {
        return Err(VolumeError::Size { size, len });
    }
    let options_of_all = CreateVolume { size: len, format, block_size, class, durability };
    let structures = plan(&options_of_all)?;
    if let Structures::Pool { block_size } = structures {
        BlockPool::check_plan(path, len, block_size)?;
    }
    if !(is_device && options.overwrite_device)
        && let Some(found) = occupant(&medium)?
    {
        return Err(VolumeError::Occupied { found, is_device });
    }
    if !is_device && matches!(structures, Structures::Pool { .. }) {
        // Its engine takes its space for granted.
        allocate(lock.file(), 0, len).map_err(|error| PoolError::allocation("allocate", &error, len))?;
    }
    clear(&medium)?;
    if let Structures::Pool { block_size } = structures {
        drop(medium);
        let options = CreateOptions { durability, ..CreateOptions::new(len, BlockPool::layout()) };
        BlockPool::create_in(path, lock, &options, block_size)?.close()?;
        return info(path);
    }
    structures.store(&medium)?;
    describe_medium(&medium, None)
}

/// Clears the blocks that identify volumes and pools, so that nothing of the content from before does so.
fn clear<M: Medium>(medium: &M) -> Result<(), VolumeError> {
    for at in places(medium).into_iter().map(PoolOffset::new) {
        let is_clear = medium.memory().reading(|memory| memory.equals(at, &ZEROS))?;
        if !is_clear {
            FaultScope::run(|| medium.copy(at, &ZEROS))?;
        }
    }
    // ORDER: no old header is left before a new structure is stored. Stop here: there is no volume.
    Ok(medium.drain()?)
}
