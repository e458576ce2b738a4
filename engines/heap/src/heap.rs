//! The heap: transactions and objects in a pool.

use crate::alloc::allocator::Allocator;
use crate::alloc::shared::Shared;
use crate::alloc::space::Space;
use crate::attempt::{Attempt, Sight, Words};
use crate::error::HeapError;
use crate::growth::{Growth, GrowthError, install};
use crate::later::LaterCommits;
use crate::locks::{LockTable, Stripe, Tag, Version};
use crate::pending_words::PendingWords;
use crate::readers::Pin;
use crate::session::Session;
use lode_layout::{Geometry, PoolOffset, WORD, decode_root, encode_root};
use lode_pmem::{Counter, FaultScope, Medium, Memory};
use lode_pool::Publish;
use lode_redo::{Log, LogArea, Phase};
use lode_redo::{OnCorruption, Recovery};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use xxhash_rust::xxh3::xxh3_64;

/// Transactions and objects in the pool on the medium `M`.
///
/// # Cost
/// A transaction that changes something: one drain. One that only reads: none.
#[derive(Debug)]
pub struct Heap<M: Medium> {
    number: u64,
    log: Log<M>,
    space: Space,
    shared: Arc<Shared>,
    locks: LockTable,
    /// Words of transactions that wait for their sync, at durability commit.
    pending: Option<Arc<PendingWords>>,
    /// The log's last sequence number when the heap was opened.
    opened_at: u64,
}

/// The state of memory when a read outside of transactions began.
#[derive(Clone, Copy, Debug)]
pub struct ReadMark(MemoryState);

#[derive(Clone, Copy, Debug)]
enum MemoryState {
    /// The version of the lock, which was open.
    Version(Version),
    /// The time between two write-backs.
    Phase(Phase),
}

impl<M: Medium> Heap<M> {
    /// Makes an empty heap in a pool whose chunk tables are zero.
    ///
    /// # Errors
    /// [`HeapError::InDoubt`] when the medium can't make it durable; [`HeapError::Fault`].
    ///
    /// # Durability
    /// Durable on return.
    pub fn format(
        medium: &M,
        geometry: &Geometry,
        uuid: &[u8; 16],
        log_epoch: [u64; 2],
    ) -> Result<(), HeapError> {
        let root_at = Space::new(geometry).root_at();
        FaultScope::run(|| {
            medium.store8(root_at, encode_root(PoolOffset::NULL));
            medium.flush(root_at, WORD);
        })?;
        Ok(Log::format(medium, LogArea::of(geometry), uuid, log_epoch)?)
    }

    /// Opens the heap of the pool `uuid`: replays the records of its last log epoch. The first change begins the log epoch
    /// `log_epoch`, a random number. On a private view the heap is read-only: a transaction that would change it fails
    /// with [`HeapError::ReadOnly`].
    ///
    /// # Errors
    /// As [`Log::recover`].
    ///
    /// # Cost
    /// That of the log. The heap itself is read when it is needed, so opening does not get slower with the number of
    /// objects.
    pub fn open(
        medium: M,
        geometry: &Geometry,
        uuid: [u8; 16],
        log_epoch: [u64; 2],
    ) -> Result<(Heap<M>, Recovery), HeapError> {
        Heap::open_with(medium, geometry, uuid, log_epoch, OnCorruption::Refuse)
    }

    /// Opens a heap whose log may be damaged. Replays the sound records, and drops the others.
    /// For `repair`, and for `check` in a private view, which it may change.
    ///
    /// # Errors
    /// [`HeapError::Fault`], [`HeapError::InDoubt`], and [`HeapError::Corrupt`] when the slots' numbers are
    /// exhausted.
    pub fn salvage(
        medium: M,
        geometry: &Geometry,
        uuid: [u8; 16],
        log_epoch: [u64; 2],
    ) -> Result<(Heap<M>, Recovery), HeapError> {
        Heap::open_with(medium, geometry, uuid, log_epoch, OnCorruption::Continue)
    }

    fn open_with(
        medium: M,
        geometry: &Geometry,
        uuid: [u8; 16],
        log_epoch: [u64; 2],
        on_corruption: OnCorruption,
    ) -> Result<(Heap<M>, Recovery), HeapError> {
        static NUMBER: Counter = Counter::new(0);
        let (mut log, recovery) =
            Log::recover_with(medium, LogArea::of(geometry), uuid, log_epoch, on_corruption)?;
        if on_corruption == OnCorruption::Refuse && log.medium().memory().is_private_view() {
            log.set_read_only();
        }
        let heap = Heap {
            number: NUMBER.add(1),
            opened_at: log.last_sequence(),
            pending: log.written_back().map(|last| Arc::new(PendingWords::new(Arc::clone(last)))),
            log,
            space: Space::new(geometry),
            shared: Arc::new(Shared::new()),
            locks: LockTable::new(),
        };
        Ok((heap, recovery))
    }

