//! Damage in the headers: finding it without writing, and repairing it without guessing.

use crate::{DirtyShutdown, HeaderCopy, HeaderCopyError, Headers, PoolError};
use lode_pmem::Medium;
use std::fmt;
use uuid::Uuid;

/// Damage found in the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// One copy can't be used.
    Copy {
        /// The unusable copy.
        copy: HeaderCopy,
        /// The reason.
        fault: HeaderCopyError,
    },
    /// Both copies are whole and have the same generation, but differ.
    CopiesDiffer {
        /// The generation of both.
        generation: u64,
    },
    /// Both copies are whole, but belong to different pools.
    TwoPools {
        /// The pool of copy A.
        a: Uuid,
        /// The pool of copy B.
        b: Uuid,
    },
    /// The file or device ends before the pool does.
    Truncated {
        /// Length of the pool in bytes.
        want: u64,
        /// Length of the file or device in bytes.
        found: u64,
    },
    /// The modules lost data while a writer had the pool open.
    DirtyShutdown(DirtyShutdown),
}

/// Lists all damage in the headers. It never writes. An update that a crash interrupted is not damage.
pub fn check_headers<M: Medium>(medium: &M) -> Vec<Damage> {
    let [a, b] = [HeaderCopy::A, HeaderCopy::B].map(|copy| copy.read(medium));
    let mut damage = Vec::new();
    for (copy, read) in [(HeaderCopy::A, &a), (HeaderCopy::B, &b)] {
        if let Err(fault) = *read {
            damage.push(Damage::Copy { copy, fault });
        }
    }
    let found = medium.memory().len();
    match Headers::from_copies([a, b]) {
        Ok(headers) => {
            if headers.current().fits(found).is_err() {
                damage.push(Damage::Truncated { want: headers.geometry().size(), found });
            }
            damage.extend(headers.dirty_shutdown(medium).map(Damage::DirtyShutdown));
        }
        Err(PoolError::TwoPools { a, b }) => damage.push(Damage::TwoPools { a, b }),
        Err(PoolError::CopiesDiffer { generation }) => damage.push(Damage::CopiesDiffer { generation }),
        // Every other error comes from a copy, which the list already has.
        _ => {}
    }
    damage
}

/// Rewrites the damaged or older copy from the other one. Returns the copy that it wrote, if any.
///
/// A pool that is cut short stays so: its header is right and the bytes are missing.
/// [`map_for_repair`](crate::map_for_repair) replaces them. A dirty shutdown stays noted, too, until a caller that has
/// checked the content clears it with [`Headers::set_dirty_shutdowns`].
///
/// # Errors
/// [`PoolError::Headers`] when no copy is valid, [`PoolError::Incompatible`], [`PoolError::TwoPools`] and
/// [`PoolError::CopiesDiffer`]: the right content is unknown, and nothing was written. [`PoolError::Drain`] as for
/// every update.
///
/// # Durability
/// Both copies are whole and equal when it returns.
///
/// # Cost
/// At most one copy of 4096 bytes and one drain.
pub fn repair_headers<M: Medium>(medium: &M) -> Result<Option<HeaderCopy>, PoolError> {
    let mut headers = Headers::read_any_len(medium)?;
    let other = headers.newest().other();
    if other.read(medium) == Ok(*headers.current()) {
        return Ok(None);
    }
    headers.rewrite_other(medium)?;
    Ok(Some(other))
}

impl std::error::Error for Damage {}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Copy { copy, fault } => write!(f, "header copy {copy} at {}: {fault}", copy.at()),
            Damage::CopiesDiffer { generation } => {
                write!(f, "header copies A and B differ, though both are update {generation}")
            }
            Damage::TwoPools { a, b } => {
                write!(f, "header copy A is of pool {a}, copy B of pool {b}")
            }
            Damage::Truncated { want, found } => {
                write!(f, "the pool has {want} bytes, but only {found} of them are there")
            }
            Damage::DirtyShutdown(shutdown) => write!(f, "{shutdown}"),
        }
    }
}
