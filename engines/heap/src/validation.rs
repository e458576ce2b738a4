//! Validated reads: noting them, and comparing them at a commit or for a newer snapshot. The rules are those of
//! [`read_set`](crate::read_set).

use crate::attempt::Attempt;
use crate::error::HeapError;
use crate::heap::Heap;
use crate::locks::{LockTable, Tag, Version};
use crate::read_set::{Dependency, Read, ReadCheck, ReadSet, Reread, digest};
use crate::tx::Tx;
use lode_layout::PoolOffset;
use lode_pmem::sync::fence_after_exchange;
use lode_pmem::{FaultScope, Medium, Readable};
use lode_redo::bugs;
use std::cell::RefCell;
use std::mem;
use std::sync::atomic::{Ordering, fence};

/// Passes over all reads after which a transaction starts again, because other transactions keep changing words under
/// the locks of its reads.
const PASSES_MAX: u32 = 16;
/// Rounds for which a read waits for a lock; also the number of times that one read is compared at a time.
const READ_ROUNDS_MAX: u32 = 1 << 14;
/// As `READ_ROUNDS_MAX`, while the transaction holds a lock that comes after the one for which it waits.
const INVERTED_READ_ROUNDS_MAX: u32 = 96;

/// The reason why reads do not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Invalid {
    is_inversion: bool,
}

impl ReadSet {
    /// Returns true if no lock of a read has moved since the read was compared last.
    #[inline]
    fn are_unmoved(&self, locks: &LockTable) -> bool {
        let is_unmoved = |read: &Dependency| locks.version(locks.stripe(read.read.guard)) == read.version;
        self.dependencies.iter().all(is_unmoved)
    }

    /// Begins the snapshot with the last commit, if nothing was read yet.
    #[inline]
    fn begin_snapshot(&mut self, last_commit: impl FnOnce() -> u64) {
        if self.is_empty() {
            // ORDER: before the version of the first read is loaded: locks of the transactions up to this number were taken
            // before, so a version that is open has their changes.
            self.snapshot = last_commit();
        }
    }

    /// Compares all reads, and moves the snapshot up to the last commit.
    fn validate<M: Medium>(
        &mut self,
        heap: &Heap<M>,
        attempt: &mut Attempt,
        memory: &Readable,
    ) -> Result<(), Invalid> {
        let locks = heap.locks();
        for _ in 0..PASSES_MAX {
            // ORDER: before the versions are loaded: locks of the transactions up to this number were taken before.
            let snapshot = heap.last_commit();
            let mut has_moved = false;
            for dependency in &mut self.dependencies {
                if locks.version(locks.stripe(dependency.read.guard)) != dependency.version {
                    has_moved |= dependency.compare(heap, attempt, memory)?;
                }
            }
            if !has_moved {
                self.snapshot = snapshot;
                return Ok(());
            }
        }
        Err(Invalid { is_inversion: false })
    }
}

impl Dependency {
    /// Reads again, if the number of the lock moved. Returns true if it did, and the words are the same.
    #[cold]
    fn compare<M: Medium>(
        &mut self,
        heap: &Heap<M>,
        attempt: &mut Attempt,
        memory: &Readable,
    ) -> Result<bool, Invalid> {
        let locks = heap.locks();
        let mut moved = false;
        for round in 0..READ_ROUNDS_MAX {
            let guard = self.read.guard;
            let (stripe, tag) = (locks.stripe(guard), Tag::of(guard));
            let now = locks.version(stripe);
            let is_mine = attempt.holds(stripe);
            let is_pending = !is_mine && heap.meets_pending(attempt, stripe, now);
            if attempt.wants_pending() {
                return Err(Invalid { is_inversion: false });
            }
            if is_pending && heap.lock_written_back(attempt, stripe, tag, now) {
                continue;
            }
            if is_pending || now.is_held_for(tag) && !is_mine {
                let is_inversion = attempt.inverts_lock_order(stripe);
                let gives_way = is_inversion || locks.has_senior() && !attempt.is_senior();
                if gives_way && round >= INVERTED_READ_ROUNDS_MAX {
                    return Err(Invalid { is_inversion });
                }
                heap.medium().relax(round);
                continue;
            }
            if !moved && now.number() == self.version.number() {
                return Ok(false);
            }
            // Words under a lock that the transaction holds are compared as they were before its own changes. Objects
            // that it has made have no lock of their own to hold.
            let writes = RefCell::new(attempt.writes());
            // A check that follows a pointer while the words change may read anywhere.
            let scope = FaultScope::open();
            let holds = (self.check)(&Reread { memory, writes, is_below: is_mine }, &mut self.read);
            let fault = scope.close().err();
            // ORDER: the words are loaded before the version is loaded again.
            fence(Ordering::Acquire);
            if self.read.guard != guard {
                moved = true;
                continue;
            }
            if locks.version(stripe) != now {
                continue;
            }
            if !holds {
                return Err(Invalid { is_inversion: false });
            }
            if let Some(fault) = fault {
                fault.raise();
            }
            self.version = Version::of_number(now.number());
            return Ok(true);
        }
        Err(Invalid { is_inversion: false })
    }
}

