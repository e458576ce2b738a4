//! The errors of a heap.

use lode_layout::{PoolOffset, TypeDifference, TypeTableError};
use lode_pmem::{Fault, SyncError};
use lode_redo::{InDoubtCause, LogError};

impl From<LogError> for HeapError {
    fn from(error: LogError) -> HeapError {
        match error {
            LogError::InDoubt(doubt) => HeapError::InDoubt(doubt),
            LogError::Poisoned => HeapError::Poisoned,
            LogError::ReadOnly => HeapError::ReadOnly,
            LogError::Fault(fault) => HeapError::Fault(fault),
            LogError::Corrupt { what, at } => HeapError::Corrupt { what, at },
        }
    }
}

impl HeapError {
    /// Returns the error of a [conversion](crate::Migrate) that has no value for an object.
    pub const fn not_converted(reason: &'static str) -> HeapError {
        HeapError::NotConverted { at: PoolOffset::NULL, reason }
    }

    /// Returns the error of a conversion with the offset of the object.
    pub(crate) fn of_object(self, at: PoolOffset) -> HeapError {
        match self {
            HeapError::NotConverted { reason, .. } => HeapError::NotConverted { at, reason },
            HeapError::InvalidValue { name, at: null } if null.is_null() => {
                HeapError::InvalidValue { name, at }
            }
            error => error,
        }
    }
}

impl From<SyncError> for HeapError {
    fn from(error: SyncError) -> HeapError {
        LogError::from(error).into()
    }
}

/// The reason why an operation on a heap failed. Unless a variant says otherwise, nothing was changed and the heap
/// stays usable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeapError {
    /// No free space of that size is left. Freeing objects or growing the pool helps.
    #[error("the pool has no room for {wanted} bytes more; free something, or grow the pool")]
    OutOfSpace {
        /// Bytes that were asked for.
        wanted: u64,
    },
    /// No free space of that size is left, and the pool, which grows by itself, can't grow now.
    #[error("the pool has no room for {wanted} bytes more, and can't grow: {refusal}")]
    CannotGrow {
        /// Bytes that were asked for.
        wanted: u64,
        /// The reason why it can't grow.
        refusal: GrowthRefusal,
    },
    /// The log of the transaction would be longer than it may be. New objects in new superblocks take no space in the
    /// log of a long transaction. Two shorter transactions, freeing objects before, or growing the pool helps.
    #[error(
        "the transaction needs {wanted} bytes of log for its changes, and the log may take {limit}, half of the pool's \
         free space; divide the transaction, free something before it, or grow the pool"
    )]
    TooLarge {
        /// Bytes of log that the transaction needs.
        wanted: u64,
        /// Maximum bytes of log.
        limit: u64,
    },
    /// Another transaction holds a lock that this one needs, or has changed what this one has read.
    /// [`Heap::run`](crate::Heap::run) starts the closure again; pass it on with `?`.
    #[error("another transaction holds a lock that this one needs, or has changed what it read")]
    Conflict,
    /// The closure met a conflict each time that it was started again, at the end with all others locked out of what it
    /// reads. So the conflict is its own, as when it always calls [`Tx::restart`](crate::Tx::restart).
    #[error(
        "the closure of the transaction was started again {restarts} times and never became valid; make it end \
         without a restart when no other transaction interferes"
    )]
    NeverValid {
        /// Number of times that it was started again.
        restarts: u32,
    },
    /// The transaction may or may not be there when the pool is opened again. This handle accepts no more changes. It
    /// gives the space that the transaction has allocated to no other.
    #[error("the transaction is in doubt: {0}")]
    InDoubt(InDoubtCause),
    /// An earlier sync failed; this handle writes no more. Transactions that were acknowledged before are safe.
    #[error(
        "an earlier sync failed, so this handle accepts no more changes; close the pool and open it again"
    )]
    Poisoned,
    /// The pool was opened for reading, so the changes of a transaction would be lost with the handle. Returned by
    /// the first allocation, or at the end of the transaction. A transaction that only reads succeeds.
    #[error(
        "the pool was opened for reading, and the transaction would change it; open the pool for writing"
    )]
    ReadOnly,
    /// An operation inside of the transaction failed and its error was dropped. The transaction can't commit, since it
    /// holds a part of that operation's changes.
    #[error("an operation inside of the transaction failed, so the transaction does too")]
    NestedFailed,
    /// The memory or the medium could not deliver bytes that were needed. The failed transaction has changed nothing.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The medium holds a value that can't be right.
    #[error("{what} at {at} is damaged")]
    Corrupt {
        /// The structure that is damaged.
        what: &'static str,
        /// Offset of its first byte.
        at: PoolOffset,
    },
    /// The bytes in a cell or vector are no value of its type: the medium is damaged, or another program stored them.
    #[error("the bytes at {at} are no value of the type {name}; check the pool")]
    InvalidValue {
        /// Name of the type.
        name: &'static str,
        /// Offset of the first byte of the value.
        at: PoolOffset,
    },
    /// No allocated object begins at the offset.
    #[error("there is no allocated object at {at}")]
    NoObject {
        /// The offset in question.
        at: PoolOffset,
    },
    /// The alignment is not a power of two, or is greater than 4 KiB.
    #[error("objects can be aligned to powers of two up to 4096 bytes, not to {align}")]
    Alignment {
        /// The alignment that was asked for, in bytes.
        align: u64,
    },
    /// The pool's root object is not one of typed data.
    #[error(
        "the root at {at} has the type number {found:#018x} and is not typed data; open the pool with the program \
         that made it"
    )]
    NotTyped {
        /// Offset of the root object.
        at: PoolOffset,
        /// Its type number.
        found: u64,
    },
    /// The pool holds other types than the program declares: an older or newer program made it.
    #[error(
        "the pool holds other types than this program: {0}\nopen it with the program that made it, or tell this \
         one how to convert them (`Migrate`)"
    )]
    OtherTypes(Box<TypeDifference>),
    /// The pool holds older types of the program, or a migration of it is not finished.
    #[error(
        "the pool holds data of older types, or its migration is not finished; the program that knows them all migrates it \
         (`TypedPool::migrate`)"
    )]
    NotMigrated,
    /// A value has a pointer that a migration has moved out of an object, and no object can be made with it.
    #[error(
        "the value has a pointer or vector that was kept from a migration, where it belongs to another object"
    )]
    StrayPointer,
    /// An object of an older type can't become one of the new. A conversion returns it with the null offset, and the migration
    /// puts in that of the object.
    #[error("the object of an older type at {at} can't be converted: {reason}")]
    NotConverted {
        /// Offset of the object.
        at: PoolOffset,
        /// The reason.
        reason: &'static str,
    },
    /// The table of the pool's types can't be used; or that of the program's types, if the offset is null.
    #[error("the type table at {at}: {error}")]
    TypeTable {
        /// Offset of the table.
        at: PoolOffset,
        /// The reason.
        error: Box<TypeTableError>,
    },
    /// A cell, pointer, vector, queue, string, lock or object was used with a transaction or guard of a pool in which it does
    /// not lie: it is one of another pool of the same brand, or of none.
    #[error("what is used does not lie in the pool of the transaction or guard")]
    OtherPool,
    /// The key is too long for a map.
    #[error("a key has at most {max} bytes, and this one has {len}")]
    KeyTooLong {
        /// Its length in bytes.
        len: usize,
        /// Greatest length in bytes.
        max: usize,
    },
    /// The pool is larger than a map's nodes can address.
    #[error("a map lies in the first {max} bytes of its pool, and this pool has {len}")]
    PoolTooLarge {
        /// The pool's length in bytes.
        len: u64,
        /// Bytes that a node can address.
        max: u64,
    },
    /// The snapshot kept so much memory or space from use that transactions needed it. Open another one.
    #[error(
        "the snapshot was ended, because transactions needed the memory or the space that it kept back; \
         open another one"
    )]
    SnapshotEnded,
    /// The operation can't be done inside of a transaction.
    #[error("this can't be done inside of a transaction")]
    InTransaction,
}

