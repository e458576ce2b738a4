//! Making a pool out of a medium.

use crate::zero::zero_range;
use crate::{HeaderCopy, Headers, PoolError};
use lode_layout::{BLOCK, Geometry, Header, PoolOffset};
use lode_pmem::{Fault, Medium};

/// Makes a pool with this header on the medium, whatever it held before. `content` writes what the engines
/// need: it finds slots, log and chunk tables zeroed, and may use any store of the medium; its last act is to
/// flush what it stored through the cache.
///
/// # Errors
/// [`PoolError::CutShort`] when the medium is too short, [`PoolError::Drain`], [`PoolError::Memory`], and what
/// `content` returns. There is no pool on the medium then.
///
/// # Durability
/// When it returns the pool is there, whole. After a crash before that there is a whole pool or none, also
/// where another pool was before:
///
/// | stops after  | media shows                                | reading takes |
/// |--------------|--------------------------------------------|---------------|
/// | nothing      | whatever was there                         | the same      |
/// | first drain  | no header                                  | no pool       |
/// | second drain | everything but headers                     | no pool       |
/// | third drain  | the same and copy A                        | the new pool  |
/// | last drain   | the new pool                               | the new pool  |
///
/// # Cost
/// Writes the log (64 MiB in a large pool) and the chunk table (1/256 of the pool); four drains.
pub fn format<M: Medium, E: From<PoolError>>(
    medium: &M,
    header: Header,
    content: impl FnOnce(&M, &Header) -> Result<(), E>,
) -> Result<Headers, E> {
    let header = Header { generation: 1, ..header };
    let geometry = &header.geometry;
    let found = medium.memory().len();
    if header.fits(found).is_err() {
        return Err(PoolError::CutShort { want: geometry.size(), found }.into());
    }
    for copy in [HeaderCopy::A, HeaderCopy::B] {
        zero_range(medium, copy.at(), BLOCK)?;
    }
    // ORDER: old headers are gone before anything that they describe changes (crash table, row 2).
    drain(medium)?;
    let slots: [PoolOffset; 2] = [Geometry::SLOT_0, Geometry::SLOT_1];
    for slot in slots {
        zero_range(medium, slot, BLOCK)?;
    }
    // The log is written even on a fresh file: a synced write must never have to allocate its blocks.
    zero_range(medium, geometry.log_off(), geometry.log_len())?;
    for extent in geometry.extents() {
        zero_range(medium, extent.start, extent.table_len)?;
    }
    content(medium, &header)?;
    if let Some(fault) = Fault::take() {
        return Err(PoolError::Memory { fault }.into());
    }
    // ORDER: everything else before a header that makes it a pool (row 3).
    drain(medium)?;
    let bytes = header.encode();
    for copy in [HeaderCopy::A, HeaderCopy::B] {
        copy.write(medium, &bytes).map_err(|fault| PoolError::Memory { fault })?;
        // ORDER: copy A before copy B, so that no crash tears both (rows 4 and 5).
        drain(medium)?;
    }
    Ok(Headers::written(header))
}

fn drain<M: Medium>(medium: &M) -> Result<(), PoolError> {
    // ORDER: told at each call.
    medium.drain().map_err(|error| PoolError::Drain { error })
}
