//! Readers that hold no lock, and the time at which blocks that they may hold can be used again.
//!
//! A reader pins the current epoch before it follows its first pointer. An unlinked block may be used again once
//! every reader that was pinned at its unlinking has let go.
//!
//! A thread has one slot, which shows the epoch of its oldest pin; further pins only count in the thread. There are
//! as many slots as threads want. They lie in tables, each twice as long as the one before. A table is made when it
//! is needed, and kept as long as the heap. So no reader ever waits.

use lode_pmem::Counter;
use lode_pmem::sync::{AtomicU64, AtomicUsize, Ordering, fence, fence_after_exchange, thread_local};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;

/// Number of slots in the first table.
const SLOTS: usize = if cfg!(loom) { 1 } else { 128 };
/// Number of tables after the first one: more than memory can hold.
const TABLES: usize = 40;
/// Heaps on which a thread can be pinned at once with one slot each. On further heaps it takes a slot for each pin.
const HEAPS: usize = 8;

const FREE: u64 = 0;

/// A number that no heap's readers have.
const NONE: u64 = u64::MAX;

#[derive(Debug)]
#[repr(align(64))]
struct ReaderSlot(AtomicU64);

type Table = Box<[ReaderSlot]>;

/// The epochs, and the threads that are pinned in them.
#[derive(Debug)]
pub(crate) struct Readers {
    /// Number that tells these readers from those of all other heaps, closed ones included.
    number: u64,
    /// The current epoch, from 1.
    epoch: AtomicU64,
    first: Table,
    more: [OnceLock<Table>; TABLES],
    /// Every slot that was ever used lies below this index.
    used: AtomicUsize,
}

/// A pinned reader. Objects that were reachable when it was made are kept until it is dropped.
///
/// It ends in the thread that made it. Other threads may read under it meanwhile.
#[derive(Debug)]
pub struct Pin<'a> {
    slot: &'a ReaderSlot,
    /// Index of the slot.
    index: usize,
    counted: Option<PinGroup>,
    /// Makes the pin like a lock's guard: it can be shared, but not sent.
    _of_this_thread: PhantomData<std::sync::MutexGuard<'static, ()>>,
}

/// A pin of the calling thread that borrows nothing. It lasts until [`Readers::unpin`].
#[derive(Debug)]
#[must_use]
pub(crate) struct DetachedPin {
    index: usize,
    counted: Option<PinGroup>,
}

/// A pin that belongs to no thread. It lasts until [`Readers::release`].
#[derive(Debug)]
#[must_use]
pub(crate) struct OwnedPin {
    index: usize,
    epoch: u64,
}

impl OwnedPin {
    /// Returns the index of its slot.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Returns the epoch in which it was made. Blocks that are unlinked in this epoch or later wait for it.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }
}

/// The place at which a pin is counted.
#[derive(Clone, Copy, Debug)]
struct PinGroup {
    /// Index in [`THREAD_PINS`].
    place: usize,
    /// Index of the group.
    group: usize,
}

/// The pins of one thread on one heap, in two groups: pins of the epoch that the thread's slot shows, and younger
/// pins.
struct ThreadPins {
    /// Number of the heap's readers.
    number: Cell<u64>,
    /// The thread's slot while it is pinned, and its last slot while it is not.
    slot: Cell<usize>,
    /// Number of pins in each group.
    counts: [Cell<usize>; 2],
    /// Index of the older group.
    older: Cell<usize>,
    /// The epoch of each group: that of its first pin.
    epochs: [Cell<u64>; 2],
}

impl ThreadPins {
    const fn new() -> ThreadPins {
        ThreadPins {
            number: Cell::new(NONE),
            slot: Cell::new(usize::MAX),
            counts: [const { Cell::new(0) }; 2],
            older: Cell::new(0),
            epochs: [const { Cell::new(FREE) }; 2],
        }
    }

    #[inline]
    fn is_idle(&self) -> bool {
        // When the older group is empty, the younger one takes its place.
        self.counts[self.older.get() & 1].get() == 0
    }

    /// Counts the first pin, in `epoch`.
    #[inline]
    fn begin(&self, epoch: u64) -> usize {
        let group = self.older.get() & 1;
        self.counts[group].set(1);
        self.epochs[group].set(epoch);
        group
    }