/// The reason why a pool that grows by itself can't grow. The pool has its size as before, and is usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GrowthRefusal {
    /// It has the size up to which it grows by itself, or would need more than that.
    #[error("it grows by itself to at most {size_max} bytes; free something in it, or raise this maximum")]
    Maximum {
        /// The maximum in bytes.
        size_max: u64,
    },
    /// The disk is full.
    #[error(
        "the disk is full, and {size} bytes have no room on it; free space on it, or something in the pool"
    )]
    DiskFull {
        /// The size in bytes that the pool would have.
        size: u64,
    },
    /// The user's share of the disk is full.
    #[error(
        "{size} bytes exceed the quota on the disk; free space on it, ask for a greater quota, or free something in \
         the pool"
    )]
    Quota {
        /// The size in bytes that the pool would have.
        size: u64,
    },
    /// The file system, or the process's `ulimit -f`, allows no file of that size.
    #[error(
        "its file system, or `ulimit -f`, allows no file of {size} bytes; raise the limit and open the pool again, or \
         free something in it"
    )]
    FileSize {
        /// The size in bytes that the pool would have.
        size: u64,
    },
    /// The address space reserved for the pool is full.
    #[error(
        "addresses are reserved for {reserved} bytes of it; close the pool and open it again, for a greater size"
    )]
    AddressSpace {
        /// Size in bytes up to which the pool can grow while it is open.
        reserved: u64,
    },
    /// The header has no room for another extent: the pool grew in many small steps.
    #[error(
        "its header has no room for another part, and the parts reach {size_max} bytes; free something in it, or \
         copy its content to a new pool"
    )]
    Extents {
        /// Size in bytes up to which the pool can grow.
        size_max: u64,
    },
    /// A sync failed, now or before, so the medium accepts no more stores.
    #[error("a sync failed; look for errors of the device in the kernel's log, then open the pool again")]
    SyncFailed,
    /// The pool was closed, or its handle dropped.
    #[error("it is closed")]
    Closed,
    /// A system call failed.
    #[error("{op}: {}", std::io::Error::from_raw_os_error(*errno))]
    Io {
        /// The operation that failed.
        op: &'static str,
        /// The error number.
        errno: i32,
    },
    /// The header lies in lost memory, or a newer program made it.
    #[error("its header can't be changed; close the pool and check it")]
    Headers,
}

impl HeapError {
    /// Returns true if there is no free space of the size that was asked for.
    pub fn is_out_of_space(&self) -> bool {
        matches!(self, HeapError::OutOfSpace { .. } | HeapError::CannotGrow { .. })
    }

    /// Returns true if the error tells of damage: bytes on the medium that are not as they were written, or can't be
    /// read.
    pub fn is_damage(&self) -> bool {
        match self {
            HeapError::Corrupt { .. } | HeapError::NoObject { .. } => true,
            HeapError::Fault(fault) => fault.is_damage(),
            _ => false,
        }
    }
}
