//! Formatting a medium as a pool.

use crate::zero::zero_range;
use crate::{HeaderCopy, Headers, PoolError};
use lode_layout::{BLOCK, Geometry, Header, PoolOffset};
use lode_pmem::{FaultScope, Medium};

/// Makes a pool with this header on the medium, and overwrites any earlier content. `content` writes the engines'
/// initial data. It finds slots, log and chunk tables zeroed, and may use any store of the medium. Before it returns it
/// must flush all that it stored through the cache.
///
/// # Errors
/// [`PoolError::Truncated`] when the medium is too short, [`PoolError::Drain`], [`PoolError::Memory`], and the errors
/// of `content`. After an error there is no pool on the medium.
///
/// # Durability
/// The whole pool is durable when it returns. After a crash before that there is a whole pool or none, also where
/// another pool was before:
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
        return Err(PoolError::Truncated { want: geometry.size(), found }.into());
    }
    for copy in [HeaderCopy::A, HeaderCopy::B] {
        zero_range(medium, copy.at(), BLOCK)?;
    }
    // ORDER: the old headers are erased before anything that they describe changes (crash table, row 2).
    drain(medium)?;
    let slots: [PoolOffset; 2] = [Geometry::SLOT_0, Geometry::SLOT_1];
    for slot in slots {
        zero_range(medium, slot, BLOCK)?;
    }
    // The log is written even on a fresh file, so a synced write to it never has to allocate blocks.
    zero_range(medium, geometry.log_off(), geometry.log_len())?;
    for extent in geometry.extents() {
        zero_range(medium, extent.start, extent.table_len)?;
    }
    FaultScope::run(|| content(medium, &header)).map_err(|fault| PoolError::Memory { fault })??;
    // ORDER: all other parts before the header that makes it a pool (row 3).
    drain(medium)?;
    let bytes = header.encode();
    for copy in [HeaderCopy::A, HeaderCopy::B] {
        copy.write(medium, &bytes).map_err(|fault| PoolError::Memory { fault })?;
        // ORDER: copy A before copy B, so no crash tears both (rows 4 and 5).
        drain(medium)?;
    }
    Ok(Headers::after_format(header))
}

fn drain<M: Medium>(medium: &M) -> Result<(), PoolError> {
    // ORDER: told at each call.
    medium.drain().map_err(|error| PoolError::Drain { error })
}