    /// Counts another pin, in `epoch`.
    #[inline]
    fn join(&self, epoch: u64) -> usize {
        let older = self.older.get() & 1;
        let younger = older ^ 1;
        // The slot's epoch is no later than that of either group, so all blocks that the new pin may come to hold are
        // kept.
        let group = match self.counts[younger].get() {
            0 if self.epochs[older].get() == epoch => older,
            0 => {
                self.epochs[younger].set(epoch);
                younger
            }
            _ => younger,
        };
        self.counts[group].set(self.counts[group].get() + 1);
        group
    }

    /// Subtracts a pin of `group`. Returns the epoch that the slot has to show from now on, if it changes.
    #[inline]
    fn leave(&self, group: usize) -> Option<u64> {
        let group = group & 1;
        debug_assert!(self.counts[group].get() > 0, "a pin is counted as long as it lives");
        let count = self.counts[group].get() - 1;
        self.counts[group].set(count);
        if count > 0 || group != self.older.get() & 1 {
            return None;
        }
        let younger = group ^ 1;
        if self.counts[younger].get() == 0 {
            return Some(FREE);
        }
        self.older.set(younger);
        Some(self.epochs[younger].get())
    }
}

thread_local! {
    /// The pins of this thread. Each entry counts those on the heap that its number names. Entries have no
    /// destructor, so pins can be dropped at the very end of a thread.
    static THREAD_PINS: [ThreadPins; HEAPS] = const { [const { ThreadPins::new() }; HEAPS] };
}

impl Readers {
    pub(crate) fn new() -> Readers {
        static NEXT: Counter = Counter::new(0);
        let number = NEXT.add(1);
        let (epoch, used) = (AtomicU64::new(1), AtomicUsize::new(0));
        Readers { number, epoch, first: table(0), more: [const { OnceLock::new() }; TABLES], used }
    }

