//! What can go wrong in a tree.

use lode_heap::HeapError;
use lode_layout::{KEY_LEN_MAX, PoolOffset};
use lode_pmem::{Fault, FaultKind};

/// Why an operation on a tree failed. Unless a variant says otherwise, nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The key is too long.
    #[error("a key has at most {KEY_LEN_MAX} bytes, and this one has {len}")]
    KeyTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// The pool is larger than the tree's slots can address.
    #[error("a tree lies in the first {max} bytes of its pool, and this pool has {len}")]
    PoolTooLarge {
        /// The pool's length in bytes.
        len: u64,
        /// Bytes that a slot can address.
        max: u64,
    },
    /// The object is no tree.
    #[error("there is no tree at {at}")]
    NoTree {
        /// Where it was looked for.
        at: PoolOffset,
    },
    /// The transaction is one of another heap than the tree's. Nothing was changed.
    #[error("the transaction is one of another pool than the tree; begin it on the heap of the tree")]
    OtherPool,
    /// The medium holds something that can't be right.
    #[error("{what} at {at} is damaged; `lode pool check` shows how far")]
    Corrupt {
        /// The structure that is damaged.
        what: &'static str,
        /// Where it begins.
        at: PoolOffset,
    },
    /// The memory or the medium could not deliver bytes that were needed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The heap under the tree failed. Its [`HeapError::InDoubt`] leaves open whether the change happened;
    /// [`HeapError::Conflict`] is to be passed on.
    #[error(transparent)]
    Heap(HeapError),
}

impl IndexError {
    /// Whether it tells of damage: of something on the medium that is not as it was written, or can't be read.
    pub fn is_damage(&self) -> bool {
        match self {
            IndexError::Corrupt { .. } | IndexError::NoTree { .. } => true,
            IndexError::Fault(fault) => fault.kind != FaultKind::Forked,
            IndexError::Heap(error) => error.is_damage(),
            IndexError::KeyTooLong { .. } | IndexError::PoolTooLarge { .. } | IndexError::OtherPool => false,
        }
    }
}

impl From<HeapError> for IndexError {
    fn from(error: HeapError) -> IndexError {
        match error {
            HeapError::Fault(fault) => IndexError::Fault(fault),
            HeapError::Corrupt { what, at } => IndexError::Corrupt { what, at },
            other => IndexError::Heap(other),
        }
    }
}
