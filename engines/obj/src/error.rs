//! The errors of object pools.

use lode_layout::{InvalidField, PoolOffset};
use lode_pmem::{Fault, SyncError};
use std::fmt;

/// The reason why an operation on an object pool failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjError {
    /// A structure of the pool is damaged. Nothing was changed.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// Memory that was needed is lost.
    #[error(transparent)]
    Memory(#[from] Fault),
    /// The kernel refused a sync. Part of the operation may be durable; the same operation completes it.
    #[error("the operation is in doubt: {0}; open the pool again")]
    InDoubt(#[from] SyncError),
}

/// A structure of an object pool that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{structure} at {at}: {reason}")]
pub struct Damage {
    /// The structure.
    pub structure: Structure,
    /// Its place in the pool.
    pub at: PoolOffset,
    /// The rule that it breaks.
    pub reason: DamageReason,
}

/// A structure of an object pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Structure {
    /// The descriptor of the pool.
    Descriptor,
    /// The words after the descriptor.
    State,
    /// The header of the heap.
    Heap,
    /// The header of a zone.
    Zone {
        /// Index of the zone.
        zone: u64,
    },
    /// The header of a chunk.
    Chunk {
        /// Index of the zone.
        zone: u64,
        /// Index of the chunk in the zone.
        chunk: u32,
    },
    /// The header or the bitmap of a run.
    Run {
        /// Index of the zone.
        zone: u64,
        /// Index of its first chunk in the zone.
        chunk: u32,
    },
    /// An object.
    Object,
    /// The root object.
    Root,
    /// A log of a lane, or an extension of it.
    Log {
        /// Index of the lane.
        lane: u64,
        /// The log.
        kind: LogKind,
    },
}

/// A log of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogKind {
    /// The redo log of the allocator.
    Internal,
    /// The redo log of commits.
    External,
    /// The undo log of a transaction.
    Undo,
}

/// The rule that a structure breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DamageReason {
    /// A field breaks its rule.
    #[error(transparent)]
    Field(#[from] InvalidField),
    /// A block has more chunks than are left in its zone, or none.
    #[error("the block has {found} chunks, and {left} are left in the zone")]
    ChunkCount {
        /// Its chunks.
        found: u32,
        /// Chunks from its first to the end of the zone.
        left: u32,
    },
    /// A header stands where a block begins, and is none of a block's first chunk.
    #[error("no block begins here, but one must")]
    NoBlock,
    /// The size of an object does not fit its block.
    #[error("the object has {size} bytes, and its block takes {min} to {max}")]
    ObjectSize {
        /// Bytes of the object with its header.
        size: u64,
        /// Least bytes that it may have.
        min: u64,
        /// Most bytes that it may have.
        max: u64,
    },
    /// No object begins at the place.
    #[error("no object begins here")]
    NoObject,
    /// The object is free.
    #[error("the object is free")]
    Free,
    /// An extension of a log lies outside of the heap.
    #[error("the extension of the log at {next} is not in the heap")]
    ExtensionOutside {
        /// The place that the log names.
        next: PoolOffset,
    },
    /// An extension of a log belongs to a log already.
    #[error("the extension of the log at {next} is part of a log already")]
    ExtensionTwice {
        /// The place that the log names.
        next: PoolOffset,
    },
    /// An entry of a log changes bytes that no log may change.
    #[error("an entry changes {len} bytes at {target}, which no log may change")]
    Target {
        /// The first byte.
        target: PoolOffset,
        /// Number of bytes.
        len: u64,
    },
    /// The pool is too small.
    #[error("the pool has {size} bytes, and its heap begins at {heap:#x}")]
    PoolSize {
        /// Bytes of the pool.
        size: u64,
        /// Offset of the heap.
        heap: u64,
    },
}

impl ObjError {
    /// Returns true if the pool is damaged.
    pub fn is_damage(&self) -> bool {
        !matches!(self, ObjError::InDoubt(_))
    }

    pub(crate) fn damaged(structure: Structure, at: PoolOffset) -> impl Fn(InvalidField) -> ObjError {
        move |field| ObjError::of(structure, at, field.into())
    }

    pub(crate) fn of(structure: Structure, at: PoolOffset, reason: DamageReason) -> ObjError {
        ObjError::Damaged(Damage { structure, at, reason })
    }
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Structure::Descriptor => f.write_str("the descriptor of the pool"),
            Structure::State => f.write_str("the state of the pool"),
            Structure::Heap => f.write_str("the header of the heap"),
            Structure::Zone { zone } => write!(f, "the header of zone {zone}"),
            Structure::Chunk { zone, chunk } => write!(f, "the header of chunk {chunk} of zone {zone}"),
            Structure::Run { zone, chunk } => write!(f, "the run in chunk {chunk} of zone {zone}"),
            Structure::Object => f.write_str("the object"),
            Structure::Root => f.write_str("the root object"),
            Structure::Log { lane, kind } => write!(f, "the {kind} log of lane {lane}"),
        }
    }
}

impl fmt::Display for LogKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LogKind::Internal => "internal redo",
            LogKind::External => "external redo",
            LogKind::Undo => "undo",
        })
    }
}
