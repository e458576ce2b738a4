//! Mapped bytes at a fixed address, with loads and stores that never fail silently.

use crate::chunks::PrivateChunks;
use crate::live_mapping::{LiveMapping, UNKNOWN};
use crate::loss_model::LossModel;
use crate::reservation::{Reservation, page};
use crate::{Fault, FaultKind, access, fixup};
use lode_layout::{LINE, PoolOffset, align_up};
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// A range of mapped memory. Every access is checked. An access that fails raises a [`Fault`] of the calling thread; it
/// loads zeros or stores nothing. Loads need a scope that takes their faults; see [`reading`](Memory::reading).
///
/// # Cost
/// A load is a bounds check and one move. It has no error path: a load that faults resumes after itself.
#[derive(Debug)]
pub struct Memory {
    base: NonNull<u8>,
    len: AtomicU64,
    /// Equal to `len`, or 0 if `loss_model` decides on each load. So one bounds check of a load covers both.
    loadable: AtomicU64,
    /// Equal to `len`, or 0 if a store must first make its chunk private, or if `loss_model` decides on each store.
    storable: AtomicU64,
    loss_model: Option<Arc<dyn LossModel>>,
    chunks: Option<PrivateChunks>,
    live: &'static LiveMapping,
    /// True if the signal handler knows the mapping: `live` is an entry of its own.
    is_handled: bool,
    /// Ranges that the kernel lists as lost; `live` holds the ranges that faults have shown.
    bad: RwLock<Vec<Range<u64>>>,
    growing: Mutex<()>,
    content: Content,
    reservation: Reservation,
}

/// The kind of the pages of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Memory of this process.
    Anonymous,
    /// A file or device, of which this process has copies of the pages that it stores to.
    PrivateView,
    /// The pages of a file or device. `in_children` if the children of a fork may use them, too.
    Shared { in_children: bool },
}

impl Content {
    /// Returns true if a child of a fork must not touch the pages.
    pub(crate) fn is_left_out_of_children(self) -> bool {
        self == Content::Shared { in_children: false }
    }
}

