//! The growth of a volume that no other handle has open.

use crate::create::store_header;
use crate::error::VolumeError;
use crate::format::VolumeFormat;
use crate::info::{VolumeInfo, info};
use crate::recognise::{Found, pool_header, recognise};
use crate::volume::{map, map_locked};
use lode_blocks::BlockPool;
use lode_layout::{PoolOffset, RawVolume};
use lode_pmem::{Durability, FaultScope, Medium as _, file_size_limit};
use lode_pool::{Access, LockedFile, OpenOptions};
use std::io;
use std::path::Path;

/// Grows the volume at `path` to a file of `size` bytes: a pool of atomic blocks, or a raw volume. The new blocks are zeros.
/// Returns the properties before and after.
///
/// # Errors
/// [`VolumeError::At`] this path: [`VolumeError::FixedSize`] of another format or on a device, [`VolumeError::Shrinks`],
/// [`VolumeError::Length`] and those of the pool if the file can't get that length, and those of the medium. After an error
/// the volume has its old size, unless a sync failed.
///
/// # Durability
/// Durable on return. After a crash before that, the volume has its old or its new size.
///
/// # Cost
/// A pool allocates its new space, and stores its map. A raw volume stays sparse: two headers and a block of zeros, a drain after each.
pub fn grow(
    path: &Path,
    size: u64,
    durability: Option<Durability>,
) -> Result<(VolumeInfo, VolumeInfo), VolumeError> {
    let grow = || {
        let before = info(path)?;
        if size < before.size {
            return Err(VolumeError::Shrinks { size, was: before.size });
        }
        let (lock, medium) = map(path, Access::ReadWrite, durability)?;
        match recognise(&medium)? {
            Found::Table(table) => return Err(VolumeError::FixedSize { format: table.format.into() }),
            Found::Pool => {
                pool_header(&medium)?;
                drop((medium, lock));
                let access = OpenOptions::new(Access::ReadWrite);
                let pool = BlockPool::open(path, &OpenOptions { durability, grow_to: Some(size), ..access })?;
                let grown = pool.grow(size);
                // Also after a failure: the next opening has nothing to finish.
                let closed = pool.close();
                grown.and(closed)?;
            }
            Found::Raw(header, _) => {
                drop(medium);
                grow_raw(&lock, path, &header, size, durability)?;
            }
        }
        Ok((before, info(path)?))
    };
    grow().map_err(|error: VolumeError| error.at(path))
}

/// Makes the file of a raw volume longer, then stores its headers.
fn grow_raw(
    lock: &LockedFile,
    path: &Path,
    header: &RawVolume,
    size: u64,
    durability: Option<Durability>,
) -> Result<(), VolumeError> {
    let grown =
        header.grown(size).map_err(|error| VolumeError::raw_plan(size, header.block_size.into(), error))?;
    let length = |error| VolumeError::Length { size, error };
    let file = lock.file();
    if !file.metadata().map_err(length)?.is_file() {
        return Err(VolumeError::FixedSize { format: VolumeFormat::Raw });
    }
    if i64::try_from(size).is_err() || file_size_limit().is_some_and(|limit| size > limit) {
        return Err(length(io::ErrorKind::FileTooLarge.into()));
    }
    // What lies past the volume becomes zeros: an earlier growth may have stopped there.
    // ORDER: the length is durable before a header relies on it. Stop here: the file is longer than its volume.
    file.set_len(header.end())
        .and_then(|()| file.set_len(size))
        .and_then(|()| file.sync_all())
        .map_err(length)?;
    let medium = map_locked(lock, path, Access::ReadWrite, durability)?;
    let ([first, last], [_, old]) = (grown.copies(), header.copies());
    if last != old {
        store_header(&medium, last, &grown)?;
        // ORDER: the place of the old last copy becomes a part of a block. It is zeros before a header counts that block, and
        // the new last copy is durable. Stop here: the first copy has the old size, and the new last copy is its second.
        FaultScope::run(|| medium.copy(PoolOffset::new(old), &[0; RawVolume::LEN]))
            .map_err(|fault| VolumeError::Format { error: fault.into() })?;
        medium.drain()?;
        store_header(&medium, first, &grown)?;
    }
    Ok(())
}
