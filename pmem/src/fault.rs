//! Faults: accesses that the memory, or the pool that it holds, could not satisfy.
//!
//! A load that fails returns zeros, a store that fails is dropped, and the first failure since the last
//! [`Fault::take`] is remembered for the thread, the way a floating-point unit remembers exceptions. So an
//! engine's inner loops carry no error paths: it reads, comes to an answer that zeros can't make wrong in
//! memory, and asks [`Fault::take`] once before it lets the answer out.

use lode_layout::PoolOffset;
use std::cell::Cell;
use std::fmt;

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The range is outside of the memory, or not aligned as the access needs: a damaged offset on the medium.
    OutOfRange,
    /// The hardware or the kernel could not deliver the bytes: a poisoned line, or a file cut short.
    Poison,
    /// This process is a fork of the one that opened the medium, and may not use it.
    Forked,
}

/// A failed access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What went wrong.
    pub kind: FaultKind,
    /// Where the failed access began.
    pub at: PoolOffset,
    /// Length of the affected range in bytes.
    pub len: u64,
}

thread_local! {
    static PENDING: Cell<Option<Fault>> = const { Cell::new(None) };
}

impl Fault {
    /// The first fault of this thread since the last call, which forgets it.
    ///
    /// # Cost
    /// One load from thread-local memory when there was none.
    #[inline]
    pub fn take() -> Option<Fault> {
        PENDING.with(|pending| if pending.get().is_some() { pending.take() } else { None })
    }

    /// Whether there is a fault that [`take`](Fault::take) would return.
    ///
    /// # Cost
    /// As of `take`.
    #[inline]
    pub fn is_raised() -> bool {
        PENDING.with(|pending| pending.get().is_some())
    }

    /// Remembers `self` unless an earlier fault waits to be taken.
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
