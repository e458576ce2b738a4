//! A running transaction, as its closure sees it.

use crate::alloc::allocations::{PAYLOAD_MIN, checked_align};
use crate::alloc::allocator::Allocator;
use crate::attempt::{Attempt, LockSavepoint, Outcome};
use crate::error::HeapError;
use crate::heap::Heap;
use crate::locks::{Tag, Version};
use crate::session::Session;
use lode_layout::{LINE, PoolOffset, WORD, align_up, decode_root, encode_root};
use lode_pmem::{Durability, Medium, Readable};
use std::cell::RefMut;
use std::fmt;
use zerocopy::IntoBytes;

/// Words in the log that a transaction may have whatever space is free, if they fit in a record.
pub const WORDS_UNCHECKED_MAX: u64 = 4096;
/// Words of a line.
const LINE_WORDS: u64 = LINE / WORD;
/// Maximum number of words by which a store of some words takes more in the log, apart from one for each whole line:
/// two lines that are not whole, and the bytes of a word at each end.
const ENDS_WORDS_MAX: u64 = 2 + 2 * 3;
/// Rounds for which a transaction waits for a lock that comes after all locks that it holds.
const LOCK_ROUNDS_MAX: u32 = 1 << 14;
/// Rounds for which a transaction waits for a lock that comes before one that it holds. Every deadlock has such a
/// transaction, and it gives up before any transaction of the cycle sleeps.
const INVERTED_LOCK_ROUNDS_MAX: u32 = 96;
/// Rounds for which the senior waits for a lock, some seconds. Its holder gives up after the rounds above, unless it
/// waits for something outside of this heap, perhaps for this very transaction.
const SENIOR_LOCK_ROUNDS_MAX: u32 = 1 << 17;

/// A transaction. It sees its own stores at once; other threads see them when they are durable.
///
/// Stores outside of the heap's space raise a [`Fault`](lode_pmem::Fault). The transaction then fails with it.
pub struct Tx<'a, M: Medium> {
    heap: &'a Heap<M>,
    session: &'a Session,
    /// The pool's bytes, inside of the transaction's scope of faults.
    memory: &'a Readable,
}

impl<M: Medium> fmt::Debug for Tx<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tx").finish_non_exhaustive()
    }
}

impl<'a, M: Medium> Tx<'a, M> {
    #[inline]
    pub(crate) fn new(heap: &'a Heap<M>, session: &'a Session, memory: &'a Readable) -> Tx<'a, M> {
        Tx { heap, session, memory }
    }

    /// Returns the running attempt.
    #[inline]
    pub(crate) fn attempt(&self) -> RefMut<'_, Attempt> {
        self.session.attempt()
    }