/// The reads of an attempt while they are compared. They go back to it in any case: a check may panic, and the panic may
/// be caught inside of the closure.
struct Comparing<'a> {
    attempt: &'a mut Attempt,
    reads: ReadSet,
}

impl<'a> Comparing<'a> {
    fn begin(attempt: &'a mut Attempt) -> Comparing<'a> {
        let reads = mem::take(attempt.reads());
        Comparing { attempt, reads }
    }
}

impl Drop for Comparing<'_> {
    fn drop(&mut self) {
        *self.attempt.reads() = mem::take(&mut self.reads);
    }
}

fn is_same_word(reread: &Reread<'_>, read: &mut Read) -> bool {
    reread.load8(read.guard) == read.words[0]
}

impl<M: Medium> Heap<M> {
    /// Returns the number of the last transaction that has begun to commit, counted from the opening of the heap.
    #[inline]
    pub(crate) fn last_commit(&self) -> u64 {
        self.number_of(self.log().last_sequence())
    }

    /// Compares all that the attempt has read. A conflict restarts the closure.
    pub(crate) fn validate_reads(&self, attempt: &mut Attempt, memory: &Readable) -> Result<(), HeapError> {
        // ORDER: the locks of this transaction are taken before versions are loaded. Of two transactions, each of
        // which changes what the other has read, one sees the other's lock.
        fence_after_exchange();
        // ORDER: as in `validate`.
        let snapshot = self.last_commit();
        if attempt.reads().are_unmoved(self.locks()) {
            attempt.reads().snapshot = snapshot;
            return Ok(());
        }
        let mut comparing = Comparing::begin(attempt);
        let validated = comparing.reads.validate(self, comparing.attempt, memory);
        drop(comparing);
        validated.map_err(|Invalid { is_inversion }| {
            attempt.conflict(is_inversion);
            HeapError::Conflict
        })
    }

    /// Moves the snapshot of the attempt so far that it includes the transaction `number`.
    #[inline]
    pub(crate) fn extend_snapshot(
        &self,
        attempt: &mut Attempt,
        memory: &Readable,
        number: u64,
    ) -> Result<(), HeapError> {
        if number <= attempt.reads().snapshot {
            return Ok(());
        }
        if bugs::READS_NOT_EXTENDED.is_active() {
            attempt.reads().snapshot = self.last_commit();
            return Ok(());
        }
        self.validate_reads(attempt, memory)
    }
}

