//! Making a volume in a new file.

use crate::error::VolumeError;
use crate::format::VolumeFormat;
use crate::info::{VolumeInfo, describe_medium, info};
use crate::raw_headers::store_headers;
use crate::volume::map_locked;
use lode_blocks::BlockPool;
use lode_btt::Plan;
use lode_layout::{PmdkHeader, PmdkKind, RawVolume, VolumeClass, Want};
use lode_nvdimm::BttVersion;
use lode_pmem::{Durability, NewFile, PmemError, file_size_limit};
use lode_pool::{Access, CreateOptions, LockedFile};
use std::io;
use std::path::Path;
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
enum Structures {
    Table(Box<Plan>),
    Raw(RawVolume),
    Pool { block_size: u32 },
}

/// Makes a pool of atomic blocks.
fn create_pool(path: &Path, options: &CreateVolume, block_size: u32) -> Result<VolumeInfo, VolumeError> {
    let durability = options.durability;
    let options = CreateOptions { durability, ..CreateOptions::new(options.size, BlockPool::layout()) };
    BlockPool::create(path, &options, block_size)?.close()?;
    info(path)
}

/// Makes a volume in a new file at `path`: a sparse one, or a pool of atomic blocks, which has all of its space.
///
/// # Errors
/// [`VolumeError::At`] this path: [`VolumeError::Exists`], [`VolumeError::Plan`], [`VolumeError::NoDax`],
/// [`VolumeError::Length`], [`VolumeError::Format`], and those of the medium. After an error there is no file.
///
/// # Durability
/// The volume and its name are durable when it returns. After a crash or a signal before that, there is a whole volume or
/// no file. Where the file system knows O_TMPFILE, nothing else is left.
///
/// # Cost
/// Stores the flog and two info blocks for each 512 GiB, the map of atomic blocks, or two headers; two to four drains.
pub fn create(path: &Path, options: &CreateVolume) -> Result<VolumeInfo, VolumeError> {
    create_in(path, options).map_err(|error| error.at(path))
}

fn create_in(path: &Path, options: &CreateVolume) -> Result<VolumeInfo, VolumeError> {
    let structures = match plan(options)? {
        Structures::Pool { block_size } => return create_pool(path, options, block_size),
        structures => structures,
    };
    if path.symlink_metadata().is_ok() {
        return Err(VolumeError::Exists);
    }
    let new = NewFile::create(path)?;
    let size = options.size;
    if i64::try_from(size).is_err() || file_size_limit().is_some_and(|limit| size > limit) {
        // The same error that the system call gives for a length that it can express, without its signal.
        return Err(VolumeError::Length { size, error: io::ErrorKind::FileTooLarge.into() });
    }
    new.file().set_len(size).map_err(|error| VolumeError::Length { size, error })?;
    let file = new.file().try_clone().map_err(|error| VolumeError::Length { size, error })?;
    // Locked before it has a name: no other process can lock it first.
    let lock = LockedFile::lock(file, Access::ReadWrite)?;
    let medium = map_locked(&lock, path, Access::ReadWrite, options.durability)?;
    match structures {
        Structures::Table(plan) => {
            plan.on_zeros().format(&medium).map_err(|error| VolumeError::Format { error })?;
        }
        Structures::Raw(header) => store_headers(&medium, &header)?,
        Structures::Pool { .. } => unreachable!("a pool makes its own file"),
    }
    let info = describe_medium(&medium, None)?;
    new.publish().map_err(|error| match error {
        PmemError::Io { errno, .. }
            if io::Error::from_raw_os_error(errno).kind() == io::ErrorKind::AlreadyExists =>
        {
            VolumeError::Exists
        }
        error => error.into(),
    })?;
    Ok(info)
}

fn plan(options: &CreateVolume) -> Result<Structures, VolumeError> {
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
