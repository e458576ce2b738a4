//! The repair of the descriptor. Each of its copies can be made anew from the other.

use crate::descriptor;
use crate::error::BlocksError;
use lode_layout::{BlocksDescriptor, Geometry};
use lode_pmem::Medium;

/// Returns the descriptor of the blocks of a pool.
///
/// # Errors
/// Fails if neither copy is valid.
///
/// # Cost
/// Reads the descriptor.
pub fn describe<M: Medium>(medium: &M, geometry: &Geometry) -> Result<BlocksDescriptor, BlocksError> {
    Ok(descriptor::read(medium, geometry)?)
}

/// Makes both copies of the descriptor equal, and returns true if they were not. No other handle has the pool open.
///
/// # Errors
/// Fails if neither copy is valid, or if the medium can't be stored to.
///
/// # Durability
/// Durable on return. After a power cut before that, one copy is valid, and another repair does the rest.
///
/// # Cost
/// None if they are equal; otherwise one drain.
pub fn repair<M: Medium>(medium: &M, geometry: &Geometry) -> Result<bool, BlocksError> {
    let [(first_at, first), (second_at, second)] = descriptor::copies(medium, geometry);
    if let (Ok(first), Ok(second)) = (first, second)
        && first == second
    {
        return Ok(false);
    }
    let valid = first.or_else(|error| second.map_err(|_| error))?;
    let at = if first.is_ok() { second_at } else { first_at };
    descriptor::write_copy(medium, at, &valid)?;
    // ORDER: only the copy that was of no use is stored to. Stop here: the other copy serves.
    medium.drain().map_err(lode_redo::LogError::from)?;
    Ok(true)
}
