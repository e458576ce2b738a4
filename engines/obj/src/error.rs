//! The errors of object pools.

use crate::growth::GrowthRefusal;
use lode_layout::{InvalidField, PmdkHeaderError, PoolOffset};
use lode_pmem::{Fault, SyncError};
use lode_redo::LogError;
use lode_redo::cover::CoverError;
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
    /// The header of the pool can't be used.
    #[error(transparent)]
    Header(PmdkHeaderError),
    /// The lanes do not lie where PMDK puts them, so a log can't take their place.
    #[error(
        "the pool has {lane_count} lanes at {lanes:#x} before the heap at {heap:#x}, where Lodestone can't keep its log; \
         PMDK makes them at 0x2000, and as many as fit before the heap"
    )]
    Lanes {
        /// Offset of the first lane.
        lanes: u64,
        /// Number of lanes.
        lane_count: u64,
        /// Offset of the heap.
        heap: u64,
    },
    /// No chunk fits into the pool.
    #[error("{size} bytes are too few for an object pool; make it 8 MiB or more")]
    TooSmall {
        /// Bytes of the pool.
        size: u64,
    },
    /// The log, or the memory that it covers, refused the operation.
    #[error(transparent)]
    Cover(#[from] CoverError),
    /// A range does not lie in the heap.
    #[error("{len} bytes at {at} are not in the heap of the pool")]
    OutsideHeap {
        /// Offset of the first byte.
        at: PoolOffset,
        /// Length in bytes.
        len: u64,
    },
    /// The kernel gave no random bytes, which every log needs.
    #[error("getrandom: {}", std::io::Error::from_raw_os_error(*errno))]
    Random {
        /// The error number of the system call.
        errno: i32,
    },
    /// The kernel refused a sync. Part of the operation may be durable; the same operation completes it.
    #[error("the operation is in doubt: {0}; open the pool again")]
    InDoubt(#[from] SyncError),
    /// An object can't have so many bytes.
    #[error("an object of {size} bytes is too large; the most are {max}")]
    TooLarge {
        /// Bytes that were asked for.
        size: u64,
        /// The most bytes.
        max: u64,
    },
    /// An object has at least one byte.
    #[error("an object of no bytes can't be allocated; ask for one byte or more")]
    Empty,
    /// The pool has no space for an object.
    #[error(
        "the pool has no space for {size} bytes, and its largest free block takes {largest}; {}",
        match growth {
            None => "free objects, or use a larger pool".to_owned(),
            Some(refusal) => format!("it does not grow: {refusal}"),
        }
    )]
    Full {
        /// Bytes that were asked for.
        size: u64,
        /// Bytes of an object that takes the largest free block.
        largest: u64,
        /// The reason why the pool has not grown; `None` if it has a fixed size.
        growth: Option<GrowthRefusal>,
    },
    /// The pool did not become larger.
    #[error("the pool can't grow: {0}")]
    NotGrown(#[from] GrowthRefusal),
    /// No allocation class has the identifier.
    #[error("there is no allocation class {id}; make it first: classes are not kept in the pool")]
    NoClass {
        /// The identifier.
        id: u8,
    },
    /// Objects of the size do not fit an allocation class.
    #[error("allocation class {id} is not suitable for {size} bytes; use another class")]
    UnfitClass {
        /// The identifier of the class.
        id: u8,
        /// Bytes that were asked for.
        size: u64,
    },
    /// No arena has the number.
    #[error("there is no arena {number}; make it first")]
    NoArena {
        /// The number.
        number: u32,
    },
    /// No more arenas can be made.
    #[error("all {max} arenas are in use; use one of them")]
    TooManyArenas {
        /// The most arenas.
        max: u32,
    },
    /// A reservation is not one of this pool, or has been published or cancelled.
    #[error("the reservation at {at} is none of this run of the pool, or was published or cancelled before")]
    ForeignReservation {
        /// The offset that it has.
        at: PoolOffset,
    },
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
    /// The words of an open pool.
    Words,
    /// Old bytes of an open transaction, in free chunks.
    Spill,
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
    /// The object is reserved, or another publication is freeing it.
    #[error("the object is reserved, or being freed")]
    InTransit,
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
        matches!(self, ObjError::Damaged(_) | ObjError::Memory(_))
    }

    pub(crate) fn damaged(structure: Structure, at: PoolOffset) -> impl Fn(InvalidField) -> ObjError {
        move |field| ObjError::of(structure, at, field.into())
    }

    pub(crate) fn of(structure: Structure, at: PoolOffset, reason: DamageReason) -> ObjError {
        ObjError::Damaged(Damage { structure, at, reason })
    }
}

impl From<LogError> for ObjError {
    fn from(error: LogError) -> ObjError {
        ObjError::Cover(error.into())
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
            Structure::Words => f.write_str("the words of the open pool"),
            Structure::Spill => f.write_str("the spilled bytes of a transaction"),
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
