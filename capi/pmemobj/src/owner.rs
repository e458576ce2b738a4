//! The owner of an open pool: the process that has its log, named in a page that all processes with the pool's mapping share.
//!
//! ```text
//!   open      the page names this process
//!   fork      the child has the page, the mapping and its lock, and a copy of the engine that it may not use
//!   close     the page names no process
//!   the owner has closed the pool, or is gone:  one of its descendants stores its own name, and recovers the pool
//! ```

use crate::generation;
use crate::process_name::{ProcessName, namespaces};
use lode_capi_entry::Failure;
use std::io;
use std::os::unix::process::parent_id;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

/// The owner's page. A pool that takes the place of another one has the same.
#[derive(Debug)]
pub(crate) struct Owner {
    page: NonNull<OwnerPage>,
    /// A page of this process: 1, and zeros in a child, also in one that calls no handlers of forks, as after _Fork(3).
    here: NonNull<AtomicU64>,
}

#[repr(C)]
#[derive(Debug)]
struct OwnerPage {
    /// The name of the owner; 0 if it has closed the pool.
    name: AtomicU64,
    /// The namespaces in which the name was made.
    namespaces: [AtomicU64; 2],
    /// 1 if another process has made stores durable since the owner looked last.
    persists: AtomicU64,
}

/// The process that has a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// None: its owner has closed it.
    Closed,
    /// A process that is there.
    Present(ProcessName),
    /// A process that has ended without a close.
    Gone(ProcessName),
}

// SAFETY: - the page is a mapping that any thread may use, and its fields are atomics.
unsafe impl Send for Owner {}
// SAFETY: - as above.
unsafe impl Sync for Owner {}

impl Owner {
    /// Returns a page that names this process.
    ///
    /// # Errors
    /// ENOMEM.
    pub(crate) fn new() -> Result<Owner, Failure> {
        let page = map::<OwnerPage>(libc::MAP_SHARED)?;
        let here = map::<AtomicU64>(libc::MAP_PRIVATE).inspect_err(|_| unmap(page))?;
        // SAFETY: - the whole page, which is mapped. A kernel without the advice leaves it to the handlers of forks.
        unsafe { libc::madvise(here.as_ptr().cast(), size_of::<AtomicU64>(), libc::MADV_WIPEONFORK) };
        let owner = Owner { page, here };
        owner.mark_here();
        owner.name_this_process(&owner.page().name);
        Ok(owner)
    }

    /// Returns true in the process that made this value, or has taken it over.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        // SAFETY: - the page is mapped until the drop, and zeros are valid.
        let here = unsafe { self.here.as_ref() };
        // ORDER: a word of this process, which changes where it has one thread.
        here.load(Ordering::Relaxed) != 0
    }

    fn mark_here(&self) {
        // SAFETY: - as in `is_here`.
        let here = unsafe { self.here.as_ref() };
        // ORDER: as in `is_here`.
        here.store(1, Ordering::Relaxed);
    }

    fn name_this_process(&self, name: &AtomicU64) {
        for (place, namespace) in self.page().namespaces.iter().zip(namespaces()) {
            // ORDER: the name below makes it visible.
            place.store(namespace, Ordering::Relaxed);
        }
        // ORDER: pairs with `holder`.
        name.store(ProcessName::current().word(), Ordering::Release);
    }

    /// Returns the same page, for the pool that takes the place of this one in this process, and is dropped instead of it.
    pub(crate) fn handed_on(&self) -> Owner {
        let owner = Owner { page: self.page, here: self.here };
        owner.mark_here();
        owner
    }

    fn page(&self) -> &OwnerPage {
        // SAFETY: - the page is mapped until the drop, and zeros are a valid one.
        unsafe { self.page.as_ref() }
    }

    /// Returns the process that has the pool. A process of which nothing is known counts as present.
    ///
    /// # Cost
    /// A system call if it is the parent of this process, some otherwise.
    pub(crate) fn holder(&self) -> Holder {
        // ORDER: pairs with `new`, `take` and `release`: a pool that its owner has closed is seen as closed.
        let Some(name) = ProcessName::of_word(self.page().name.load(Ordering::Acquire)) else {
            return Holder::Closed;
        };
        let is_forked_by_it = name.number() == generation::parent();
        // A process whose children get another parent runs no more code of its own.
        if is_forked_by_it && parent_id() == name.number() {
            return Holder::Present(name);
        }
        // ORDER: the load above orders it.
        let [numbers, clocks] = [0, 1].map(|index| self.page().namespaces[index].load(Ordering::Relaxed));
        let is_gone = match namespaces() {
            [0, _] => numbers == 0 && is_forked_by_it,
            here => here == [numbers, clocks] && name.is_gone(),
        };
        if is_gone { Holder::Gone(name) } else { Holder::Present(name) }
    }

    /// Makes this process the owner, if the pool has still the one that was found. Of several processes one succeeds.
    pub(crate) fn take(&self, found: Holder) -> bool {
        let word = match found {
            Holder::Closed => 0,
            Holder::Gone(name) => name.word(),
            Holder::Present(_) => return false,
        };
        // ORDER: acquires what the owner has stored; the name is visible before any change of the pool. The namespaces stay: a process in
        // others takes no pool.
        let new = ProcessName::current().word();
        let taken = self.page().name.compare_exchange(word, new, Ordering::AcqRel, Ordering::Relaxed);
        taken.is_ok()
    }

    /// Says that the owner has closed the pool.
    pub(crate) fn release(&self) {
        // ORDER: all of the close is visible to the process that takes the pool.
        self.page().name.store(0, Ordering::Release);
    }

    /// Notes that a process which is not the owner has made stores durable.
    pub(crate) fn note_persist(&self) {
        // ORDER: the stores are durable before the owner makes a checkpoint because of them.
        self.page().persists.store(1, Ordering::Release);
    }

    /// Returns true if another process has made stores durable since the last `true`.
    #[inline]
    pub(crate) fn take_persists(&self) -> bool {
        // ORDER: pairs with `note_persist`. An exchange only where one was noted.
        self.page().persists.load(Ordering::Relaxed) != 0
            && self.page().persists.swap(0, Ordering::Acquire) != 0
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        unmap(self.page);
        unmap(self.here);
    }
}