    /// Returns the allocator.
    #[inline]
    pub(crate) fn allocator(&self) -> Allocator<'_, M> {
        self.heap.allocator(self.session)
    }

    /// Returns the heap.
    #[inline]
    pub fn heap(&self) -> &Heap<M> {
        self.heap
    }

    /// Returns the pool's bytes without the transaction's own changes, and at durability commit without those of others
    /// that wait for their sync: [`sees_memory`](Tx::sees_memory) tells whether they are what the transaction sees. Loads that fail
    /// count as faults of the transaction.
    #[inline]
    pub fn memory(&self) -> &Readable {
        self.memory
    }

    /// Returns the aligned word at `at` as the transaction sees it. The read is not validated: when the transaction
    /// commits, the word may be another one, unless the transaction holds the word's lock. [`read8`](Tx::read8)
    /// validates.
    #[inline]
    pub fn load8(&self, at: PoolOffset) -> u64 {
        self.attempt().writes().load8(self.memory, at)
    }

    /// Loads the words from `at` on, as [`load8`](Tx::load8) loads each of them. Looks up the transaction's own changes once
    /// a line.
    #[inline]
    pub fn load_words(&self, at: PoolOffset, words: &mut [u64]) {
        self.attempt().writes().load_words(self.memory, at, words);
    }

    /// Returns the words from `at` on, as [`load_words`](Tx::load_words) loads them.
    #[inline]
    pub(crate) fn words<const N: usize>(&self, at: PoolOffset) -> [u64; N] {
        let mut words = [0; N];
        self.load_words(at, &mut words);
        words
    }

    /// Copies the range that begins at `at`, as the transaction sees it. Not validated, like [`load8`](Tx::load8).
    #[inline]
    pub fn read(&self, at: PoolOffset, into: &mut [u8]) {
        self.attempt().writes().read(self.memory, at, into);
    }

    /// Returns true if the transaction has stored nothing yet.
    #[inline]
    pub fn is_clean(&self) -> bool {
        self.attempt().is_clean()
    }

    /// Returns true if the transaction sees what lies in the pool: it has stored nothing yet, and sees no words of others
    /// that wait for their sync.
    #[inline]
    pub fn sees_memory(&self) -> bool {
        let attempt = self.attempt();
        attempt.is_clean() && attempt.sees_memory()
    }

    /// Returns true if the transaction sees words of others that wait for their sync.
    pub fn sees_pending(&self) -> bool {
        !self.attempt().sees_memory()
    }

    /// Returns a number that grows with each change of the transaction.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.attempt().writes().changes()
    }

    /// Stores an aligned word. Takes no lock: another transaction sees that the word has changed only if this one
    /// holds the word's [`lock`](Tx::lock).
    #[inline]
    pub fn store8(&self, at: PoolOffset, value: u64) {
        let attempt = &mut *self.attempt();
        if self.admit(attempt, at, WORD, at.get().is_multiple_of(WORD), WORD) {
            self.heap.memory().prefetch_store(at);
            attempt.writes().store8(self.heap.medium(), at, value);
        }
    }

    /// Stores words to an aligned place.
    #[inline]
    pub fn store_words(&self, at: PoolOffset, words: &[u64]) {
        let attempt = &mut *self.attempt();
        let len = words.len() as u64 * WORD;
        if self.admit(attempt, at, len, at.get().is_multiple_of(WORD), len) {
            self.heap.memory().prefetch_store(at);
            attempt.writes().store_words(self.heap.medium(), at, words);
        }
    }

    /// Stores bytes at any offset.
    #[inline]
    pub fn store(&self, at: PoolOffset, bytes: &[u8]) {
        let attempt = &mut *self.attempt();
        if self.admit(attempt, at, bytes.len() as u64, true, bytes.len() as u64) {
            self.heap.memory().prefetch_store(at);
            attempt.writes().store_bytes(self.heap.medium(), at, bytes);
        }
    }

    /// Stores bytes to an aligned place, and zeros after them up to the next word.
    #[inline]
    pub(crate) fn store_padded(&self, at: PoolOffset, bytes: &[u8]) {
        let attempt = &mut *self.attempt();
        let len = bytes.len().next_multiple_of(WORD as usize) as u64;
        if self.admit(attempt, at, len, at.get().is_multiple_of(WORD), len) {
            self.heap.memory().prefetch_store(at);
            attempt.writes().store_padded(self.heap.medium(), at, bytes);
        }
    }

    /// Makes `len` bytes zero. Takes no log space for them.
    pub fn zero(&self, at: PoolOffset, len: u64) {
        let attempt = &mut *self.attempt();
        // The record's length counts, and there a run of zeros takes a few words, however long it is.
        if self.admit(attempt, at, len, true, 0) {
            attempt.writes().zero(self.heap.medium(), at, len);
        }
    }

    /// Returns true if the store is inside of the heap, and if `logged` more bytes in the record are within the limit
    /// of the transaction.
    #[inline]
    fn admit(&self, attempt: &mut Attempt, at: PoolOffset, len: u64, aligned: bool, logged: u64) -> bool {
        if !self.heap.space().holds(at, len) || !aligned {
            self.memory.raise_out_of_range(at, len);
            return false;
        }
        let writes = attempt.writes();
        if writes.has_payloads() {
            let words_max = self.heap.log().record_words_max() as u64;
            writes.log_payloads(self.heap.medium(), self.memory, at, len, words_max);
        }
        let logged = logged.div_ceil(WORD);
        writes.log_words() + logged <= WORDS_UNCHECKED_MAX || self.admit_long(attempt, at, logged)
    }

    /// Makes the transaction long if its record would be too long with `logged` more words. Returns true if the log may
    /// have those words, or if none are needed because `at` lies in a span of the transaction.
    #[cold]
    fn admit_long(&self, attempt: &mut Attempt, at: PoolOffset, logged: u64) -> bool {
        let writes = attempt.writes();
        if !writes.fits_in_record(self.heap.log().record_words_max() as u64, logged) {
            writes.make_long(self.heap.medium());
            if writes.stores_in_place(at) {
                return true;
            }
        }
        let more = if logged == 0 { 0 } else { logged + logged / LINE_WORDS + ENDS_WORDS_MAX };
        let words = writes.log_words() + more;
        attempt.allows_words(self.allocator(), words)
    }

    /// Makes the transaction long if its record has become too long by entries of the allocator.
    #[inline]
    fn bound_record(&self, attempt: &mut Attempt) {
        if attempt.writes().log_words() > WORDS_UNCHECKED_MAX {
            self.admit_long(attempt, PoolOffset::NULL, 0);
        }
    }

    /// Makes the object at `at` the root, from which all others are reached. Takes the root's lock. If another
    /// transaction keeps it, the closure is started again.
    pub fn set_root(&self, at: PoolOffset) {
        if self.lock_root().is_err() {
            return;
        }
        let attempt = &mut *self.attempt();
        attempt.writes().store8(self.heap.medium(), self.heap.space().root_at(), encode_root(at));
    }

    /// Takes the lock that guards `at` until the transaction is over.
    ///
    /// # Errors
    /// [`HeapError::Conflict`] when another transaction keeps it; [`HeapError::TooLarge`] when the transaction is too large, so that it
    /// stores nothing any more, and holds the lock.
    #[inline]
    pub fn lock(&self, at: PoolOffset) -> Result<(), HeapError> {
        let locks = self.heap.locks();
        let stripe = locks.stripe(at);
        {
            let attempt = &mut *self.attempt();
            if !attempt.holds(stripe) {
                let version = locks.version(stripe);
                if attempt.try_lock(locks, stripe, Tag::of(at), version) {
                    return self.join_snapshot(attempt, version);
                }
            }
        }
        self.lock_slow(at)
    }

    #[cold]
    fn lock_slow(&self, at: PoolOffset) -> Result<(), HeapError> {
        let locks = self.heap.locks();
        let (stripe, tag) = (locks.stripe(at), Tag::of(at));
        for round in 0.. {
            let attempt = &mut *self.attempt();
            if let Outcome::TooLarge { wanted, limit } = attempt.outcome() {
                // A closure that removes what it finds until nothing is left must come to an end.
                return Err(HeapError::TooLarge { wanted, limit });
            }
            if attempt.holds(stripe) {
                locks.hold_also(stripe, tag);
                return Ok(());
            }
            let version = locks.version(stripe);
            if attempt.try_lock(locks, stripe, tag, version) {
                return self.join_snapshot(attempt, version);
            }
            if self.heap.meets_pending(attempt, stripe, version) {
                if attempt.wants_pending() {
                    return Err(HeapError::Conflict);
                }
                if self.heap.lock_written_back(attempt, stripe, tag, version) {
                    return self.join_snapshot(attempt, version);
                }
            }
            let is_inversion = attempt.inverts_lock_order(stripe);
            let rounds_max = if attempt.is_senior() {
                locks.set_wanted(Some(stripe));
                SENIOR_LOCK_ROUNDS_MAX
            } else if is_inversion || locks.has_senior() {
                // The senior does not give up. If it waits for this transaction, this one does.
                INVERTED_LOCK_ROUNDS_MAX
            } else {
                LOCK_ROUNDS_MAX
            };
            if round >= rounds_max {
                attempt.conflict(is_inversion);
                return Err(HeapError::Conflict);
            }
            self.heap.medium().relax(round);
        }
        unreachable!("the loop ends with the lock or a conflict")
    }

    /// Takes the lock that guards `at` if no thread held it since its version was `version`. If so, words under the
    /// lock that were read since then have not changed.
    ///
    /// # Errors
    /// [`HeapError::Conflict`] when the version has changed; the caller reads again, or passes it on.
    #[inline]
    pub fn lock_unchanged(&self, at: PoolOffset, version: Version) -> Result<(), HeapError> {
        if self.try_lock_unchanged(at, version)? { Ok(()) } else { Err(self.lock_failed(at)) }
    }

    /// Makes the closure start again if the lock, which could not be taken, is pending. An attempt that waits for pending
    /// words takes the lock instead; the caller reads again all the same.
    #[cold]
    fn lock_failed(&self, at: PoolOffset) -> HeapError {
        let stripe = self.heap.locks().stripe(at);
        let (attempt, version) = (&mut *self.attempt(), self.heap.locks().version(stripe));
        if self.heap.meets_pending(attempt, stripe, version)
            && self.heap.lock_written_back(attempt, stripe, Tag::of(at), version)
            && let Err(error) = self.join_snapshot(attempt, version)
        {
            return error;
        }
        HeapError::Conflict
    }

    /// Takes the lock as [`lock_unchanged`](Tx::lock_unchanged) does. Returns false when its version has changed, or when
    /// words under it wait for their sync and the transaction does not see them. The caller may take another lock
    /// instead.
    ///
    /// # Errors
    /// [`HeapError::Conflict`] when the words do not go with what the transaction has read before.
    #[inline]
    pub fn try_lock_unchanged(&self, at: PoolOffset, version: Version) -> Result<bool, HeapError> {
        let locks = self.heap.locks();
        let (stripe, tag) = (locks.stripe(at), Tag::of(at));
        let attempt = &mut *self.attempt();
        if attempt.holds(stripe) {
            // It may have been taken for another offset, after the words under it had changed, or after words that were
            // pending then had come to memory.
            let was_seen = !(version.is_pending() && attempt.sees_memory());
            let is_unchanged = was_seen && locks.version(stripe).number() == version.number();
            if is_unchanged {
                locks.hold_also(stripe, tag);
            }
            return Ok(is_unchanged);
        }
        let taken = attempt.try_lock(locks, stripe, tag, version);
        if taken {
            self.join_snapshot(attempt, version)?;
        }
        Ok(taken)
    }

    /// Makes what is read under a lock that was just taken, and whose version was `version`, go with what was read
    /// before.
    #[inline]
    fn join_snapshot(&self, attempt: &mut Attempt, version: Version) -> Result<(), HeapError> {
        if attempt.is_senior() {
            self.heap.locks().set_wanted(None);
        }
        if attempt.reads().is_empty() {
            return Ok(());
        }
        self.heap.extend_snapshot(attempt, self.memory, version.number())
    }

    /// Returns the offset of the root object as the transaction sees it; [`PoolOffset::NULL`] while there is none.
    ///
    /// # Errors
    /// [`HeapError::Conflict`] as [`read8`](Tx::read8); [`HeapError::Corrupt`] when the word that holds the offset is
    /// damaged.
    pub fn root(&self) -> Result<PoolOffset, HeapError> {
        let at = self.heap.space().root_at();
        let what = "the word that says where the root is";
        decode_root(self.read8(at)?).ok_or(HeapError::Corrupt { what, at })
    }

    /// Takes the lock of the word that holds the root's offset.
    pub(crate) fn lock_root(&self) -> Result<(), HeapError> {
        self.lock(self.heap.space().root_at())
    }

    /// Keeps the transaction from committing, because one part of a step failed and another part is done.
    pub fn set_rollback_only(&self) {
        self.attempt().escalate(Outcome::RollbackOnly);
    }

    /// Returns true if the transaction will be rolled back, whatever else it does. It may then see only a part of what it
    /// has stored.
    pub fn will_roll_back(&self) -> bool {
        self.attempt().outcome() != Outcome::Running
    }

    /// Returns true if the closure starts again, whatever it returns.
    pub fn will_restart(&self) -> bool {
        matches!(self.attempt().outcome(), Outcome::Conflict { .. })
    }

    /// Returns true if the reads of this transaction take locks, because it was restarted often, or is begun and has
    /// waited for words of others.
    #[inline]
    pub fn locks_reads(&self) -> bool {
        self.attempt().locks_reads()
    }

    /// Returns true if this transaction holds the lock that guards `at`.
    pub fn holds_lock(&self, at: PoolOffset) -> bool {
        self.attempt().holds(self.heap.locks().stripe(at))
    }

    /// Notes the locks that are held, for [`unlock_since`](Tx::unlock_since).
    #[inline]
    pub fn lock_savepoint(&self) -> LockSavepoint {
        self.attempt().lock_savepoint()
    }

    /// Releases the locks that were taken since `savepoint`. For optimistic readers that start again. If the
    /// transaction has stored anything since, all its locks stay until it is over: other threads must not see its
    /// stores before.
    pub fn unlock_since(&self, savepoint: LockSavepoint) {
        self.attempt().unlock_since(self.heap.locks(), savepoint);
    }

    /// Makes the closure start again, as after a conflict. The closure passes the error on.
    pub fn restart(&self) -> HeapError {
        self.attempt().escalate(Outcome::Conflict { is_inversion: false });
        HeapError::Conflict
    }

    /// Allocates an object of at least `size` bytes. Its content is undefined: an object freed there before may show.
    /// `align` is a power of two up to 4096.
    ///
    /// # Errors
    /// [`HeapError::OutOfSpace`], [`HeapError::Alignment`], [`HeapError::ReadOnly`].
    ///
    /// # Cost
    /// 16 bytes of the record; now and then those of a new superblock's header.
    #[inline]
    pub fn alloc(&self, size: u64, align: u64, type_number: u64) -> Result<PoolOffset, HeapError> {
        let attempt = &mut *self.attempt();
        let (space, writes) = attempt.space_and_writes();
        let allocated = space.alloc(self.allocator(), writes, size, align, type_number);
        self.bound_record(attempt);
        allocated
    }

    /// Allocates an object that is all zeros.
    ///
    /// # Errors
    /// As [`alloc`](Tx::alloc).
    pub fn alloc_zeroed(&self, size: u64, align: u64, type_number: u64) -> Result<PoolOffset, HeapError> {
        let at = self.alloc(size, align, type_number)?;
        self.zero(at, align_up(size, WORD));
        Ok(at)
    }

    /// Allocates an object that begins with `content`.
    ///
    /// # Errors
    /// As [`alloc`](Tx::alloc).
    ///
    /// # Cost
    /// Content above 1 KiB is written once, in place, under the transaction's one drain. At durability commit it goes
    /// through the log.
    pub fn alloc_with(&self, content: &[u64], align: u64, type_number: u64) -> Result<PoolOffset, HeapError> {
        let len = content.len() as u64 * WORD;
        let at = self.alloc(len, align, type_number)?;
        self.store_new(at, content);
        Ok(at)
    }

    /// Allocates an object that begins with these bytes, and with zeros up to the next word, as
    /// [`alloc_with`](Tx::alloc_with) does.
    pub(crate) fn alloc_with_bytes(
        &self,
        content: &[u8],
        align: u64,
        type_number: u64,
    ) -> Result<PoolOffset, HeapError> {
        let mut words = vec![0; content.len().div_ceil(WORD as usize)];
        words.as_mut_bytes()[..content.len()].copy_from_slice(content);
        self.alloc_with(&words, align, type_number)
    }

    /// Allocates an object with these bytes, which are in place at once, so that references to it can be lent: only this
    /// transaction reaches the object until it is durable.
    pub(crate) fn alloc_in_place(
        &self,
        bytes: &[u8],
        align: u64,
        type_number: u64,
    ) -> Result<PoolOffset, HeapError> {
        if self.is_payload(bytes.len() as u64) {
            return self.alloc_with_bytes(bytes, align, type_number);
        }
        let at = self.alloc(bytes.len() as u64, align, type_number)?;
        self.store(at, bytes);
        self.heap.medium().store(at, bytes);
        Ok(at)
    }

    /// Returns true if a new object of this length is stored in place, and not through the log.
    fn is_payload(&self, len: u64) -> bool {
        len > PAYLOAD_MIN && matches!(self.heap.medium().durability(), Durability::Line | Durability::Byte)
    }

    /// Stores the first content of the object at `at`, which was just allocated.
    fn store_new(&self, at: PoolOffset, content: &[u64]) {
        let len = content.len() as u64 * WORD;
        if !self.is_payload(len) {
            return self.store_words(at, content);
        }
        // No reader and no record uses the space: freed blocks of this size waited for readers and for the
        // checkpoint. If the transaction fails, the space is free again and its content does not matter.
        self.heap.medium().copy(at, content.as_bytes());
        let crc = crc32c::crc32c(content.as_bytes());
        self.attempt().writes().payload(at, len, crc);
    }

    /// Frees the object that begins at `at`.
    ///
    /// # Errors
    /// [`HeapError::NoObject`] when no allocated object begins there; [`HeapError::Corrupt`].
    ///
    /// # Cost
    /// 16 bytes of the record.
    pub fn free(&self, at: PoolOffset) -> Result<(), HeapError> {
        let attempt = &mut *self.attempt();
        let (space, writes) = attempt.space_and_writes();
        let freed = space.free(self.allocator(), self.memory, writes, at);
        self.bound_record(attempt);
        freed
    }

    /// Returns the bytes that the object at `at` can hold, at least those that were asked for.
    ///
    /// # Errors
    /// As [`free`](Tx::free).
    pub fn usable_size(&self, at: PoolOffset) -> Result<u64, HeapError> {
        self.object(at).map(|(size, _)| size)
    }

    /// Returns the bytes that the object at `at` can hold, and its type number.
    ///
    /// # Errors
    /// As [`free`](Tx::free).
    pub fn object(&self, at: PoolOffset) -> Result<(u64, u64), HeapError> {
        let attempt = &mut *self.attempt();
        let (space, writes) = attempt.space_and_writes();
        space.object(self.heap.space(), self.memory, writes, at)
    }

    /// Makes the object at `at` hold at least `size` bytes. Moves it with its content if it must. Returns its offset
    /// after that.
    ///
    /// # Errors
    /// As [`alloc`](Tx::alloc) and [`free`](Tx::free). An object that has the alignment already never fails to shrink
    /// for lack of space: it stays in place.
    ///
    /// # Cost
    /// That of [`alloc_with`](Tx::alloc_with), if it moves.
    pub fn resize(&self, at: PoolOffset, size: u64, align: u64) -> Result<PoolOffset, HeapError> {
        let (usable, type_number) = self.object(at)?;
        let holds = size <= usable && at.get().is_multiple_of(checked_align(align)?);
        if holds && (size >= usable / 2 || usable <= 64) {
            return Ok(at);
        }
        let moved = match self.alloc(size, align, type_number) {
            // A smaller block would only have freed some space.
            Err(error) if holds && error.is_out_of_space() => return Ok(at),
            moved => moved?,
        };
        let mut content = vec![0u64; (size.min(usable) / WORD) as usize];
        self.read(at, content.as_mut_bytes());
        self.store_new(moved, &content);
        let rest = size.min(usable) % WORD;
        if rest > 0 {
            let mut tail = [0; WORD as usize];
            let from = content.len() as u64 * WORD;
            self.read(at.plus(from), &mut tail[..rest as usize]);
            self.store(moved.plus(from), &tail[..rest as usize]);
        }
        self.free(at).inspect_err(|_| self.set_rollback_only())?;
        Ok(moved)
    }
}

