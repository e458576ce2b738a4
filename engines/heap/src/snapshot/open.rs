//! The snapshots that are open, and the numbers that transactions compare with theirs.

use super::before_images::BeforeImages;
use crate::readers::{OwnedPin, Readers};
use lode_pmem::sync::{AtomicBool, AtomicU64, Ordering, SpinMutex, SpinMutexGuard};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The number in place of that of the newest snapshot while none is open. No log epoch has it.
const NOTHING_OPEN: u64 = 0;

/// One open snapshot.
#[derive(Debug)]
pub(super) struct OpenSnapshot {
    /// The number of the last transaction that it sees.
    pub(super) number: u64,
    /// True once it was ended for lack of memory or space.
    pub(super) is_ended: AtomicBool,
}

/// A snapshot and its pin, as the list keeps them.
#[derive(Debug)]
struct Listed {
    snapshot: Arc<OpenSnapshot>,
    pin: OwnedPin,
}

/// All open snapshots of a heap.
#[derive(Debug)]
pub(crate) struct Snapshots {
    pub(super) images: BeforeImages,
    /// By the order in which they were opened.
    open: SpinMutex<BTreeMap<u64, Listed>>,
    /// The number of the newest open snapshot. It grows while no record gets a number.
    newest: AtomicU64,
    /// The number of the snapshot that was opened last. It changes while no record gets a number.
    last_opened: AtomicU64,
    /// Number of snapshots that were ever opened.
    opened: AtomicU64,
    /// Private memory in bytes that before-images may take.
    memory_max: AtomicU64,
}

/// The list of open snapshots, locked.
pub(crate) struct OpenList<'a> {
    snapshots: &'a Snapshots,
    readers: &'a Readers,
    list: SpinMutexGuard<'a, BTreeMap<u64, Listed>>,
}

impl Snapshots {
    /// Private memory in bytes that before-images may take, unless another limit is set.
    const MEMORY_MAX: u64 = 256 << 20;

    pub(crate) fn new() -> Snapshots {
        let (open, images) = (SpinMutex::new(BTreeMap::new()), BeforeImages::new());
        let [newest, last_opened, opened] = [NOTHING_OPEN, NOTHING_OPEN, 0].map(AtomicU64::new);
        let memory_max = AtomicU64::new(Snapshots::MEMORY_MAX);
        Snapshots { images, open, newest, last_opened, opened, memory_max }
    }

    /// Returns the number of the snapshot that was opened last, open or not. The caller is about to draw a number.
    #[inline]
    pub(crate) fn last_opened(&self) -> u64 {
        // ORDER: none: it changes while no record gets a number.
        self.last_opened.load(Ordering::Relaxed)
    }

    /// Returns the number of the newest open snapshot. The caller has drawn a number: a snapshot that is opened after this
    /// call has what the caller's transaction replaces, or sees it.
    #[inline]
    pub(crate) fn newest(&self) -> Option<u64> {
        // ORDER: none: set while no record gets a number. A snapshot that was closed meanwhile only costs images.
        Some(self.newest.load(Ordering::Relaxed)).filter(|newest| *newest != NOTHING_OPEN)
    }

    pub(crate) fn set_memory_max(&self, bytes: u64) {
        // ORDER: none: an old limit lasts a little longer.
        self.memory_max.store(bytes, Ordering::Relaxed);
    }

    fn memory_max(&self) -> u64 {
        // ORDER: none: as above.
        self.memory_max.load(Ordering::Relaxed)
    }

    pub(super) fn exceeds_memory(&self) -> bool {
        self.images.bytes() > self.memory_max()
    }

    /// Locks the list, unless another thread has it.
    pub(crate) fn try_lock<'a>(&'a self, readers: &'a Readers) -> Option<OpenList<'a>> {
        let list = self.open.try_lock()?;
        Some(OpenList { snapshots: self, readers, list })
    }
}