/// Maps a page of zeros.
fn map<T>(share: i32) -> Result<NonNull<T>, Failure> {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, share | libc::MAP_ANONYMOUS);
    // SAFETY: - a new mapping, at a place that the kernel chooses.
    let place = unsafe { libc::mmap(ptr::null_mut(), size_of::<T>(), access, flags, -1, 0) };
    let page = NonNull::new(place.cast::<T>()).filter(|_| place != libc::MAP_FAILED);
    page.ok_or_else(|| Failure::of_call("mmap", &io::Error::last_os_error()))
}

/// Unmaps a page, which no reference outlives.
fn unmap<T>(page: NonNull<T>) {
    // SAFETY: - the caller's page, of `map`.
    unsafe { libc::munmap(page.as_ptr().cast(), size_of::<T>()) };
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn one_process_takes_a_pool_that_has_no_owner() {
        let owner = Owner::new().unwrap();
        let Holder::Present(name) = owner.holder() else { panic!("this process is there") };
        assert_eq!(name.number(), std::process::id());
        assert!(!owner.take(owner.holder()));
        assert!(!owner.take(Holder::Closed) && !owner.take(Holder::Gone(ProcessName::of_word(7).unwrap())));
        owner.release();
        assert_eq!(owner.holder(), Holder::Closed);
        assert!(owner.take(Holder::Closed) && !owner.take(Holder::Closed));
        assert_eq!(owner.holder(), Holder::Present(name));
    }

    #[test]
    fn process_in_other_namespaces_counts_as_present() {
        let owner = Owner::new().unwrap();
        let earlier = ProcessName::of_word(ProcessName::current().word() - (1 << 24)).unwrap();
        owner.page().name.store(earlier.word(), Ordering::Relaxed);
        assert_eq!(owner.holder(), Holder::Gone(earlier));
        owner.page().namespaces[1].fetch_add(1, Ordering::Relaxed);
        assert_eq!(owner.holder(), Holder::Present(earlier));
        owner.page().namespaces[1].fetch_sub(1, Ordering::Relaxed);
        owner.page().namespaces[0].fetch_add(1, Ordering::Relaxed);
        assert_eq!(owner.holder(), Holder::Present(earlier));
    }

    #[test]
    fn persists_of_others_are_taken_once() {
        let owner = Owner::new().unwrap();
        assert!(!owner.take_persists());
        owner.note_persist();
        assert!(owner.take_persists() && !owner.take_persists());
    }
}
