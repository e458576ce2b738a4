//! Making a volume in a new file.

use crate::error::VolumeError;
use crate::info::{VolumeInfo, describe_medium, info};
use crate::plan::{CreateVolume, Structures, plan};
use crate::volume::map_locked;
use lode_blocks::BlockPool;
use lode_pmem::{NewFile, PmemError, file_size_limit};
use lode_pool::{Access, CreateOptions, LockedFile};
use std::io;
use std::path::Path;

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
/// Stores the flog and two info blocks for each 512 GiB, the map of atomic blocks, or two headers; two to six drains.
pub fn create(path: &Path, options: &CreateVolume) -> Result<VolumeInfo, VolumeError> {
    create_in(path, options).map_err(|error| error.at(path))
}

fn create_in(path: &Path, options: &CreateVolume) -> Result<VolumeInfo, VolumeError> {
    let structures = plan(options)?;
    if path.symlink_metadata().is_ok() {
        return Err(VolumeError::Exists);
    }
    if let Structures::Pool { block_size } = structures {
        return create_pool(path, options, block_size);
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
    structures.on_zeros().store(&medium)?;
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