impl OpenList<'_> {
    /// Adds a snapshot that sees the transactions up to `number`. Nothing is being written back, and no record gets a number
    /// meanwhile.
    pub(super) fn add(&mut self, number: u64) -> (u64, Arc<OpenSnapshot>) {
        // ORDER: pinned before the next write-back: what a later transaction frees is freed after the pin.
        let pin = self.readers.pin_owned();
        let snapshot = Arc::new(OpenSnapshot { number, is_ended: AtomicBool::new(false) });
        // ORDER: none: the list is locked.
        let key = self.snapshots.opened.fetch_add(1, Ordering::Relaxed);
        // ORDER: changed while no record gets a number, so a thread that draws one later sees both.
        self.snapshots.last_opened.store(number, Ordering::Relaxed);
        // ORDER: as above.
        self.snapshots.newest.store(number, Ordering::Relaxed);
        self.list.insert(key, Listed { snapshot: Arc::clone(&snapshot), pin });
        (key, snapshot)
    }

    /// Removes the snapshot `key`, if it is there, and sooner or later what only it kept.
    pub(super) fn remove(&mut self, key: u64) {
        let was_oldest = self.list.keys().next() == Some(&key);
        if !self.unlist(key) {
            return;
        }
        let images = &self.snapshots.images;
        let is_worth_it = match self.list.values().next() {
            None => true,
            Some(oldest) if was_oldest => images.many_are_before(oldest.snapshot.number),
            Some(_) => images.have_doubled(),
        };
        if is_worth_it {
            self.drop_unneeded();
        }
    }

    /// Takes the snapshot `key` off the list. Returns false if it is not there.
    fn unlist(&mut self, key: u64) -> bool {
        let Some(Listed { pin, .. }) = self.list.remove(&key) else { return false };
        self.readers.release(pin);
        let newest = self.list.values().next_back().map_or(NOTHING_OPEN, |listed| listed.snapshot.number);
        // ORDER: none: a transaction that still sees the closed one only keeps more, and what it keeps after the last one is
        // dropped under the lock of the images.
        self.snapshots.newest.store(newest, Ordering::Relaxed);
        true
    }

    pub(super) fn drop_unneeded(&self) {
        self.snapshots.images.drop_unneeded(&self.numbers());
    }

    fn numbers(&self) -> Vec<u64> {
        self.list.values().map(|listed| listed.snapshot.number).collect()
    }

    /// Returns the epochs whose freed space waits for snapshots, and for no other reader: from that of the oldest snapshot
    /// to that of the oldest other reader. `None` if no snapshot is open.
    pub(crate) fn held_epochs(&self) -> Option<Range<u64>> {
        let oldest = self.list.values().next()?.pin.epoch();
        let is_of_snapshot = |index| self.list.values().any(|listed| listed.pin.index() == index);
        Some(oldest..self.readers.oldest_but(is_of_snapshot))
    }

    /// Ends the oldest snapshot. Returns false if there is none.
    pub(crate) fn end_oldest(&mut self) -> bool {
        let ended = self.end_first();
        self.drop_unneeded();
        ended
    }

    /// Drops what no snapshot needs, and ends the oldest ones until the images of the others take no more memory than they
    /// may.
    pub(super) fn limit_memory(&mut self) {
        self.drop_unneeded();
        // The memory that an image takes is estimated, so one round may be too few.
        while self.snapshots.exceeds_memory() && !self.list.is_empty() {
            let mut left = self.snapshots.images.bytes();
            for freed in self.snapshots.images.bytes_by_snapshot(&self.numbers()) {
                self.end_first();
                left = left.saturating_sub(freed);
                if left <= self.snapshots.memory_max() {
                    break;
                }
            }
            self.drop_unneeded();
        }
    }

    /// Ends the oldest snapshot, and leaves its images.
    fn end_first(&mut self) -> bool {
        let Some((key, oldest)) = self.list.first_key_value() else { return false };
        let key = *key;
        // ORDER: the flag is up before anything that the snapshot kept is dropped or used again. Its reader looks at the
        // flag after its loads, and after a fence.
        oldest.snapshot.is_ended.store(true, Ordering::Release);
        self.unlist(key)
    }

    /// Returns the number of open snapshots.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }
}
