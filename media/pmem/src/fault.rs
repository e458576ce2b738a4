//! Faults: accesses that the memory, or the pool in it, could not satisfy.
//!
//! A load that fails returns zeros, and a store that fails is dropped. The thread records the first failure, the way a
//! floating-point unit records exceptions. So an engine's inner loops have no error paths. The engine reads, and
//! computes a result that is memory-safe even with zeros. The [scope](crate::FaultScope) of its reads then returns the
//! fault in place of the result. Loads need such a scope: only a scope lends the [`Readable`](crate::Readable) that
//! has them.

use lode_layout::PoolOffset;
use std::cell::Cell;

/// The kind of a failed access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The range is outside of the memory, or is not aligned for the access: a damaged offset on the medium.
    OutOfRange,
    /// The hardware or the kernel could not deliver the bytes: a poisoned line, or a file cut short.
    Poison,
    /// The bytes are a hole of a sparse file, or lie beside one, and the file system has no space for them. Nothing is lost:
    /// the access succeeds when there is space.
    NoSpace,
    /// This process is a fork of the one that opened the medium, and must not use it.
    Forked,
}

impl FaultKind {
    fn predicate(self) -> &'static str {
        match self {
            FaultKind::OutOfRange => "is not inside the pool",
            FaultKind::Poison => "can't be read: the memory is poisoned, or the file was cut short",
            FaultKind::NoSpace => {
                "needs space, and the file system has no space left for it, or refuses the store; free space there, and look \
                 for errors of the file system in the kernel's log"
            }
            FaultKind::Forked => "can't be used by a fork of the process that opened the pool",
        }
    }
}

/// A failed access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the range of {len} bytes at {at} {}", .kind.predicate())]
pub struct Fault {
    /// Kind of the failure.
    pub kind: FaultKind,
    /// Offset of the failed access.
    pub at: PoolOffset,
    /// Length of the affected range in bytes.
    pub len: u64,
}

thread_local! {
    static PENDING: Cell<Option<Fault>> = const { Cell::new(None) };
}

impl Fault {
    /// Returns true if bytes are lost, or the offset that led to them.
    pub fn is_damage(&self) -> bool {
        matches!(self.kind, FaultKind::OutOfRange | FaultKind::Poison)
    }

    /// Takes this thread's first fault since the last call of `take`.
    ///
    /// # Cost
    /// One load from thread-local memory if there was no fault. An absent fault is not copied: the load of its bytes, which
    /// nothing has stored, could wait for all stores before it, the drain included.
    #[inline]
    pub(crate) fn take() -> Option<Fault> {
        if Fault::is_pending() { Fault::take_pending() } else { None }
    }

    #[cold]
    #[inline(never)]
    fn take_pending() -> Option<Fault> {
        PENDING.take()
    }

    /// Returns the fault that [`take`](Fault::take) would return.
    #[inline]
    pub(crate) fn pending() -> Option<Fault> {
        PENDING.with(Cell::get)
    }

    /// Returns true if [`take`](Fault::take) would return a fault.
    #[inline]
    pub(crate) fn is_pending() -> bool {
        PENDING.with(|pending| pending.get().is_some())
    }

    /// Records `self` as a fault of the calling thread's innermost scope, unless that has an earlier one. For media, and
    /// for code that learns after the end of an inner scope that its fault counts.
    #[cold]
    pub fn raise(self) {
        PENDING.with(|pending| {
            if pending.get().is_none() {
                pending.set(Some(self));
            }
        });
    }
}