    /// Pins the calling thread.
    ///
    /// # Cost
    /// One locked instruction; none if the thread is pinned already.
    #[inline]
    pub(crate) fn pin(&self) -> Pin<'_> {
        let pinned = |all: &[ThreadPins; HEAPS]| self.pin_as(&all[self.place()]);
        // A thread whose thread-local storage is gone gets a slot for each pin.
        THREAD_PINS.try_with(pinned).unwrap_or_else(|_| self.pin_uncounted())
    }

    #[inline]
    fn pin_as(&self, pinned: &ThreadPins) -> Pin<'_> {
        // ORDER: an old epoch is safe: it only keeps blocks longer. Acquires the unlinking stores from before the
        // epoch began. So a pin that joins others, with no fence of its own, can't come to hold those blocks. The
        // slot may show this epoch when the other pins are gone.
        let epoch = self.epoch.load(Ordering::Acquire);
        if pinned.number.get() == self.number
            && let Some(slot) = self.slot(pinned.slot.get())
        {
            if !pinned.is_idle() {
                return self.counted(slot, pinned, pinned.join(epoch));
            }
            if slot.claim(epoch) {
                return self.counted(slot, pinned, pinned.begin(epoch));
            }
        }
        self.pin_first(pinned)
    }

    /// Pins a thread that has no slot, or whose last slot was taken by another thread.
    #[cold]
    fn pin_first(&self, pinned: &ThreadPins) -> Pin<'_> {
        if !pinned.is_idle() {
            // It is pinned on another heap, whose pins are counted in this place.
            return self.pin_uncounted();
        }
        let (index, slot, epoch) = self.claim_any();
        pinned.number.set(self.number);
        pinned.slot.set(index);
        self.counted(slot, pinned, pinned.begin(epoch))
    }

    #[cold]
    fn pin_uncounted(&self) -> Pin<'_> {
        let (index, slot, _) = self.claim_any();
        Pin { slot, index, counted: None, _of_this_thread: PhantomData }
    }

    #[inline]
    fn counted<'a>(&self, slot: &'a ReaderSlot, pinned: &ThreadPins, group: usize) -> Pin<'a> {
        let counted = Some(PinGroup { place: self.place(), group });
        Pin { slot, index: pinned.slot.get(), counted, _of_this_thread: PhantomData }
    }

    /// Pins the calling thread until it calls [`unpin`](Readers::unpin).
    ///
    /// # Cost
    /// That of [`pin`](Readers::pin).
    pub(crate) fn pin_detached(&self) -> DetachedPin {
        let pin = self.pin();
        let detached = DetachedPin { index: pin.index, counted: pin.counted };
        std::mem::forget(pin);
        detached
    }

    /// Ends a pin that the calling thread made.
    pub(crate) fn unpin(&self, pin: DetachedPin) {
        let DetachedPin { index, counted } = pin;
        if let Some(slot) = self.slot(index) {
            drop(Pin { slot, index, counted, _of_this_thread: PhantomData });
        }
    }

    /// Pins for a reader that is not a thread. The pin ends in any thread.
    pub(crate) fn pin_owned(&self) -> OwnedPin {
        let (index, _, epoch) = self.claim_any();
        OwnedPin { index, epoch }
    }

    /// Ends a pin.
    pub(crate) fn release(&self, pin: OwnedPin) {
        if let Some(slot) = self.slot(pin.index) {
            // ORDER: releases the loads of the reader, as the end of any pin.
            slot.0.store(FREE, Ordering::Release);
        }
    }

    /// Returns the index in [`THREAD_PINS`] for these readers.
    #[inline]
    fn place(&self) -> usize {
        self.number as usize % HEAPS
    }

    /// Claims the first free slot, and makes more slots if none is free.
    fn claim_any(&self) -> (usize, &ReaderSlot, u64) {
        for index in 0.. {
            let slot = self.slot_or_new(index);
            // ORDER: none: the claim says whether it is really free.
            if slot.0.load(Ordering::Relaxed) != FREE {
                continue;
            }
            // ORDER: the mark is raised after the slot's table is there and before the slot is used, so `oldest`
            // looks at the slot.
            self.used.fetch_max(index + 1, Ordering::SeqCst);
            let epoch = self.epoch.load(Ordering::SeqCst);
            if slot.claim(epoch) {
                return (index, slot, epoch);
            }
        }
        unreachable!("the loop ends with a slot")
    }

    /// Returns slot number `index`, if its table is there.
    #[inline]
    fn slot(&self, index: usize) -> Option<&ReaderSlot> {
        if index < SLOTS {
            return self.first.get(index);
        }
        let (table, within) = table_of(index);
        self.more.get(table - 1)?.get()?.get(within)
    }

    fn slot_or_new(&self, index: usize) -> &ReaderSlot {
        let (number, within) = table_of(index);
        match number {
            0 => &self.first[within],
            _ => &self.more[number - 1].get_or_init(|| table(number))[within],
        }
    }

    /// Ends the current epoch and returns its number. Blocks that were unlinked before the call were unlinked in this
    /// epoch or earlier.
    pub(crate) fn advance(&self) -> u64 {
        // ORDER: the unlinking stores of the caller come before the new epoch and before the look at the slots.
        self.epoch.fetch_add(1, Ordering::SeqCst)
    }

    /// Returns the oldest pinned epoch, or the current one. Blocks that were unlinked in earlier epochs have no
    /// reader. Never returns a later epoch: blocks that other threads unlink after this look may have a reader.
    #[inline]
    pub(crate) fn oldest(&self) -> u64 {
        self.oldest_but(|_| false)
    }

    /// Returns what [`oldest`](Readers::oldest) would return without the pins in the slots that are `left_out`.
    pub(crate) fn oldest_but(&self, left_out: impl Fn(usize) -> bool) -> u64 {
        // ORDER: blocks unlinked in epochs that are over were unlinked before the fence. Either the loads below see a
        // reader's claim, or the reader's loads, which follow its claim, see that the block was unlinked. In the
        // second case the reader can't come to hold the block. A later pin of the same thread follows the same claim.
        let current = self.epoch.load(Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let used = self.used.load(Ordering::SeqCst);
        let tables = std::iter::once(&self.first).chain(self.more.iter().map_while(OnceLock::get));
        let slots = tables.flat_map(|table| table.iter()).take(used);
        // ORDER: as above. An epoch that replaces an older one in a slot is that of a pin that was there before, so
        // both pins keep what they hold. The store of the epoch releases the loads of the pins that are gone.
        let slots = slots.enumerate().filter(|(index, _)| !left_out(*index));
        let pinned = slots.map(|(_, slot)| slot.0.load(Ordering::SeqCst));
        pinned.filter(|epoch| *epoch != FREE).fold(current, u64::min)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        // Pins that were forgotten count no more. In other threads an entry goes to the next heap that writes its
        // number.
        let _ = THREAD_PINS.try_with(|all| {
            let pinned = &all[self.place()];
            if pinned.number.get() == self.number {
                pinned.number.set(NONE);
                pinned.counts.iter().for_each(|count| count.set(0));
            }
        });
    }
}

