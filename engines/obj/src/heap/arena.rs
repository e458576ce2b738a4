//! Arenas: each has a run of each class, from which its threads take blocks.
//!
//! A thread that has none yet gets the arena with the fewest threads, of those that may be given by themselves. It keeps it until its
//! end, or until the program gives it another one.

use super::slots::{BlockPlace, pack, unpack};
use crate::error::ObjError;
use lode_pmem::Counter;
use lode_pmem::sync::{AtomicBool, AtomicU64, Ordering, SpinMutex};
use std::cell::{Cell, RefCell};
use std::sync::{Arc, OnceLock};

/// The most arenas, as PMDK has them.
const ARENAS_MAX: u32 = 1024;
/// Classes that an arena may have a run of.
const CLASSES: usize = 255;

/// Numbers of heaps in this process.
static HEAPS: Counter = Counter::new(1);

/// An arena.
#[derive(Debug)]
pub(crate) struct Arena {
    pub(crate) number: u32,
    is_automatic: AtomicBool,
    /// Number of threads that have it.
    threads: Arc<AtomicU64>,
    /// The place of the run of each class.
    active: Box<[AtomicU64]>,
    /// Held while it gets another run.
    pub(super) refill: SpinMutex<()>,
}

/// The arenas with which a pool begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstArenas {
    /// Their number, from 1 to 1024.
    pub count: u32,
    /// True if all threads share one, whichever they choose.
    pub is_shared: bool,
}

impl Default for FirstArenas {
    /// Returns as many arenas as the machine has CPUs.
    fn default() -> FirstArenas {
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
        FirstArenas { count: cpus, is_shared: false }
    }
}

/// The arenas of an open pool.
#[derive(Debug)]
pub(crate) struct Arenas {
    heap: u64,
    arenas: Box<[OnceLock<Arena>]>,
    count: AtomicU64,
    is_shared: bool,
    /// The arena that all threads have, if they share one.
    shared: OnceLock<u32>,
}

/// The arena of this thread in a heap.
struct Seat {
    heap: u64,
    arena: u32,
    threads: Arc<AtomicU64>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        // ORDER: none: a count by which new threads are spread.
        self.threads.fetch_sub(1, Ordering::Relaxed);
    }
}

std::thread_local! {
    /// The heap that this thread used last, and its arena there.
    static LAST: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
    static SEATS: RefCell<Vec<Seat>> = const { RefCell::new(Vec::new()) };
}

impl Arena {
    fn new(number: u32, is_automatic: bool) -> Arena {
        Arena {
            number,
            is_automatic: AtomicBool::new(is_automatic),
            threads: Arc::default(),
            active: (0..CLASSES).map(|_| AtomicU64::new(0)).collect(),
            refill: SpinMutex::new(()),
        }
    }

    /// Returns the run of a class.
    #[inline]
    pub(super) fn active(&self, class: u8) -> Option<BlockPlace> {
        // ORDER: none: the run's slot is locked before its content is used, and says whether this arena has it.
        self.active.get(usize::from(class)).and_then(|active| unpack(active.load(Ordering::Relaxed)))
    }

    /// Replaces the run of a class, and returns the one before.
    pub(super) fn replace_active(&self, class: u8, place: Option<BlockPlace>) -> Option<BlockPlace> {
        let word = place.map_or(0, pack);
        // ORDER: none: as in `active`. Each run is returned once.
        self.active.get(usize::from(class)).and_then(|active| unpack(active.swap(word, Ordering::Relaxed)))
    }

    /// Returns the places of all its runs.
    pub(super) fn all_active(&self) -> impl Iterator<Item = BlockPlace> {
        (0..CLASSES as u8).filter_map(|class| self.active(class))
    }

    pub(crate) fn is_automatic(&self) -> bool {
        // ORDER: none: a wish of the program.
        self.is_automatic.load(Ordering::Relaxed)
    }