#[cfg(all(test, not(loom)))]
mod test {
    use super::*;
    use lode_layout::Geometry;

    /// An object that a thread has looked up is looked up again when its span was freed, and when it holds another object.
    #[test]
    fn freed_span_is_not_the_object_that_it_was() -> Result<(), HeapError> {
        const LEN: u64 = 1 << 20;
        let (medium, geometry) =
            (lode_testing::memory::volatile(LEN), Geometry::plan(LEN).expect("a geometry"));
        Heap::format(&medium, &geometry, &[1; 16], [1, 1])?;
        let (heap, _) = Heap::open(medium, &geometry, [1; 16], [2, 2])?;
        let object = |at| heap.run(|tx| tx.object(at));
        let at = heap.run(|tx| tx.alloc(40_000, 16, 5))?;
        assert!(object(at).is_ok_and(|(size, number)| size >= 40_000 && number == 5));
        heap.run(|tx| tx.free(at))?;
        assert_eq!(object(at), Err(HeapError::NoObject { at }));
        let mut others = std::iter::repeat_with(|| heap.run(|tx| tx.alloc(40_000, 16, 6)));
        let found = others.find(|other| other.is_err() || *other == Ok(at));
        assert_eq!(found, Some(Ok(at)), "the space is used again before the pool is full");
        assert!(object(at).is_ok_and(|(size, number)| size >= 40_000 && number == 6));
        Ok(())
    }
}