    /// Makes all transactions and write-backs durable, so the next opening has nothing to replay. A heap that is dropped
    /// instead leaves what a crash would leave.
    ///
    /// # Errors
    /// [`HeapError::Poisoned`] when a sync failed, now or before.
    pub fn close(self) -> Result<(), HeapError> {
        Ok(self.log.close()?)
    }

    /// Makes the pool grow by `growth` when a transaction finds no space. Later calls change nothing.
    pub fn set_growth(&self, growth: impl Growth + 'static) {
        self.shared.set_growth(Box::new(growth));
    }

    /// Takes part in a growth of the pool, as the `install` of [`Headers::grow_to`](lode_pool::Headers::grow_to).
    /// The caller makes no other growth meanwhile.
    ///
    /// # Errors
    /// Those of `publish`, and of [`Log::relocate`].
    pub fn install(&self, geometry: &Geometry, publish: &mut Publish<'_>) -> Result<(), GrowthError> {
        install(&self.log, &self.space, geometry, publish)
    }

    /// Returns the medium under the heap.
    #[inline]
    pub fn medium(&self) -> &M {
        self.log.medium()
    }

    /// Returns the mapped bytes, for [loads](Memory::reading).
    #[inline]
    pub fn memory(&self) -> &Memory {
        self.log.medium().memory()
    }

    /// Returns true if the heap lies in a private view of its pool. Only transactions that change nothing succeed
    /// then.
    pub fn is_read_only(&self) -> bool {
        self.log.is_read_only()
    }

    /// Returns an error if the heap is read-only.
    ///
    /// # Errors
    /// [`HeapError::ReadOnly`].
    pub fn check_writable(&self) -> Result<(), HeapError> {
        Ok(self.log.check_writable()?)
    }

    /// Returns a number that no other heap of the process has.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the log under the heap.
    pub fn log(&self) -> &Log<M> {
        &self.log
    }

    /// Returns the seed of the pool's hash maps, which follows from its UUID: a client of the program does not know it.
    pub(crate) fn hash_seed(&self) -> u64 {
        xxh3_64(self.log.uuid())
    }

    /// Returns the offset of the root object; [`PoolOffset::NULL`] while there is none.
    ///
    /// # Errors
    /// [`HeapError::Corrupt`] when the word that holds the offset is damaged; [`HeapError::Fault`].
    pub fn root(&self) -> Result<PoolOffset, HeapError> {
        let at = self.space.root_at();
        self.memory().try_reading(|memory| {
            let root = decode_root(memory.load8(at));
            root.ok_or(HeapError::Corrupt { what: "the word that says where the root is", at })
        })
    }