    pub(crate) fn set_automatic(&self, is_automatic: bool) {
        // ORDER: as in `is_automatic`.
        self.is_automatic.store(is_automatic, Ordering::Relaxed);
    }
}

impl Arenas {
    /// Returns these arenas, which threads get by themselves.
    pub(super) fn new(first: FirstArenas) -> Arenas {
        let count = first.count.clamp(1, ARENAS_MAX);
        let arenas: Box<[OnceLock<Arena>]> = (0..ARENAS_MAX).map(|_| OnceLock::new()).collect();
        for (arena, number) in arenas.iter().zip(1..=count) {
            arena.get_or_init(|| Arena::new(number, true));
        }
        let is_shared = first.is_shared;
        let (heap, count) = (HEAPS.add(1), AtomicU64::new(count.into()));
        Arenas { heap, arenas, count, is_shared, shared: OnceLock::new() }
    }

    /// Returns an arena by its number, from 1 on.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Result<&Arena, ObjError> {
        let index = number.checked_sub(1).map(|index| index as usize);
        index
            .and_then(|index| self.arenas.get(index))
            .and_then(OnceLock::get)
            .ok_or(ObjError::NoArena { number })
    }

    /// Returns all arenas.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arena> {
        self.arenas.iter().map_while(OnceLock::get)
    }

    /// Returns the number of automatic arenas, of all, and the maximum.
    pub(crate) fn counts(&self) -> (u32, u32, u32) {
        let automatic = self.all().filter(|arena| arena.is_automatic()).count() as u32;
        // ORDER: none: a count.
        (automatic, self.count.load(Ordering::Relaxed).min(ARENAS_MAX.into()) as u32, ARENAS_MAX)
    }

    /// Makes an arena that no thread gets by itself.
    pub(crate) fn add(&self) -> Result<u32, ObjError> {
        // ORDER: none: each call draws a number of its own, and the `OnceLock` orders the arena.
        let index = self.count.fetch_add(1, Ordering::Relaxed);
        let free = usize::try_from(index).ok().and_then(|index| self.arenas.get(index));
        let Some(free) = free else {
            // ORDER: as above.
            self.count.fetch_sub(1, Ordering::Relaxed);
            return Err(ObjError::TooManyArenas { max: ARENAS_MAX });
        };
        Ok(free.get_or_init(|| Arena::new(index as u32 + 1, false)).number)
    }

    /// Returns the arena of this thread, which gets one if it has none.
    #[inline]
    pub(crate) fn of_thread(&self) -> Result<&Arena, ObjError> {
        let (heap, number) = LAST.try_with(Cell::get).unwrap_or_default();
        if heap == self.heap { self.get(number) } else { self.seat() }
    }

    /// Returns the number of this thread's arena, if it has one.
    fn seat_of_thread(&self) -> Option<u32> {
        let of_seat = |seats: &RefCell<Vec<Seat>>| {
            seats.borrow().iter().find(|seat| seat.heap == self.heap).map(|seat| seat.arena)
        };
        SEATS.try_with(of_seat).ok().flatten()
    }

    /// Makes as many arenas as others are, which threads get by themselves if those do; this thread gets the one with the number of its own
    /// there. The others may be a copy that a fork has made, whose threads were in the middle of anything: no lock of theirs is taken.
    pub(crate) fn follow(&self, others: &Arenas) {
        for number in 1..=others.counts().1 {
            if self.get(number).is_err() && self.add().is_err() {
                return;
            }
            if let (Ok(arena), Ok(other)) = (self.get(number), others.get(number)) {
                arena.set_automatic(other.is_automatic());
            }
        }
        if let Some(number) = others.seat_of_thread() {
            let _ = self.choose(number);
        }
    }

    #[cold]
    fn seat(&self) -> Result<&Arena, ObjError> {
        if let Some(number) = self.seat_of_thread() {
            let _ = LAST.try_with(|last| last.set((self.heap, number)));
            return self.get(number);
        }
        // ORDER: none: a count by which threads are spread.
        let threads = |arena: &&Arena| arena.threads.load(Ordering::Relaxed);
        let mut automatic = self.all().filter(|arena| arena.is_automatic());
        let number = match self.is_shared {
            true => *self.shared.get_or_init(|| automatic.next().map_or(1, |arena| arena.number)),
            false => automatic.min_by_key(threads).map_or(1, |arena| arena.number),
        };
        let arena = self.get(number)?;
        self.set_of_thread(arena.number)?;
        Ok(arena)
    }

    /// Gives this thread an arena that it has chosen. If all threads share one, it keeps that.
    pub(crate) fn choose(&self, number: u32) -> Result<(), ObjError> {
        match self.is_shared {
            true => self.get(number).map(|_| ()),
            false => self.set_of_thread(number),
        }
    }

    fn set_of_thread(&self, number: u32) -> Result<(), ObjError> {
        let threads = Arc::clone(&self.get(number)?.threads);
        // ORDER: none: a count by which threads are spread.
        threads.fetch_add(1, Ordering::Relaxed);
        let seat = Seat { heap: self.heap, arena: number, threads };
        // A thread that is ending has no seats left.
        let _ = SEATS.try_with(|seats| {
            let mut seats = seats.borrow_mut();
            // Those of closed pools, whose arenas are gone.
            seats.retain(|seat| seat.heap != self.heap && Arc::strong_count(&seat.threads) > 1);
            seats.push(seat);
        });
        let _ = LAST.try_with(|last| last.set((self.heap, number)));
        Ok(())
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn threads_get_the_arena_with_the_fewest() {
        let arenas = Arenas::new(FirstArenas::default());
        let (automatic, _, _) = arenas.counts();
        let number = arenas.of_thread().expect("an arena").number;
        assert_eq!(arenas.of_thread().expect("an arena").number, number);
        let other = std::thread::scope(|scope| {
            scope.spawn(|| arenas.of_thread().map(|arena| arena.number)).join().expect("no panic")
        });
        assert_eq!(other == Ok(number), automatic == 1, "{other:?}");
        let made = arenas.add().expect("room");
        assert_eq!(made, automatic + 1);
        arenas.choose(made).expect("it is there");
        assert_eq!(arenas.of_thread().expect("an arena").number, made);
        assert!(arenas.get(0).is_err() && arenas.get(made + 1).is_err());
        arenas.get(made).expect("it is there").set_automatic(true);
        while arenas.add().is_ok() {}
        assert_eq!(arenas.counts(), (automatic + 1, ARENAS_MAX, ARENAS_MAX));
    }

    #[test]
    fn arenas_follow_others_whose_locks_are_held() {
        let others = Arenas::new(FirstArenas { count: 2, is_shared: false });
        let made = others.add().expect("room");
        others.choose(made).expect("it is there");
        others.get(1).expect("it is there").set_automatic(false);
        let _held: Vec<_> = others.all().map(|arena| arena.refill.try_lock().expect("free")).collect();
        let arenas = Arenas::new(FirstArenas { count: 1, is_shared: false });
        arenas.follow(&others);
        assert_eq!(arenas.counts(), others.counts());
        let automatic: Vec<bool> = arenas.all().map(Arena::is_automatic).collect();
        assert_eq!(automatic, [false, true, false]);
        assert_eq!(arenas.of_thread().expect("an arena").number, made);
    }

    #[test]
    fn threads_share_an_arena_if_they_shall() {
        let arenas = Arenas::new(FirstArenas { count: 3, is_shared: true });
        let of_thread = || arenas.of_thread().map(|arena| arena.number);
        let number = of_thread().expect("an arena");
        arenas.get(number).expect("it is there").set_automatic(false);
        let other = std::thread::scope(|scope| scope.spawn(of_thread).join().expect("no panic"));
        assert_eq!(other, Ok(number));
        assert!(arenas.choose(number + 1).is_ok() && arenas.choose(4).is_err());
        assert_eq!((of_thread(), arenas.counts().0), (Ok(number), 2));
    }
}