/// Reads that are validated. The transaction is as if all of them had happened in one moment.
impl<M: Medium> Tx<'_, M> {
    /// Returns the aligned word at `at`, which only transactions that hold its lock change, as the transaction sees
    /// it. Other transactions may free the object that the word leads to, and use its space again, unless this one is
    /// pinned: [`pin_to_end`](Tx::pin_to_end).
    ///
    /// # Errors
    /// [`HeapError::Conflict`] when the word does not go with what the transaction has read before.
    #[inline]
    pub fn read8(&self, at: PoolOffset) -> Result<u64, HeapError> {
        let locks = self.heap().locks();
        let stripe = locks.stripe(at);
        {
            let attempt = &mut *self.attempt();
            let is_slow = attempt.has_slow_reads();
            let (reads, writes) = attempt.reads_and_writes();
            reads.begin_snapshot(|| self.heap().last_commit());
            let before = locks.version(stripe);
            let word = writes.load8(self.memory(), at);
            // ORDER: the word is loaded before the version is loaded again.
            fence(Ordering::Acquire);
            let is_open = !before.is_held() && locks.version(stripe) == before;
            if is_open && before.number() <= reads.snapshot && !is_slow {
                reads.push(Read { guard: at, words: [word, 0, 0, 0, 0] }, before.number(), is_same_word);
                return Ok(word);
            }
        }
        self.read8_slow(at)
    }

    #[cold]
    fn read8_slow(&self, at: PoolOffset) -> Result<u64, HeapError> {
        loop {
            let version = self.read_version(at)?;
            let word = self.load8(at);
            if self.note_read(version, Read { guard: at, words: [word, 0, 0, 0, 0] }, is_same_word)? {
                return Ok(word);
            }
        }
    }

    /// Reads words as [`read_validated`](Tx::read_validated) does, under the lock of the offset that is the first of `words`.
    /// `read` gets them, and `check` finds them in [`Read::noted_words`].
    pub(crate) fn read_noted(
        &self,
        words: [u64; 3],
        read: fn(&Reread<'_>, [u64; 3]) -> Vec<u8>,
        check: ReadCheck,
    ) -> Result<Vec<u8>, HeapError> {
        self.read_validated(PoolOffset::new(words[0]), |reread| read(reread, words), check, words)
    }

    /// Reads bytes under the lock of `guard`, and notes their digest. `check` reads them again; it gets `words`. A fault
    /// of `read` counts only if the words did not change meanwhile.
    pub(crate) fn read_validated(
        &self,
        guard: PoolOffset,
        read: impl Fn(&Reread<'_>) -> Vec<u8>,
        check: ReadCheck,
        words: [u64; 3],
    ) -> Result<Vec<u8>, HeapError> {
        for round in 0.. {
            let version = self.read_version(guard)?;
            // A read that follows a pointer while the words change may read anywhere.
            let scope = FaultScope::open();
            let bytes = {
                let attempt = &mut *self.attempt();
                let writes = RefCell::new(attempt.writes());
                read(&Reread { memory: self.memory(), writes, is_below: false })
            };
            let fault = scope.close().err();
            let [first, second, third] = words;
            let noted = Read { guard, words: [first, second, third, 0, digest(&bytes)] };
            if self.note_read(version, noted, check)? {
                if let Some(fault) = fault {
                    fault.raise();
                }
                return Ok(bytes);
            }
            self.heap().medium().relax(round);
        }
        unreachable!("the loop ends with the bytes or a conflict")
    }

    /// Returns the result of a `read` during which no other transaction changed words under the lock of `guard`.
    pub(crate) fn read_stable<R>(&self, guard: PoolOffset, read: impl Fn() -> R) -> Result<R, HeapError> {
        let locks = self.heap().locks();
        for round in 0.. {
            let version = self.read_version(guard)?;
            let found = read();
            // ORDER: the words are loaded before the version is loaded again.
            fence(Ordering::Acquire);
            if locks.version(locks.stripe(guard)) == version {
                return Ok(found);
            }
            self.heap().medium().relax(round);
        }
        unreachable!("the loop ends with a result")
    }

    /// Returns the version of the lock of `guard` before a read of words under it, for
    /// [`note_read`](Tx::note_read). Waits while another transaction holds the lock for `guard`.
    ///
    /// # Errors
    /// [`HeapError::Conflict`] when it holds the lock too long; the closure is to start again.
    #[inline]
    pub fn read_version(&self, guard: PoolOffset) -> Result<Version, HeapError> {
        let locks = self.heap().locks();
        self.attempt().reads().begin_snapshot(|| self.heap().last_commit());
        let version = locks.version(locks.stripe(guard));
        if version.is_held() || self.attempt().locks_reads() {
            return self.read_version_slow(guard);
        }
        Ok(version)
    }

    #[cold]
    fn read_version_slow(&self, guard: PoolOffset) -> Result<Version, HeapError> {
        let locks = self.heap().locks();
        let (stripe, tag) = (locks.stripe(guard), Tag::of(guard));
        for round in 0.. {
            if self.attempt().locks_reads() {
                self.lock(guard)?;
            }
            let version = locks.version(stripe);
            let attempt = &mut *self.attempt();
            let is_mine = attempt.holds(stripe);
            let is_pending = !is_mine && self.heap().meets_pending(attempt, stripe, version);
            if attempt.wants_pending() {
                return Err(HeapError::Conflict);
            }
            if is_mine || !is_pending && !version.is_held_for(tag) {
                return Ok(version);
            }
            if is_pending && self.heap().lock_written_back(attempt, stripe, tag, version) {
                continue;
            }
            let is_inversion = attempt.inverts_lock_order(stripe);
            let gives_way = is_inversion || locks.has_senior() && !attempt.is_senior();
            let rounds_max = if gives_way { INVERTED_READ_ROUNDS_MAX } else { READ_ROUNDS_MAX };
            if round >= rounds_max {
                attempt.conflict(is_inversion);
                return Err(HeapError::Conflict);
            }
            self.heap().medium().relax(round);
        }
        unreachable!("the loop ends with a version or a conflict")
    }

    /// Notes a read of words under the lock of its guard, whose version was `version` before. Returns false if they
    /// may have changed since; the caller then reads again, from [`read_version`](Tx::read_version) on.
    ///
    /// # Errors
    /// [`HeapError::Conflict`] when the words do not go with what the transaction has read before; the closure is to
    /// start again.
    #[inline]
    pub fn note_read(&self, version: Version, read: Read, check: ReadCheck) -> Result<bool, HeapError> {
        let locks = self.heap().locks();
        // ORDER: the words are loaded before the version is loaded again.
        fence(Ordering::Acquire);
        let now = locks.version(locks.stripe(read.guard));
        {
            let attempt = &mut *self.attempt();
            if now == version && !now.is_held() && now.number() <= attempt.reads().snapshot {
                attempt.reads().push(read, now.number(), check);
                return Ok(true);
            }
        }
        self.note_read_slow(version, read, check)
    }

    #[cold]
    fn note_read_slow(&self, version: Version, read: Read, check: ReadCheck) -> Result<bool, HeapError> {
        let locks = self.heap().locks();
        let (stripe, tag) = (locks.stripe(read.guard), Tag::of(read.guard));
        let attempt = &mut *self.attempt();
        if attempt.holds(stripe) {
            self.heap().extend_snapshot(attempt, self.memory(), version.number())?;
            return Ok(true);
        }
        let is_unchanged = || {
            let now = locks.version(stripe);
            now.number() == version.number() && !now.is_held_for(tag)
        };
        if !is_unchanged() {
            return Ok(false);
        }
        self.heap().extend_snapshot(attempt, self.memory(), version.number())?;
        // The snapshot may be later than the read now.
        if !is_unchanged() {
            return Ok(false);
        }
        attempt.reads().push(read, version.number(), check);
        Ok(true)
    }

    /// Keeps objects that the transaction can reach from being used again until it is over. For reads whose
    /// [`ReadCheck`] compares offsets.
    #[inline]
    pub fn pin_to_end(&self) {
        let attempt = &mut *self.attempt();
        if attempt.reads().pin.is_none() {
            attempt.reads().pin = Some(self.heap().shared().readers().pin_detached());
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_layout::Geometry;
    use lode_pmem::Mapping;
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicBool;
    use std::sync::{Arc, OnceLock};
    use std::thread;

    type TestHeap = Heap<Arc<Mapping>>;

    const LEN: u64 = 1 << 20;
    /// No word is there.
    const OUTSIDE: PoolOffset = PoolOffset::new(1 << 40);

    /// Returns a heap, and the offset of a word in it.
    fn heap() -> (TestHeap, PoolOffset) {
        let (medium, geometry) = (lode_testing::memory::volatile(LEN), Geometry::plan(LEN).unwrap());
        Heap::format(&medium, &geometry, &[1; 16], [1, 1]).unwrap();
        let (heap, _) = Heap::open(medium, &geometry, [1; 16], [2, 2]).unwrap();
        let at = heap.run(|tx| tx.alloc_zeroed(64, 64, 1)).unwrap();
        (heap, at)
    }

    /// Stores the word in a transaction of another thread.
    fn store(heap: &TestHeap, at: PoolOffset, word: u64) {
        let transaction = || {
            heap.run(|tx| {
                tx.lock(at)?;
                tx.store8(at, word);
                Ok::<_, HeapError>(())
            })
        };
        thread::scope(|scope| scope.spawn(transaction).join()).unwrap().unwrap();
    }

    fn word_bytes(reread: &Reread<'_>, at: PoolOffset) -> Vec<u8> {
        reread.load8(at).to_le_bytes().to_vec()
    }

    /// Post-mortem. `PVec::get` loaded the old buffer and the new length of a vector that grew meanwhile. The element
    /// lay after the end of the pool, and the transaction failed with that fault.
    #[test]
    fn fault_of_torn_read_is_dropped() {
        let (heap, at) = heap();
        let is_torn = Cell::new(true);
        let read = |reread: &Reread<'_>| {
            if is_torn.replace(false) {
                store(&heap, at, 5);
                reread.load8(OUTSIDE);
            }
            word_bytes(reread, at)
        };
        let check: ReadCheck = |reread, read| read.is_digest(&word_bytes(reread, read.guard));
        let found = heap.run(|tx| tx.read_validated(at, read, check, [0; 3]));
        assert_eq!(found, Ok(5u64.to_le_bytes().to_vec()));
        let lost = heap.run(|tx| tx.read_validated(at, |reread| word_bytes(reread, OUTSIDE), check, [0; 3]));
        assert!(matches!(lost, Err(HeapError::Fault(_))), "{lost:?}");
    }

    #[test]
    fn fault_of_torn_check_is_dropped() {
        static HEAP: OnceLock<(TestHeap, PoolOffset)> = OnceLock::new();
        static IS_TORN: AtomicBool = AtomicBool::new(true);
        fn check(reread: &Reread<'_>, read: &mut Read) -> bool {
            let (heap, at) = HEAP.get().unwrap();
            if IS_TORN.swap(false, Ordering::Relaxed) {
                store(heap, *at, 0);
                reread.load8(OUTSIDE);
            }
            read.is_digest(&word_bytes(reread, read.guard))
        }
        let (heap, at) = HEAP.get_or_init(heap);
        let done = heap.run(|tx| {
            tx.read_validated(*at, |reread| word_bytes(reread, *at), check, [0; 3])?;
            store(heap, *at, 0);
            tx.store8(at.plus(8), 1);
            Ok::<_, HeapError>(())
        });
        assert_eq!((done, IS_TORN.load(Ordering::Relaxed)), (Ok(()), false));
    }

    #[test]
    fn check_that_panics_keeps_reads_and_pin() {
        let (heap, at) = heap();
        let check: ReadCheck = |_, _| panic!("a check that panics");
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            heap.run(|tx| {
                tx.pin_to_end();
                let version = tx.read_version(at)?;
                assert!(tx.note_read(version, Read { guard: at, words: [0; 5] }, check)?);
                store(&heap, at, 1);
                // Compares the read, too.
                let caught = catch_unwind(AssertUnwindSafe(|| tx.read8(at)));
                assert!(caught.is_err() && !tx.attempt().reads().is_empty());
                tx.store8(at.plus(8), 1);
                Ok::<_, HeapError>(())
            })
        }));
        assert!(panicked.is_err(), "the commit compares the read");
        let readers = heap.shared().readers();
        readers.advance();
        assert_eq!(readers.oldest(), readers.advance(), "no pin is left");
    }

    #[test]
    fn shared_lock_does_not_hide_change() {
        let (heap, at) = heap();
        let stripe = heap.locks().stripe(at);
        let mut others = (1..).map(|number| at.plus(number * 64));
        let other = others.find(|other| heap.locks().stripe(*other) == stripe).unwrap();
        let done = heap.run(|tx| {
            let version = heap.lock_version(at);
            store(&heap, at, 1);
            tx.lock(other)?;
            assert_eq!(tx.lock_unchanged(at, version), Err(HeapError::Conflict));
            tx.lock_unchanged(at, heap.lock_version(at))
        });
        assert_eq!(done, Ok(()));
    }
}