/// Makes table number `number`, with all slots free.
fn table(number: usize) -> Table {
    (0..SLOTS << number).map(|_| ReaderSlot(AtomicU64::new(FREE))).collect()
}

/// Returns the table of slot number `index`, and the slot's place in it.
fn table_of(index: usize) -> (usize, usize) {
    let table = (index / SLOTS + 1).ilog2() as usize;
    (table, index - ((1 << table) - 1) * SLOTS)
}

impl ReaderSlot {
    #[inline]
    fn claim(&self, epoch: u64) -> bool {
        // ORDER: the claim comes before every load of the reader, for all threads; see `Readers::oldest`.
        let claimed = self.0.compare_exchange(FREE, epoch, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        fence_after_exchange();
        claimed
    }
}

impl Drop for Pin<'_> {
    #[inline]
    fn drop(&mut self) {
        // A thread that counted the pin keeps its count as long as the pin.
        let shown = self.counted.map_or(Some(FREE), |PinGroup { place, group }| {
            THREAD_PINS.try_with(|all| all[place % HEAPS].leave(group)).unwrap_or(Some(FREE))
        });
        if let Some(epoch) = shown {
            // ORDER: releases the loads of the pins that are gone. A thread that sees the slot free, or a younger
            // epoch in it, may overwrite the blocks that were read.
            self.slot.0.store(epoch, Ordering::Release);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod test {
    use super::*;

    #[test]
    fn slot_indexes_are_contiguous() {
        let mut next = (0, 0);
        for index in 0..10_000 {
            assert_eq!(table_of(index), next);
            next.1 += 1;
            if next.1 == SLOTS << next.0 {
                next = (next.0 + 1, 0);
            }
        }
    }

    #[test]
    fn thread_has_one_slot() {
        let readers = Readers::new();
        let pins: Vec<Pin<'_>> = (0..1000)
            .map(|number| {
                if number % 10 == 0 {
                    readers.advance();
                }
                readers.pin()
            })
            .collect();
        assert_eq!(readers.used.load(Ordering::SeqCst), 1);
        assert_eq!(readers.oldest(), 2);
        drop(pins);
        assert_eq!(readers.oldest(), 101);
    }

    #[test]
    fn slot_shows_oldest_pin() {
        let readers = Readers::new();
        let first = readers.pin();
        readers.advance();
        let second = readers.pin();
        assert_eq!(readers.oldest(), 1);
        drop(first);
        assert_eq!(readers.oldest(), 2);
        readers.advance();
        let third = readers.pin();
        drop(third);
        assert_eq!(readers.oldest(), 2);
        let third = readers.pin();
        drop(second);
        assert_eq!(readers.oldest(), 3);
        drop(third);
        readers.advance();
        assert_eq!(readers.oldest(), 4);
    }

    #[test]
    fn pins_of_heaps_are_separate() {
        let all: Vec<Readers> = (0..3 * HEAPS).map(|_| Readers::new()).collect();
        let pins: Vec<Pin<'_>> = all.iter().flat_map(|readers| [readers.pin(), readers.pin()]).collect();
        for readers in &all {
            readers.advance();
            assert_eq!(readers.oldest(), 1);
        }
        drop(pins);
        assert!(all.iter().all(|readers| readers.oldest() == 2));
    }

    #[test]
    fn forgotten_pin_ends_with_heap() {
        let first = Readers::new();
        std::mem::forget(first.pin());
        first.advance();
        assert_eq!(first.oldest(), 1);
        let pin = first.pin();
        drop(pin);
        assert_eq!(first.oldest(), 1);
        let place = first.place();
        drop(first);
        // One that is counted in the same place.
        let other = std::iter::repeat_with(Readers::new).find(|other| other.place() == place);
        let other = other.expect("there is always another one");
        assert!(other.pin().counted.is_some());
    }

    #[test]
    fn pin_dropped_in_thread_local_destructor() {
        std::thread_local! {
            static LAST: std::cell::RefCell<Option<Pin<'static>>> = const { std::cell::RefCell::new(None) };
        }
        let readers: &'static Readers = Box::leak(Box::new(Readers::new()));
        let pinned = std::thread::spawn(|| {
            LAST.with_borrow_mut(|last| *last = Some(readers.pin()));
            readers.advance();
            readers.oldest()
        });
        assert_eq!(pinned.join().ok(), Some(1));
        assert_eq!(readers.oldest(), 2);
    }
}
