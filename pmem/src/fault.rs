//! Faults: accesses that the memory, or the pool in it, could not satisfy.
//!
//! A load that fails returns zeros, and a store that fails is dropped. The thread records the first failure since the
//! last [`Fault::take`], the way a floating-point unit records exceptions. So an engine's inner loops have no error
//! paths. The engine reads, and computes a result that is memory-safe even with zeros. It calls [`Fault::take`] once
//! before it returns the result.

use lode_layout::PoolOffset;
use std::cell::Cell;
use std::fmt;

/// The kind of a failed access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The range is outside of the memory, or is not aligned for the access: a damaged offset on the medium.
    OutOfRange,
    /// The hardware or the kernel could not deliver the bytes: a poisoned line, or a file cut short.
    Poison,
    /// This process is a fork of the one that opened the medium, and must not use it.
    Forked,
}

/// A failed access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Takes the first fault of this thread since the last call.
    ///
    /// # Cost
    /// One load from thread-local memory if there was no fault.
    #[inline]
    pub fn take() -> Option<Fault> {
        PENDING.with(|pending| if pending.get().is_some() { pending.take() } else { None })
    }

    /// Runs `access`, and returns its result with the first fault that it raised. An earlier fault of the thread stays
    /// raised.
    #[inline]
    pub fn apart<R>(access: impl FnOnce() -> R) -> (R, Option<Fault>) {
        let earlier = Fault::take();
        let result = access();
        let own = Fault::take();
        earlier.into_iter().for_each(Fault::raise);
        (result, own)
    }

    /// Returns true if [`take`](Fault::take) would return a fault.
    ///
    /// # Cost
    /// The same as `take`.
    #[inline]
    pub fn is_raised() -> bool {
        PENDING.with(|pending| pending.get().is_some())
    }

    /// Records `self` unless an earlier fault is still to be taken.
    #[cold]
    pub fn raise(self) {
        PENDING.with(|pending| {
            if pending.get().is_none() {
                pending.set(Some(self));
            }
        });
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            FaultKind::OutOfRange => "is not inside the pool",
            FaultKind::Poison => "can't be read: the memory is poisoned, or the file was cut short",
            FaultKind::Forked => "can't be used by a fork of the process that opened the pool",
        };
        write!(f, "the range of {} bytes at {} {what}", self.len, self.at)
    }
}

impl std::error::Error for Fault {}
