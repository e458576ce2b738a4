//! Damage in the headers: finding it without writing, repairing it without guessing.

use crate::{CopyFault, DirtyShutdown, HeaderCopy, Headers, PoolError};
use lode_pmem::Medium;
use std::fmt;
use uuid::Uuid;

/// Something in the headers that is not as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// One copy can't be used.
    Copy {
        /// Which one.
        copy: HeaderCopy,
        /// Why.
        fault: CopyFault,
    },
    /// Both copies are whole and equally new, but differ.
    Differ {
        /// The generation that both claim.
        generation: u64,
    },
    /// Both copies are whole, but of different pools.
    TwoPools {
        /// The pool of copy A.
        a: Uuid,
        /// The pool of copy B.
        b: Uuid,
    },
    /// The file or device ends before the pool does.
    CutShort {
        /// The length of the pool in bytes.
        want: u64,
        /// The bytes that there are.
        found: u64,
    },
    /// The modules lost data while a writer had the pool open.
    DirtyShutdown(DirtyShutdown),
}

/// All damage in the headers. Never writes. An update that a crash interrupted is not damage.
pub fn check_headers<M: Medium>(medium: &M) -> Vec<Damage> {
    let [a, b] = [HeaderCopy::A, HeaderCopy::B].map(|copy| copy.read(medium));
    let mut damage = Vec::new();
    for (copy, read) in [(HeaderCopy::A, &a), (HeaderCopy::B, &b)] {
        if let Err(fault) = *read {
            damage.push(Damage::Copy { copy, fault });
        }
    }
    let found = medium.memory().len();
    match Headers::among([a, b]) {
        Ok(headers) => {
            if headers.current().fits(found).is_err() {
                damage.push(Damage::CutShort { want: headers.geometry().size(), found });
            }
            damage.extend(headers.dirty_shutdown(medium).map(Damage::DirtyShutdown));
        }
        Err(PoolError::TwoPools { a, b }) => damage.push(Damage::TwoPools { a, b }),
        Err(PoolError::CopiesDiffer { generation }) => damage.push(Damage::Differ { generation }),
        // Every other error is that of a copy, which is in the list.
        _ => {}
    }
    damage
}

/// Writes the copy that is damaged or behind anew, from the other one. Returns which one it wrote, if any.
///
/// A pool that is cut short stays so: its header is right, the bytes are missing, and
/// [`map_to_repair`](crate::map_to_repair) is what puts others in their place. A dirty shutdown stays noted, too,
/// until somebody has looked at the content, and says so by [`Headers::set_dirty_shutdowns`].
///
/// # Errors
/// [`PoolError::Headers`] when no copy is valid, [`PoolError::Foreign`], [`PoolError::TwoPools`]
/// and [`PoolError::CopiesDiffer`]: there is nothing to copy from without guessing, and nothing was written. [`PoolError::Drain`] as for every update.
///
/// # Durability
/// Both copies are whole and equal when it returns.
///
/// # Cost
/// At most one copy of 4096 bytes and one drain.
pub fn repair_headers<M: Medium>(medium: &M) -> Result<Option<HeaderCopy>, PoolError> {
    let mut headers = Headers::choose(medium)?;
    let other = headers.newest().other();
    if other.read(medium) == Ok(*headers.current()) {
        return Ok(None);
    }
    headers.rewrite_other(medium)?;
    Ok(Some(other))
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Copy { copy, fault } => write!(f, "header copy {copy} at {}: {fault}", copy.at()),
            Damage::Differ { generation } => {
                write!(f, "header copies A and B differ, though both are update {generation}")
            }
            Damage::TwoPools { a, b } => {
                write!(f, "header copy A is of pool {a}, copy B of pool {b}")
            }
            Damage::CutShort { want, found } => {
                write!(f, "the pool has {want} bytes, but only {found} of them are there")
            }
            Damage::DirtyShutdown(shutdown) => write!(f, "{shutdown}"),
        }
    }
}
