//! The growth of a volume that no other handle has open.

use crate::error::VolumeError;
use crate::format::VolumeFormat;
use crate::info::{VolumeInfo, info};
use crate::raw_headers::{RawHeaders, clear_last_copy, store_header};
use crate::recognise::{Found, pool_header, recognise};
use crate::volume::{map, map_locked};
use lode_blocks::BlockPool;
use lode_layout::RawVolume;
use lode_pmem::{Durability, file_size_limit};
use lode_pool::{Access, LockedFile, OpenOptions};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
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
/// A pool allocates its new space, and stores its map. A raw volume stays sparse: two headers and a block of zeros; three drains for a header.
pub fn grow(
    path: &Path,
    size: u64,
    durability: Option<Durability>,
) -> Result<(VolumeInfo, VolumeInfo), VolumeError> {
    let grow = || {
        let before = info(path)?;
        let (lock, medium) = map(path, Access::ReadWrite, durability)?;
        match recognise(&medium)? {
            Found::Table(table) => return Err(VolumeError::FixedSize { format: table.format.into() }),
            Found::Pool => {
                let was = pool_header(&medium)?.geometry.size();
                if size < was {
                    return Err(VolumeError::Shrinks { size, was });
                }
                drop((medium, lock));
                let access = OpenOptions::new(Access::ReadWrite);
                let pool = BlockPool::open(path, &OpenOptions { durability, grow_to: Some(size), ..access })?;
                let grown = pool.grow(size);
                // Also after a failure: the next opening has nothing to finish.
                let closed = pool.close();
                grown.and(closed)?;
            }
            Found::Raw(RawHeaders { header, .. }) => {
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
    let file = lock.file();
    let length = |error| VolumeError::Length { size, error };
    if !file.metadata().map_err(length)?.is_file() {
        return Err(VolumeError::FixedSize { format: VolumeFormat::Raw });
    }
    if size < header.end() {
        return Err(VolumeError::Shrinks { size, was: header.end() });
    }
    let grown =
        header.grown(size).map_err(|error| VolumeError::raw_plan(size, header.block_size.into(), error))?;
    if i64::try_from(size).is_err() || file_size_limit().is_some_and(|limit| size > limit) {
        return Err(length(io::ErrorKind::FileTooLarge.into()));
    }
    let map = || map_locked(lock, path, Access::ReadWrite, durability);
    // A growth that stopped has left the last copy elsewhere.
    store_header(&map()?, header.copies()[1], header)?;
    // What lies past the volume becomes zeros.
    file.set_len(header.end()).map_err(length)?;
    let medium = extend(file, &grown, size).map_err(length).and_then(|()| map()).and_then(|medium| {
        clear_last_copy(&medium, header, &grown)?;
        Ok(medium)
    });
    let medium = medium.inspect_err(|_| {
        // The first copy has the old size, and so has the file again. A failure leaves a file that is too long, as a crash does.
        let _ = file.set_len(header.end());
        let _ = map().and_then(|medium| store_header(&medium, header.copies()[1], header));
    })?;
    store_header(&medium, grown.copies()[0], &grown)
}

/// Makes the file longer, with the last copy of the header at its new end.
fn extend(file: &File, grown: &RawVolume, size: u64) -> io::Result<()> {
    // One write makes the file longer and stores the copy. Stop here: the copy is at the end, where one looks for it.
    file.write_all_at(&grown.encode(), grown.copies()[1])?;
    file.set_len(size)?;
    // ORDER: length and last copy are durable before the old last copy goes. Stop here: the volume has its old size.
    file.sync_all()
}
