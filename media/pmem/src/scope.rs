//! Scopes of accesses: each takes the faults of its own accesses, and a load needs a scope.
//!
//! ```compile_fail,E0624
//! # let memory = lode_pmem::Memory::anonymous(4096).expect("memory");
//! memory.load8(lode_layout::PoolOffset::NULL); // No scope would take the fault of this load.
//! ```

use crate::{Fault, Memory};
use lode_layout::PoolOffset;
use std::marker::PhantomData;
use std::mem;
use std::ops::Deref;
use std::ptr;

#[cfg(debug_assertions)]
thread_local! {
    /// Number of open scopes.
    static DEPTH: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// A scope of accesses by the calling thread. It takes the first fault of its own accesses, and leaves an earlier fault
/// to the scope around it.
///
/// [`Memory::reading`] is the usual scope. This type is for a scope that is no closure, and for one that asks for its
/// fault before its end. A panic discards the fault.
///
/// # Cost
/// One load from thread-local memory to open, and one to close.
#[derive(Debug)]
#[must_use = "closing the scope returns its fault"]
pub struct FaultScope {
    /// The fault that was pending when the scope was opened. Boxed, since there is hardly ever one: a scope without it is
    /// a null pointer, where the fault itself would be copied to and fro.
    earlier: Option<Box<Fault>>,
    /// A fault belongs to the thread whose access failed.
    of_thread: PhantomData<*const ()>,
}

impl FaultScope {
    /// Opens a scope.
    #[inline]
    pub fn open() -> FaultScope {
        #[cfg(debug_assertions)]
        DEPTH.set(DEPTH.get() + 1);
        FaultScope { earlier: Fault::take().map(Box::new), of_thread: PhantomData }
    }

    /// Runs `access`, usually stores, in a scope. [`Memory::reading`] is the scope for loads.
    ///
    /// # Errors
    /// Fails with the first fault of `access`.
    #[inline]
    pub fn run<R>(access: impl FnOnce() -> R) -> Result<R, Fault> {
        let scope = FaultScope::open();
        let result = access();
        match scope.close() {
            Ok(()) => Ok(result),
            Err(fault) => Err(fault),
        }
    }

    /// Returns `memory` for loads inside of the scope.
    #[inline]
    pub fn memory<'s>(&'s self, memory: &'s Memory) -> &'s Readable {
        Readable::of(memory)
    }

    /// Returns the first fault of the scope so far.
    ///
    /// # Cost
    /// One load from thread-local memory if there was none.
    #[inline]
    pub fn fault(&self) -> Option<Fault> {
        if Fault::is_pending() { Fault::pending() } else { None }
    }

    /// Returns true if an access of the scope has failed.
    #[inline]
    pub fn has_fault(&self) -> bool {
        Fault::is_pending()
    }

    /// Forgets the fault of the scope so far, which the caller has reported, or which is no error. The next fault of
    /// the scope is its first again.
    pub fn clear(&self) {
        Fault::take();
    }

    /// Closes the scope.
    ///
    /// # Errors
    /// Fails with the first fault of the scope.
    ///
    /// # Cost
    /// One load from thread-local memory if there was none. An absent fault is not copied, see `Fault::take`.
    #[inline]
    pub fn close(self) -> Result<(), Fault> {
        if Fault::is_pending() {
            return self.close_with_fault();
        }
        self.close_faultless();
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn close_with_fault(mut self) -> Result<(), Fault> {
        let own = Fault::take();
        self.restore();
        mem::forget(self);
        own.map_or(Ok(()), Err)
    }

    /// Closes a scope that had no fault when it was last asked, and had no access since.
    ///
    /// # Cost
    /// None if no fault was pending when the scope was opened.
    #[inline]
    pub fn close_faultless(mut self) {
        debug_assert!(!Fault::is_pending(), "a fault after the scope was asked for one");
        self.restore();
        mem::forget(self);
    }

    #[inline]
    fn restore(&mut self) {
        #[cfg(debug_assertions)]
        DEPTH.set(DEPTH.get() - 1);
        if let Some(earlier) = self.earlier.take() {
            earlier.raise();
        }
    }
}

impl Drop for FaultScope {
    fn drop(&mut self) {
        let own = Fault::take();
        self.restore();
        debug_assert!(own.is_none() || std::thread::panicking(), "a scope was dropped with {own:?}");
    }
}

/// A [`Memory`] inside of a [`FaultScope`], which takes the faults of its loads.
///
/// It is neither `Send` nor `Sync`, since a fault belongs to the thread whose access failed.
#[derive(Debug)]
#[repr(transparent)]
pub struct Readable {
    memory: Memory,
    of_thread: PhantomData<*const ()>,
}

impl Readable {
    #[inline(always)]
    pub(crate) fn of(memory: &Memory) -> &Readable {
        // SAFETY: - `Readable` is a transparent wrapper of `Memory`, so layout and validity are the same.
        //         - the result borrows what `memory` borrows.
        unsafe { &*(ptr::from_ref(memory) as *const Readable) }
    }

    /// Returns the first fault of the innermost open scope so far. After one, loaded values may be zeros, and a loop
    /// that waits for other values may never end.
    ///
    /// # Cost
    /// One load from thread-local memory if there was none.
    #[inline]
    pub fn fault(&self) -> Option<Fault> {
        if Fault::is_pending() { Fault::pending() } else { None }
    }

    /// Loads the aligned word at `at` with acquire ordering. Media are little-endian.
    #[inline(always)]
    pub fn load8(&self, at: PoolOffset) -> u64 {
        self.memory.load8(at)
    }

    /// Loads the byte at `at` with acquire ordering.
    #[inline(always)]
    pub fn load1(&self, at: PoolOffset) -> u8 {
        self.memory.load1(at)
    }

    /// Copies the range that begins at `at` into `into`. Fills `into` with zeros if any of the range can't be read.
    /// Only single bytes are atomic. A caller that copies bytes which other threads store must check afterwards that
    /// they have not changed.
    #[inline]
    pub fn read(&self, at: PoolOffset, into: &mut [u8]) {
        self.memory.read(at, into);
    }

    /// Returns true if the range that begins at `at` holds exactly `bytes`. Returns false if it can't all be read.
    #[inline]
    pub fn equals(&self, at: PoolOffset, bytes: &[u8]) -> bool {
        self.memory.equals(at, bytes)
    }
}

impl Deref for Readable {
    type Target = Memory;

    #[inline]
    fn deref(&self) -> &Memory {
        &self.memory
    }
}

impl Memory {
    /// Runs `access` in a scope of its own. Only inside of a scope can bytes be loaded.
    ///
    /// # Errors
    /// Fails with the first fault of `access`, whose result was then computed from zeros.
    ///
    /// # Cost
    /// Two loads from thread-local memory.
    #[inline]
    pub fn reading<R>(&self, access: impl FnOnce(&Readable) -> R) -> Result<R, Fault> {
        FaultScope::run(|| access(Readable::of(self)))
    }

    /// Runs `access` as [`reading`](Memory::reading) does, and passes on its error.
    ///
    /// # Errors
    /// Fails with the first fault of `access`. Without a fault, fails with the error that `access` returned.
    #[inline]
    pub fn try_reading<R, E: From<Fault>>(
        &self,
        access: impl FnOnce(&Readable) -> Result<R, E>,
    ) -> Result<R, E> {
        let scope = FaultScope::open();
        let result = access(Readable::of(self));
        scope.close()?;
        result
    }

    /// Runs `access` as a part of the scope that the calling thread has open. That scope takes the faults.
    ///
    /// For code that is called inside of a scope through an interface that can't lend it. Builds with debug assertions
    /// panic if no scope is open.
    ///
    /// # Cost
    /// None.
    #[inline]
    pub fn reading_in_scope<R>(&self, access: impl FnOnce(&Readable) -> R) -> R {
        #[cfg(debug_assertions)]
        assert!(DEPTH.get() > 0, "no scope takes the faults of these loads");
        access(Readable::of(self))
    }
}
