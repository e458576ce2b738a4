//! Errors of a tree.

use lode_heap::HeapError;
use lode_layout::{KEY_LEN_MAX, PoolOffset, TREE_NAME_LEN_MAX};
use lode_pmem::Fault;

/// Reason why an operation on a tree failed. Unless a variant says otherwise, nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
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
        /// Offset at which it was expected.
        at: PoolOffset,
    },
    /// The transaction belongs to another heap than the tree. Nothing was changed.
    #[error("the transaction is one of another pool than the tree; begin it on the heap of the tree")]
    OtherPool,
    /// A tree can't have this name, or its types can't have theirs.
    #[error(
        "the name of a tree has 1 to {TREE_NAME_LEN_MAX} bytes, and this one has {len}; choose another name"
    )]
    TreeName {
        /// Length of the name in bytes.
        len: usize,
    },
    /// There is a tree of this name already.
    #[error("there is a tree of this name already; choose another name, or drop it first")]
    TreeExists,
    /// The medium holds something that can't be right.
    #[error("{what} at {at} is damaged")]
    Corrupt {
        /// The damaged structure.
        what: &'static str,
        /// Offset of its first byte.
        at: PoolOffset,
    },
    /// The memory or the medium could not deliver bytes that were needed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The heap of the tree failed. After [`HeapError::InDoubt`] it is unknown if the change happened. Pass
    /// [`HeapError::Conflict`] on.
    #[error(transparent)]
    Heap(HeapError),
}

impl IndexError {
    /// Returns true for damage: something on the medium is not as it was written, or can't be read.
    pub fn is_damage(&self) -> bool {
        match self {
            IndexError::Corrupt { .. } | IndexError::NoTree { .. } => true,
            IndexError::Fault(fault) => fault.is_damage(),
            IndexError::Heap(error) => error.is_damage(),
            IndexError::KeyTooLong { .. }
            | IndexError::PoolTooLarge { .. }
            | IndexError::OtherPool
            | IndexError::TreeName { .. }
            | IndexError::TreeExists => false,
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