    /// Pins the calling thread. Objects that it can reach are kept until the pin is dropped.
    ///
    /// # Cost
    /// One locked instruction, none if the thread is pinned already. Blocks that are freed after a pin began are not
    /// used again before it ends.
    #[inline]
    pub fn pin(&self) -> Pin<'_> {
        self.shared.readers().pin()
    }

    /// Returns the version of the lock that guards `at`, for [`Tx::lock_unchanged`](crate::Tx::lock_unchanged).
    #[inline]
    pub fn lock_version(&self, at: PoolOffset) -> Version {
        self.locks.version(self.locks.stripe(at))
    }

    /// Begins a read of words in memory under the lock that guards `at`, outside of transactions. Returns `None` while
    /// another thread may store there.
    #[inline]
    pub fn begin_read(&self, at: PoolOffset) -> Option<ReadMark> {
        let version = self.lock_version(at);
        if version.is_held() {
            return self.begin_read_between_write_backs();
        }
        Some(ReadMark(MemoryState::Version(version)))
    }

    /// Begins a read under a lock that is held or pending. At durability commit, memory changes in write-backs alone.
    #[cold]
    fn begin_read_between_write_backs(&self) -> Option<ReadMark> {
        self.log.written_back()?.phase().map(|phase| ReadMark(MemoryState::Phase(phase)))
    }

    /// Returns true if words under the lock that guards `at` were not changed in memory since the read that begins with
    /// `mark`.
    #[inline]
    pub fn is_unchanged(&self, at: PoolOffset, mark: ReadMark) -> bool {
        match mark.0 {
            MemoryState::Version(version) => {
                // ORDER: the loads of the read come before that of the version. A write-back stores with release
                // ordering. A thread that sees such a store also sees that the writer holds the lock, or a later version.
                fence(Ordering::Acquire);
                self.lock_version(at) == version
            }
            MemoryState::Phase(phase) => self.log.written_back().is_some_and(|last| last.is_in(phase)),
        }
    }

    #[inline]
    pub(crate) fn session(&self) -> Rc<Session> {
        Session::of(self.number, &self.shared)
    }

    /// Returns true if the calling thread is in a transaction on this heap.
    #[inline]
    pub fn in_transaction(&self) -> bool {
        self.session().is_active()
    }

    /// Returns true if the calling thread is in a transaction that holds the lock that guards `at`.
    pub(crate) fn holds_lock(&self, at: PoolOffset) -> bool {
        let session = self.session();
        session.is_active() && session.attempt().holds(self.locks.stripe(at))
    }

    /// Returns the allocator for the calling thread, whose session is `session`.
    #[inline]
    pub(crate) fn allocator<'a>(&'a self, session: &'a Session) -> Allocator<'a, M> {
        Allocator::new(&self.log, &self.space, &self.shared, session.cache(), session.starved())
    }

    /// Reclaims the space that pins kept from the thread's last transaction, if that was refused for lack of space.
    /// Returns true if another attempt is worthwhile.
    #[cold]
    pub(crate) fn reclaim(&self) -> bool {
        let session = self.session();
        // A transaction that is in doubt must not be run again: the answer would be that nothing has changed.
        if !session.starved().get() || self.log.begin_epoch().is_err() {
            return false;
        }
        let has_freed = self.finish_all();
        self.allocator(&session).reclaim_after_out_of_space() || has_freed
    }

    /// Makes free chunks of all freed space that no reader holds.
    pub(crate) fn reclaim_all(&self) -> Result<(), HeapError> {
        self.allocator(&self.session()).reclaim_all()
    }

    /// Makes the pool larger for `wanted` bytes, as if a transaction had found none. Returns false if it does not grow.
    #[cfg(feature = "explore")]
    pub(crate) fn grow(&self, wanted: u64) -> Result<bool, HeapError> {
        self.allocator(&self.session()).grow_locked(wanted)
    }

    /// Returns the number of the transaction `sequence` of the log, counted from the opening of the heap.
    #[inline]
    pub(crate) fn number_of(&self, sequence: u64) -> u64 {
        sequence.wrapping_sub(self.opened_at)
    }

    /// Returns the sequence number in the log of the transaction `number`, counted from the opening of the heap.
    #[inline]
    pub(crate) fn sequence_of(&self, number: u64) -> u64 {
        number.wrapping_add(self.opened_at)
    }

    /// Returns the words of transactions that wait for their sync, at durability commit.
    pub(crate) fn pending(&self) -> Option<&Arc<PendingWords>> {
        self.pending.as_ref()
    }

    /// Returns the transactions that returned before their sync.
    pub(crate) fn later(&self) -> &LaterCommits {
        self.shared.later()
    }

    /// Returns true if a transaction has returned and waits for its sync.
    #[inline]
    pub(crate) fn has_later(&self) -> bool {
        self.log.written_back().is_some_and(|written_back| self.later().are_waiting(written_back))
    }

    /// Opens a lock that is pending for a transaction that was written back. Returns true if `version` of the lock is
    /// pending, and words under it wait for their sync.
    #[cold]
    pub(crate) fn is_pending(&self, stripe: Stripe, version: Version) -> bool {
        if !version.is_pending() {
            return false;
        }
        let number = version.number();
        let is_settled = self.log.written_back().is_none_or(|last| last.is_settled(self.sequence_of(number)));
        if is_settled {
            self.locks.settle(stripe, number);
        }
        !is_settled
    }

    /// Returns what a transaction whose end is open leaves under its locks.
    pub(crate) fn in_doubt(&self) -> Words {
        let last = self.last_commit();
        if self.pending.is_some() { Words::InDoubt(last) } else { Words::Changed(last) }
    }

    /// Takes a lock that is pending in that `version`, for an attempt that waits for pending words, and returns when they
    /// are written back. Returns false if another thread was faster.
    #[cold]
    pub(crate) fn lock_written_back(
        &self,
        attempt: &mut Attempt,
        stripe: Stripe,
        tag: Tag,
        version: Version,
    ) -> bool {
        let taken = attempt.sight() == Sight::Durable
            && self.is_pending(stripe, version)
            && attempt.try_lock_pending(&self.locks, stripe, tag, version);
        if taken {
            // After a failed sync memory stays as it is.
            let _ = self.log.wait_written_back(self.sequence_of(version.number()));
            self.locks.clear_pending(stripe);
        }
        taken
    }

    /// Returns true if words under the lock, whose version is `version`, wait for their sync, and the attempt does not
    /// see such words. Unless it is to wait for them, its closure then starts again.
    #[inline]
    pub(crate) fn meets_pending(&self, attempt: &mut Attempt, stripe: Stripe, version: Version) -> bool {
        let meets = version.is_pending() && attempt.sees_memory() && self.is_pending(stripe, version);
        if meets && attempt.sight() == Sight::Memory {
            attempt.restart_to_see_pending();
        }
        meets
    }

    /// Returns the space of the heap on the medium.
    #[inline]
    pub(crate) fn space(&self) -> &Space {
        &self.space
    }

    /// Returns the part of the heap that all threads share in DRAM.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Returns the locks of words in the pool.
    #[inline]
    pub(crate) fn locks(&self) -> &LockTable {
        &self.locks
    }
}

impl<M: Medium> Drop for Heap<M> {
    fn drop(&mut self) {
        Session::end(self.number);
    }
}