// SAFETY: - the mapping belongs to no thread.
//         - every access uses single instructions that are atomic for each aligned word.
unsafe impl Send for Memory {}
// SAFETY: as for Send.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps zeroed memory of `len` bytes without a file.
    ///
    /// # Errors
    /// Fails with the error of mmap(2).
    pub fn anonymous(len: u64) -> io::Result<Memory> {
        let reservation = Reservation::accessible(page_len(len)?.max(page()))?;
        Ok(Memory::from_reservation(reservation, len, Content::Anonymous, None))
    }

    /// Maps zeroed memory of `len` bytes without a file. It can [`grow`](Memory::grow) to `reserved` bytes.
    ///
    /// # Errors
    /// Fails with the error of mmap(2).
    pub fn anonymous_reserving(len: u64, reserved: u64) -> io::Result<Memory> {
        let size = page_len(len.max(reserved))?.max(page());
        let reservation = Reservation::inaccessible(size, page())?;
        reservation.open_anonymous(0..page_len(len)?)?;
        Ok(Memory::from_reservation(reservation, len, Content::Anonymous, None))
    }

    /// Maps zeroed memory of `len` bytes without a file. It loses what `loss_model` says. For simulators.
    ///
    /// # Errors
    /// Fails with the error of mmap(2).
    ///
    /// # Cost
    /// A call of `loss_model` for each access.
    pub fn anonymous_with_losses(len: u64, loss_model: Arc<dyn LossModel>) -> io::Result<Memory> {
        let mut memory = Memory::anonymous(len)?;
        (memory.loadable, memory.storable) = (AtomicU64::new(0), AtomicU64::new(0));
        memory.loss_model = Some(loss_model);
        Ok(memory)
    }

    /// Takes the first `len` bytes of `reservation`, which the caller has opened, from the file at a path, which stays open for
    /// longer than the memory lives. Bytes of the file are at the offsets of the memory, if there is one.
    pub(crate) fn from_reservation(
        reservation: Reservation,
        len: u64,
        content: Content,
        source: Option<(Option<BorrowedFd<'_>>, &Path)>,
    ) -> Memory {
        assert!(len <= reservation.size() as u64);
        fixup::install();
        let start = reservation.base().as_ptr().expose_provenance();
        let live =
            LiveMapping::register(start, reservation.size(), content.is_left_out_of_children(), source);
        let mut memory = Memory::of_program(reservation, len, content);
        (memory.live, memory.is_handled) = (live, true);
        memory
    }

    /// Takes the first `len` bytes of `reservation`, which the caller has opened, without the signal handler: a fault is a
    /// signal to the program, and a child of a fork may use the memory.
    pub(crate) fn of_program(reservation: Reservation, len: u64, content: Content) -> Memory {
        assert!(len <= reservation.size() as u64);
        let base = reservation.base();
        let (bad, growing) = Default::default();
        let [len, loadable, storable] = [len; 3].map(AtomicU64::new);
        let (loss_model, chunks) = (None, None);
        let (live, is_handled) = (&UNKNOWN, false);
        Memory {
            base,
            len,
            loadable,
            storable,
            loss_model,
            chunks,
            live,
            is_handled,
            bad,
            growing,
            content,
            reservation,
        }
    }

    /// Takes a shared mapping that is open for reading only. A store goes to a private copy of its chunk.
    pub(crate) fn private_from_reservation(
        reservation: Reservation,
        len: u64,
        chunks: PrivateChunks,
        source: Option<(Option<BorrowedFd<'_>>, &Path)>,
    ) -> Memory {
        let mut memory = Memory::from_reservation(reservation, len, Content::PrivateView, source);
        (memory.storable, memory.chunks) = (AtomicU64::new(0), Some(chunks));
        memory
    }

    /// Makes anonymous memory longer, in place. The new bytes are zero.
    ///
    /// # Errors
    /// `OutOfMemory` beyond the reserved address space, or the error of mprotect(2). The memory is then unchanged.
    pub fn grow(&self, len: u64) -> io::Result<()> {
        self.grow_with(len, |reservation, pages| reservation.open_anonymous(pages))
    }

    /// Makes the memory longer, in place, after `open` has opened the additional pages.
    pub(crate) fn grow_with(
        &self,
        len: u64,
        open: impl FnOnce(&Reservation, Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        let _lock = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let (old, new) = (page_len(self.len())?, page_len(len)?);
        if new > self.reservation.size() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        if new > old {
            open(&self.reservation, old..new)?;
        }
        // ORDER: the pages are open before any thread's bounds check admits an access to them.
        self.len.fetch_max(len, Ordering::Release);
        if self.loss_model.is_none() {
            // ORDER: as above.
            self.loadable.fetch_max(len, Ordering::Release);
        }
        if self.chunks.is_none() && self.loss_model.is_none() {
            // ORDER: as above.
            self.storable.fetch_max(len, Ordering::Release);
        }
        Ok(())
    }

    /// Returns the length in bytes.
    #[inline]
    pub fn len(&self) -> u64 {
        // ORDER: none: an older length is smaller, so it only refuses more accesses.
        self.len.load(Ordering::Relaxed)
    }

    /// Returns true if the memory has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns true for a private view of a file or device. Its stores are lost with the memory.
    pub fn is_private_view(&self) -> bool {
        self.content == Content::PrivateView
    }

    /// Returns the kind of the pages.
    pub(crate) fn content(&self) -> Content {
        self.content
    }

    /// Returns the length in bytes up to which the memory can grow.
    pub fn reserved(&self) -> u64 {
        self.reservation.size() as u64
    }

    /// Loads an aligned word, for [`Readable::load8`](crate::Readable::load8).
    #[inline(always)]
    pub(crate) fn load8(&self, at: PoolOffset) -> u64 {
        #[cfg(lode_bugs)]
        crate::scheduled::step();
        if !self.is_loadable_word(at) {
            return self.load8_checked(at);
        }
        // SAFETY: - the whole word lies inside of the mapping, and is aligned, as just checked.
        // ORDER: acquires; pairs with the release of `store8`: all that was stored before the word is visible with it.
        unsafe { access::load8(self.base.as_ptr(), at.get() as usize) }
    }

    /// Loads a byte, for [`Readable::load1`](crate::Readable::load1).
    #[inline(always)]
    pub(crate) fn load1(&self, at: PoolOffset) -> u8 {
        // ORDER: as in `len`.
        if at.get() >= self.loadable.load(Ordering::Relaxed) {
            return self.load1_checked(at);
        }
        // SAFETY: - the byte lies inside the mapping, as just checked.
        // ORDER: as in `load8`.
        unsafe { access::load1(self.base.as_ptr(), at.get() as usize) }
    }

    /// Copies a range, for [`Readable::read`](crate::Readable::read).
    #[inline]
    pub(crate) fn read(&self, at: PoolOffset, into: &mut [u8]) {
        let Some(from) = self.readable(at, into.len()) else { return zero(into) };
        if !self.is_handled && self.loss_model.is_none() {
            // No handler would resume after a fault. The C library's copy chooses its instructions by length and CPU.
            // SAFETY: - the range lies inside of the mapping, as `readable` checked; `into` is an exclusive reference.
            unsafe { libc::memcpy(into.as_mut_ptr().cast(), from.as_ptr().cast(), into.len()) };
            return;
        }
        // SAFETY: - the range lies inside of the mapping, as `readable` checked; `into` is an exclusive reference.
        let copied = unsafe { access::copy_out(from.as_ptr(), into.as_mut_ptr(), into.len()) };
        if !copied {
            zero(into);
        }
    }

    /// Compares a range, for [`Readable::equals`](crate::Readable::equals).
    #[inline]
    pub(crate) fn equals(&self, at: PoolOffset, bytes: &[u8]) -> bool {
        let place = self.readable(at, bytes.len());
        // SAFETY: - the range lies inside of the mapping, as `readable` checked; `bytes` is a reference.
        place.is_some_and(|from| unsafe { access::equals(from.as_ptr(), bytes.as_ptr(), bytes.len()) })
    }

    /// Prefetches the line at `at` for a load. Never raises a fault.
    ///
    /// Useful if the address of the line to load comes from another line that is not cached: both are then fetched at
    /// once.
    #[inline(always)]
    pub fn prefetch_load(&self, at: PoolOffset) {
        access::prefetch_load(self.base.as_ptr(), at.get() as usize);
    }

    /// Prefetches the first lines of the `len` bytes at `at`, at most 8, for a copy that begins soon. Never raises a fault.
    /// The CPU finds the lines after them by itself.
    #[inline]
    pub fn prefetch_bytes(&self, at: PoolOffset, len: usize) {
        let len = (len as u64).min(8 * LINE);
        (0..len).step_by(LINE as usize).for_each(|off| self.prefetch_load(at.plus(off)));
    }

    /// Prefetches the line at `at` for a store. Never raises a fault.
    ///
    /// A locked instruction or a fence waits until all earlier stores are in the cache. Lines that are already being
    /// fetched do not add to that wait.
    #[inline]
    pub fn prefetch_store(&self, at: PoolOffset) {
        access::prefetch_store(self.base.as_ptr(), at.get() as usize);
    }

    /// Stores an aligned word atomically, with release ordering. For implementers of `Medium`.
    #[inline]
    pub fn store8(&self, at: PoolOffset, value: u64) {
        if !self.is_storable_word(at) && !self.make_storable(at, 8, 8) {
            return;
        }
        // SAFETY: - the whole word lies inside the mapping, and is aligned, as just checked.
        // ORDER: releases; pairs with the acquire of `load8`.
        unsafe { access::store8(self.base.as_ptr(), at.get() as usize, value) }
    }

    /// Stores bytes; aligned words inside are stored atomically. For implementers of `Medium`.
    #[inline]
    pub fn store(&self, at: PoolOffset, bytes: &[u8]) {
        // A store that fails has raised a fault, so the result is not needed.
        self.store_all(at, bytes);
    }

    /// Stores bytes; aligned words inside are stored atomically. Returns true if all could be stored. Otherwise a part
    /// of them may have been stored.
    #[inline]
    pub(crate) fn store_all(&self, at: PoolOffset, bytes: &[u8]) -> bool {
        if !self.is_storable(at, bytes.len()) && !self.make_storable(at, bytes.len(), 1) {
            return false;
        }
        let (place, from) = (self.base.as_ptr().wrapping_add(at.get() as usize), bytes.as_ptr());
        let head = (at.get().wrapping_neg() as usize % 8).min(bytes.len());
        let body = (bytes.len() - head) & !7;
        let tail = bytes.len() - head - body;
        let (behind_body, body_from) = (place.wrapping_add(head), from.wrapping_add(head));
        let (tail_place, tail_from) = (behind_body.wrapping_add(body), body_from.wrapping_add(body));
        // SAFETY: - stores the first part of the range, which lies inside of the mapping, as just checked.
        let head_done = head == 0 || unsafe { access::store_bytes(place, from, head) };
        // SAFETY: - stores the second part, which begins at a multiple of 8.
        let body_done = head_done && unsafe { access::store_words(behind_body, body_from, body) };
        // SAFETY: - stores the rest of the range.
        body_done && (tail == 0 || unsafe { access::store_bytes(tail_place, tail_from, tail) })
    }

    /// Replaces an aligned word if it is `current`. For implementers of `Medium`.
    ///
    /// # Errors
    /// Returns the word found if it was not `current`.
    #[inline]
    pub fn compare_exchange8(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> {
        if !self.is_storable_word(at) && !self.make_storable(at, 8, 8) {
            return Ok(current);
        }
        // SAFETY: - the whole word lies inside the mapping, and is aligned, as just checked.
        // ORDER: a replaced word is ordered with the loads and stores before and after it.
        let found = unsafe { access::compare_exchange8(self.base.as_ptr(), at.get() as usize, current, new) };
        if found == current { Ok(found) } else { Err(found) }
    }

    /// Raises a fault of the calling thread for an access that the caller refuses, as for a range outside of the
    /// memory. For implementers of `Medium`, and for engines that bound their stores more closely.
    #[cold]
    pub fn raise_out_of_range(&self, at: PoolOffset, len: u64) {
        Fault { kind: FaultKind::OutOfRange, at, len }.raise();
    }

    /// Lends the range that begins at `at`. A fault in it while it is lent can't become an error: it prints the pool
    /// and the range, and ends the process.
    ///
    /// # Errors
    /// Fails if the range is not inside of the memory, or if a part of it is known to be lost.
    ///
    /// # Safety
    /// No thread stores to the range while the slice lives. A child of a fork does not use the slice.
    #[inline]
    pub unsafe fn get_slice(&self, at: PoolOffset, len: u64) -> Result<&[u8], Fault> {
        let start = self.locate(at, len)?;
        // SAFETY: - the range is mapped and initialised; the caller prevents stores while it is lent.
        Ok(unsafe { std::slice::from_raw_parts(start.as_ptr(), len as usize) })
    }

    /// Returns the address of the range that begins at `at`, for callers that lend typed references. The address stays
    /// the same as long as the memory lives.
    ///
    /// # Errors
    /// Fails if the range is not inside of the memory, or if a part of it is known to be lost.
    #[inline]
    pub fn locate(&self, at: PoolOffset, len: u64) -> Result<NonNull<u8>, Fault> {
        let total = self.len();
        if len > total || at.get() > total - len {
            return Err(Fault { kind: FaultKind::OutOfRange, at, len });
        }
        if self.live.any_bad() {
            self.refuse_bad(at, len)?;
        }
        // SAFETY: - the range was checked against the mapped length.
        Ok(unsafe { self.base.add(at.get() as usize) })
    }

    /// Returns the offset of `address`, which [`locate`](Memory::locate) or [`get_slice`](Memory::get_slice) returned.
    /// The offset of any other address lies outside of the memory.
    #[inline]
    pub fn offset_of(&self, address: *const u8) -> PoolOffset {
        PoolOffset::new(address.addr().wrapping_sub(self.base.addr().get()) as u64)
    }

    /// Returns the ranges known to be lost, in bytes from the start: those in the kernel's lists of bad blocks, and
    /// those that faults have shown. Sorted; they may overlap.
    pub fn bad_ranges(&self) -> Vec<Range<u64>> {
        let known = self.bad.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = known.iter().cloned().chain(self.live.lost_ranges()).collect();
        all.sort_by_key(|range| (range.start, range.end));
        all
    }

    /// Replaces the list of ranges that the kernel reports as lost.
    pub(crate) fn set_bad(&self, ranges: Vec<Range<u64>>) {
        let mut known = self.bad.write().unwrap_or_else(PoisonError::into_inner);
        *known = ranges;
        if !known.is_empty() {
            self.live.mark_bad();
        }
    }

    /// Returns true in a child of the process that made the memory. A child must not use it.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        self.live.is_revoked()
    }

    #[cold]
    fn refuse_bad(&self, at: PoolOffset, len: u64) -> Result<(), Fault> {
        let (start, end) = (at.get(), at.get() + len);
        let hit = self.bad_ranges().into_iter().find(|bad| bad.start < end && start < bad.end);
        hit.map_or(Ok(()), |bad| {
            let at = PoolOffset::new(bad.start);
            Err(Fault { kind: FaultKind::Poison, at, len: bad.end - bad.start })
        })
    }

    /// Returns the address of a range. Raises a fault if the range is not all inside of the memory.
    #[inline]
    pub(crate) fn range_address(&self, at: PoolOffset, len: usize) -> Option<NonNull<u8>> {
        let total = self.len();
        if len as u64 > total || at.get() > total - len as u64 {
            self.raise_out_of_range(at, len as u64);
            return None;
        }
        // SAFETY: - the range lies inside of the mapping, as just checked.
        Some(unsafe { self.base.add(at.get() as usize) })
    }

    /// Returns the address of a range that is to be loaded. Raises a fault if the range can't all be.
    #[inline]
    fn readable(&self, at: PoolOffset, len: usize) -> Option<NonNull<u8>> {
        // ORDER: as in `len`.
        let total = self.loadable.load(Ordering::Relaxed);
        let inside = len as u64 <= total && at.get() <= total - len as u64;
        if !inside && !self.check_load(at, len, 1) {
            return None;
        }
        // SAFETY: - the range lies inside of the mapping, as just checked.
        Some(unsafe { self.base.add(at.get() as usize) })
    }

    /// Loads a word of memory that `loss_model` decides on; zero outside of the memory.
    #[cold]
    #[inline(never)]
    fn load8_checked(&self, at: PoolOffset) -> u64 {
        if !self.check_load(at, 8, 8) {
            return 0;
        }
        // SAFETY: - the whole word lies inside of the mapping, and is aligned, as just checked.
        // ORDER: as in `load8`.
        unsafe { access::load8(self.base.as_ptr(), at.get() as usize) }
    }

    /// Loads a byte as [`load8_checked`](Memory::load8_checked) does.
    #[cold]
    #[inline(never)]
    fn load1_checked(&self, at: PoolOffset) -> u8 {
        if !self.check_load(at, 1, 1) {
            return 0;
        }
        // SAFETY: - the byte lies inside the mapping, as just checked.
        // ORDER: as in `load8`.
        unsafe { access::load1(self.base.as_ptr(), at.get() as usize) }
    }

    /// Returns true if a range at a multiple of `align` can be loaded. Otherwise it has raised a fault.
    #[cold]
    fn check_load(&self, at: PoolOffset, len: usize, align: u64) -> bool {
        self.check_bounds(at, len, align) && self.check_not_lost(at, len)
    }

    /// Returns true if a range at a multiple of `align` lies inside of the memory. Otherwise it has raised a fault.
    fn check_bounds(&self, at: PoolOffset, len: usize, align: u64) -> bool {
        let total = self.len();
        let fits = len as u64 <= total && at.get() <= total - len as u64;
        let inside = fits && at.get().is_multiple_of(align);
        if !inside {
            self.raise_out_of_range(at, len as u64);
        }
        inside
    }

    /// Returns true if a range inside of the memory is not lost. Otherwise it has raised a fault.
    fn check_not_lost(&self, at: PoolOffset, len: usize) -> bool {
        let range = at.get()..at.get() + len as u64;
        let lost = self.loss_model.as_ref().and_then(|loss_model| loss_model.on_access(range));
        if let Some(Range { start, end }) = &lost {
            self.live.record_bad(*start, *end);
            Fault { kind: FaultKind::Poison, at: PoolOffset::new(*start), len: end - start }.raise();
        }
        lost.is_none()
    }

    /// Returns true if a range can be stored to without a private copy.
    #[inline]
    fn is_storable(&self, at: PoolOffset, len: usize) -> bool {
        // ORDER: as in `len`.
        let total = self.storable.load(Ordering::Relaxed);
        len as u64 <= total && at.get() <= total - len as u64
    }

    /// Returns true if an aligned word can be stored to without a private copy.
    #[inline(always)]
    fn is_storable_word(&self, at: PoolOffset) -> bool {
        // ORDER: as in `len`.
        at.get().rotate_right(3) < self.storable.load(Ordering::Relaxed) >> 3
    }

    /// Makes the chunks private that a range at a multiple of `align` touches. Returns true if the range can now be
    /// stored to. Otherwise it has raised a fault.
    #[cold]
    fn make_storable(&self, at: PoolOffset, len: usize, align: u64) -> bool {
        let start = at.get() as usize;
        self.check_bounds(at, len, align)
            && self.check_not_lost(at, len)
            && self
                .chunks
                .as_ref()
                .is_none_or(|chunks| chunks.make_private(start..start + len, &self.reservation))
    }

    #[inline(always)]
    fn is_loadable_word(&self, at: PoolOffset) -> bool {
        // Rotation turns an unaligned offset into a huge one, so one comparison checks both.
        // ORDER: as in `len`.
        at.get().rotate_right(3) < self.loadable.load(Ordering::Relaxed) >> 3
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // The entry must go before the address space does. The field with the address space is dropped last.
        if self.is_handled {
            self.live.unregister();
        }
    }
}

#[cold]
fn zero(into: &mut [u8]) {
    into.fill(0);
}

fn page_len(len: u64) -> io::Result<usize> {
    let padded = align_up(len, page() as u64);
    if padded < len {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    usize::try_from(padded).map_err(|_| io::ErrorKind::OutOfMemory.into())
}

#[cfg(test)]
mod test {
    use super::*;

    fn at(bytes: u64) -> PoolOffset {
        PoolOffset::new(bytes)
    }

    fn out_of_range_at(offset: u64, len: u64) -> Option<Fault> {
        Some(Fault { kind: FaultKind::OutOfRange, at: at(offset), len })
    }

    #[test]
    fn unaligned_or_out_of_range_words_fault() {
        for len in [0, 1, 7, 8, 9, 15, 16, 17, 4096] {
            let memory = Memory::anonymous(len).unwrap();
            for offset in
                (0..40).chain(len.saturating_sub(9)..len + 9).chain([u64::MAX - 8, u64::MAX - 7, u64::MAX])
            {
                let inside = offset % 8 == 0 && offset.checked_add(8).is_some_and(|end| end <= len);
                memory.store8(at(offset), 0x1122_3344_5566_7788);
                assert_eq!(Fault::take(), if inside { None } else { out_of_range_at(offset, 8) });
                assert_eq!(memory.load8(at(offset)), if inside { 0x1122_3344_5566_7788 } else { 0 });
                assert_eq!(Fault::take().is_none(), inside, "{offset} of {len}");
                assert_eq!(memory.compare_exchange8(at(offset), 1, 2).is_err(), inside);
                assert_eq!(Fault::take().is_none(), inside);
                let byte = memory.load1(at(offset));
                assert_eq!(Fault::take().is_none(), offset < len);
                assert!(!inside || byte == 0x88);
            }
        }
    }

    #[test]
    fn compare_exchange_succeeds_once() {
        let memory = Memory::anonymous(64).unwrap();
        assert_eq!(memory.compare_exchange8(at(8), 0, 5), Ok(0));
        assert_eq!(memory.compare_exchange8(at(8), 0, 6), Err(5));
        assert_eq!((memory.load8(at(0)), memory.load8(at(8)), memory.load8(at(16))), (0, 5, 0));
    }

    #[test]
    fn reads_match_for_all_alignments() {
        let pattern: Vec<u8> = (0..2048u32).map(|index| (index * 7 + index / 256) as u8).collect();
        let memory = Memory::anonymous(4096).unwrap();
        let lens = if cfg!(miri) {
            vec![0, 1, 7, 8, 9, 17, 33]
        } else {
            (0..80).chain([255, 256, 511, 512, 513, 1000]).collect()
        };
        for offset in if cfg!(miri) { 6..9 } else { 0..17 } {
            for &len in &lens {
                memory.store(at(0), &[0xee; 2048]);
                assert!(memory.store_all(at(offset), &pattern[..len]));
                let mut all = [0; 2048];
                memory.read(at(0), &mut all);
                let (start, end) = (offset as usize, offset as usize + len);
                assert_eq!(all[start..end], pattern[..len], "{offset} {len}");
                assert!(all[..start].iter().chain(&all[end..]).all(|byte| *byte == 0xee), "{offset} {len}");
                let mut part = vec![0; len];
                memory.read(at(offset), &mut part);
                assert_eq!(part, pattern[..len], "{offset} {len}");
                assert!(memory.equals(at(offset), &pattern[..len]));
                for index in 0..len.min(40) {
                    for index in [index, len - 1 - index] {
                        part[index] ^= 0x80;
                        assert!(!memory.equals(at(offset), &part), "{offset} {len} {index}");
                        part[index] ^= 0x80;
                    }
                }
            }
        }
        assert_eq!(Fault::take(), None);
    }

    #[test]
    fn aligned_words_are_not_torn() {
        let memory = Memory::anonymous(4096).unwrap();
        let enough = if cfg!(miri) { 20 } else { 1_000_000 };
        std::thread::scope(|threads| {
            let reader = threads.spawn(|| {
                let mut seen = [0, 0];
                while seen.iter().sum::<u32>() < 10 * enough && seen.iter().any(|count| *count < enough) {
                    for word in (8..248).step_by(8) {
                        let value = memory.load8(at(word));
                        assert!(value == 0 || value == u64::MAX, "{value:#x}");
                        seen[(value & 1) as usize] += 1;
                    }
                }
            });
            while !reader.is_finished() {
                memory.store(at(4), &[0xff; 250]);
                memory.store(at(4), &[0; 250]);
            }
        });
    }

    #[test]
    fn out_of_range_access_faults() {
        let memory = Memory::anonymous(100).unwrap();
        for (offset, len) in [(0u64, 101usize), (93, 8), (100, 1), (101, 0), (u64::MAX, 2), (u64::MAX - 7, 8)]
        {
            let mut into = vec![7; len];
            memory.read(at(offset), &mut into);
            assert_eq!(Fault::take(), out_of_range_at(offset, len as u64));
            assert_eq!(into, vec![0; len]);
            assert!(!memory.equals(at(offset), &into));
            assert_eq!(Fault::take(), out_of_range_at(offset, len as u64));
            assert!(!memory.store_all(at(offset), &vec![9; len]));
            assert_eq!(Fault::take(), out_of_range_at(offset, len as u64));
            // SAFETY: - no thread stores.
            let lent = unsafe { memory.get_slice(at(offset), len as u64) };
            assert_eq!(lent.err(), out_of_range_at(offset, len as u64));
        }
        let mut all = [1; 100];
        memory.read(at(0), &mut all);
        assert_eq!(all, [0; 100]);
    }

    #[test]
    fn slice_of_bad_range_fails() {
        let memory = Memory::anonymous(3 * 4096).unwrap();
        memory.set_bad(std::iter::once(4096..4608).collect());
        for (start, len, fine) in
            [(0, 4096, true), (0, 4097, false), (4607, 1, false), (4608, 4096, true), (0, 0, true)]
        {
            // SAFETY: - no thread stores.
            let lent = unsafe { memory.get_slice(at(start), len) };
            let refused = Fault { kind: FaultKind::Poison, at: at(4096), len: 512 };
            assert_eq!(
                lent.map(<[u8]>::len),
                if fine { Ok(len as usize) } else { Err(refused) },
                "{start} {len}"
            );
        }
    }

    #[test]
    fn address_to_offset_round_trips() {
        let memory = Memory::anonymous(4096).unwrap();
        for (start, len) in [(0, 4096), (8, 1), (4095, 1), (4096, 0)] {
            let address = memory.locate(at(start), len).unwrap();
            assert_eq!(memory.offset_of(address.as_ptr()), at(start));
        }
        assert_eq!(memory.locate(at(4096), 1).err(), out_of_range_at(4096, 1));
        let elsewhere = 0u8;
        assert!(memory.offset_of(&raw const elsewhere).get() >= memory.len());
    }

    #[test]
    #[cfg(not(miri))]
    fn grows_in_place() {
        let memory = Memory::anonymous_reserving(100, 1 << 20).unwrap();
        let base = memory.base;
        memory.store8(at(88), 5);
        memory.load8(at(96));
        assert_eq!(Fault::take(), out_of_range_at(96, 8));
        memory.grow(8192).unwrap();
        memory.store8(at(8184), 6);
        assert_eq!((memory.load8(at(88)), memory.load8(at(96)), memory.load8(at(8184))), (5, 0, 6));
        assert_eq!((memory.len(), Fault::take(), memory.base), (8192, None, base));
        assert!(memory.grow((1 << 20) + 1).is_err());
        assert_eq!(memory.len(), 8192);
        memory.grow(1 << 20).unwrap();
        memory.store8(at((1 << 20) - 8), 7);
        assert_eq!((memory.load8(at((1 << 20) - 8)), Fault::take()), (7, None));
    }
}
