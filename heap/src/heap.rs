//! The heap: transactions over a pool's space.

use crate::alloc::cache::{Cache, ThreadCache};
use crate::alloc::limbo::{Freed, Limbo, SharedLimbo};
use crate::alloc::{Central, Space};
use crate::biased::Hold;
use crate::bugs;
use crate::error::HeapError;
use crate::locks::{LockTable, Version};
use crate::log::{Damaged, Log, LogArea, Recovery};
use crate::readers::{Pin, Readers};
use crate::session::{Inherit, Session, State};
use crate::sync::{AtomicBool, AtomicUsize, Mutex, MutexGuard, SpinMutex, pause};
use crate::tx::Tx;
use lode_layout::{CHUNK, Entry, Geometry, PoolOffset, Record, WORD, align_up, decode_root, encode_root};
use lode_pmem::{FaultScope, Medium, Memory, Rung};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use zerocopy::IntoBytes;

/// Highest waiting round that a transaction passes to [`Medium::relax`] before it starts again.
const BACKOFF_ROUNDS_MAX: u32 = 256;

/// Maximum number of retries of a transaction that found no space, if its end may have made some free.
const RETRIES: u32 = 2;

/// The part of a heap that outlives its threads and is in DRAM only.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) central: Central,
    pub(crate) limbo: Mutex<SharedLimbo>,
    pub(crate) readers: Readers,
    /// The caches of all threads that have one.
    pub(crate) caches: Mutex<Vec<Arc<ThreadCache>>>,
    /// Held by the thread that reclaims. Threads only try it, and never block on it.
    pub(crate) reclaiming: SpinMutex<()>,
    /// True while a thread reclaims because there is no space. Threads then fetch no more blocks than they need at
    /// once.
    pub(crate) is_short: AtomicBool,
    /// Threads that wait inside of a transaction until they can reclaim. Their pins keep freed space from use.
    pub(crate) stuck: AtomicUsize,
}

impl Shared {
    pub(crate) fn limbo(&self) -> MutexGuard<'_, SharedLimbo> {
        self.limbo.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn caches(&self) -> MutexGuard<'_, Vec<Arc<ThreadCache>>> {
        self.caches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves all blocks of a cache to where all threads can take them. Freed ones wait there until no reader can hold
    /// them. Returns true if there were free blocks.
    pub(crate) fn empty(&self, cache: &mut Cache) -> bool {
        let mut any = false;
        for (key, blocks) in cache.magazines.take_all() {
            any |= !blocks.is_empty();
            self.central.give_blocks(key, blocks.into_iter());
        }
        self.bury(&mut cache.limbo);
        any
    }

    /// Moves the blocks that a thread has freed to the shared limbo. They wait there until no reader can hold them.
    fn bury(&self, limbo: &mut Limbo) {
        let (young, (old_epoch, old)) = (limbo.take_young(), limbo.take_old());
        // The young ones were freed before this call; more is not known of them.
        let young_epoch = if young.is_empty() { 0 } else { self.readers.advance() };
        if young.is_empty() && old.is_empty() {
            return;
        }
        let mut waiting = self.limbo();
        for (epoch, blocks) in [(old_epoch, old), (young_epoch, young)] {
            // Sequence 0: small blocks do not wait for a checkpoint.
            blocks.into_iter().for_each(|(key, block)| waiting.add(0, epoch, Freed::Block(key, block)));
        }
    }
}

impl Inherit for Shared {
    fn add_cache(&self) -> Arc<ThreadCache> {
        let cache = Arc::new(ThreadCache::new());
        self.caches().push(Arc::clone(&cache));
        cache
    }

    fn inherit(&self, cache: &Arc<ThreadCache>) {
        for mut cache in ThreadCache::lock_all(std::slice::from_ref(cache), pause) {
            self.empty(&mut cache);
        }
        self.caches().retain(|other| !Arc::ptr_eq(other, cache));
    }
}

/// Transactions and objects in the pool on the medium `M`.
///
/// # Cost
/// A transaction that changes something: one drain. One that only reads: none.
#[derive(Debug)]
pub struct Heap<M: Medium> {
    number: u64,
    pub(crate) log: Log<M>,
    pub(crate) space: Space,
    pub(crate) shared: Arc<Shared>,
    pub(crate) locks: LockTable,
}

impl<M: Medium> Heap<M> {
    /// Makes an empty heap in a pool whose chunk tables are zero.
    ///
    /// # Errors
    /// [`HeapError::InDoubt`] when the medium can't make it durable; [`HeapError::Fault`].
    ///
    /// # Durability
    /// Durable on return.
    pub fn format(medium: &M, geometry: &Geometry, uuid: &[u8; 16], life: [u64; 2]) -> Result<(), HeapError> {
        let root_at = Space::new(geometry).root_at();
        FaultScope::around(|| {
            medium.store8(root_at, encode_root(PoolOffset::NULL));
            medium.flush(root_at, WORD);
        })?;
        Log::format(medium, log_area(geometry), uuid, life)
    }

    /// Opens the heap of the pool `uuid`: replays the records of its last life, and begins the life `life`, a random
    /// number. On a private view the heap is read-only: a transaction that would change it fails with
    /// [`HeapError::ReadOnly`].
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
        life: [u64; 2],
    ) -> Result<(Heap<M>, Recovery), HeapError> {
        Heap::open_with(medium, geometry, uuid, life, Damaged::Refuse)
    }

    /// Opens a heap whose log may be damaged. Replays the sound records, drops the others, and begins a new life. For
    /// `repair`, and for `check` in a private view, which it may change.
    ///
    /// # Errors
    /// [`HeapError::Fault`], [`HeapError::InDoubt`], and [`HeapError::Corrupt`] when the slots' numbers are
    /// exhausted.
    pub fn salvage(
        medium: M,
        geometry: &Geometry,
        uuid: [u8; 16],
        life: [u64; 2],
    ) -> Result<(Heap<M>, Recovery), HeapError> {
        Heap::open_with(medium, geometry, uuid, life, Damaged::GoOn)
    }

    fn open_with(
        medium: M,
        geometry: &Geometry,
        uuid: [u8; 16],
        life: [u64; 2],
        damaged: Damaged,
    ) -> Result<(Heap<M>, Recovery), HeapError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let (mut log, recovery) = Log::restart(medium, log_area(geometry), uuid, life, damaged)?;
        if damaged == Damaged::Refuse && log.medium().memory().is_private_view() {
            log.refuse_changes();
        }
        let limbo = Mutex::new(SharedLimbo::default());
        let (central, readers, reclaiming) = (Central::default(), Readers::new(), SpinMutex::new(()));
        let (caches, is_short, stuck) = (Mutex::new(Vec::new()), AtomicBool::new(false), AtomicUsize::new(0));
        let shared = Shared { central, limbo, readers, caches, reclaiming, is_short, stuck };
        let heap = Heap {
            // ORDER: none: the number is only different from all others.
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            log,
            space: Space::new(geometry),
            shared: Arc::new(shared),
            locks: LockTable::new(),
        };
        Ok((heap, recovery))
    }

    /// Makes everything durable at home, so the next opening has nothing to replay.
    ///
    /// # Errors
    /// [`HeapError::Poisoned`] when a sync failed, now or before.
    pub fn close(self) -> Result<(), HeapError> {
        self.log.close()
    }

    /// Adds the space by which the pool has grown. That space is on the medium, and the pool's header says so
    /// durably. A geometry older than that of an earlier call changes nothing.
    pub fn extend(&self, geometry: &Geometry) {
        self.space.extend(geometry);
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
    pub fn check_changes(&self) -> Result<(), HeapError> {
        if self.is_read_only() { Err(HeapError::ReadOnly) } else { Ok(()) }
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
        self.shared.readers.pin()
    }

    /// Returns the version of the lock that guards `at`, for [`Tx::lock_unchanged`].
    #[inline]
    pub fn lock_version(&self, at: PoolOffset) -> Version {
        self.locks.version(self.locks.stripe(at))
    }

    /// Runs `closure` as a transaction. All its changes are durable when this returns `Ok`. Nothing is changed when
    /// this returns an error or panics. A call inside of another closure on the same heap joins that transaction.
    ///
    /// Bytes that the memory can't deliver read as zeros. The transaction then fails with [`HeapError::Fault`],
    /// whatever the closure returns.
    ///
    /// A closure that meets a lock of another transaction is started again. So is one that finds no space, if its end
    /// makes some free. Its effects outside of the heap must therefore bear repetition.
    ///
    /// # Errors
    /// The closure's error, or a [`HeapError`]. Only [`HeapError::InDoubt`] leaves the outcome of the transaction
    /// open. Space that such a transaction has allocated is left alone until the pool is opened again.
    ///
    /// # Durability
    /// Durable on return of the outermost call.
    ///
    /// # Cost
    /// One drain, however much was changed; none if nothing was.
    #[inline]
    pub fn run<R, E: From<HeapError>>(
        &self,
        mut closure: impl FnMut(&Tx<'_, M>) -> Result<R, E>,
    ) -> Result<R, E> {
        let session = self.session();
        if session.active.get() {
            return self.join(&session, closure);
        }
        let mut retries = 0;
        for round in 0.. {
            // Takes the transaction's faults. A transaction on another heap whose closure runs this one keeps its own.
            let scope = FaultScope::open();
            let running = Running::begin(self, &session);
            let memory = scope.memory(self.memory());
            let result = closure(&Tx { heap: self, session: &session, memory });
            // The closure's value stays in place until the end is known: a copy after the fence would have to wait
            // for all home stores.
            match running.end(scope, result.is_ok()) {
                // Pins of this closure, and closures of other threads, may have kept freed space from being used
                // again.
                End::RolledBack | End::Failed(HeapError::OutOfSpace { .. } | HeapError::TooLarge { .. })
                    if retries < RETRIES && self.reclaim() =>
                {
                    retries += 1;
                }
                End::Committed | End::RolledBack => return result,
                End::Failed(error) => return Err(error.into()),
                End::Conflict => self.medium().relax(round.min(BACKOFF_ROUNDS_MAX)),
                // A waiter polls rarely, so back off long enough for it to see the lock free.
                End::Crossed => self.medium().relax(BACKOFF_ROUNDS_MAX),
            }
        }
        unreachable!("the loop ends with a result")
    }

    fn join<R, E: From<HeapError>>(
        &self,
        session: &Session,
        mut closure: impl FnMut(&Tx<'_, M>) -> Result<R, E>,
    ) -> Result<R, E> {
        let joined = Joined { session };
        let result = self.memory().joining(|memory| closure(&Tx { heap: self, session, memory }));
        if result.is_ok() {
            std::mem::forget(joined);
        }
        result
    }

    #[inline]
    pub(crate) fn session(&self) -> Rc<Session> {
        Session::of(self.number, || Arc::clone(&self.shared) as Arc<dyn Inherit>)
    }

    /// Returns true if the calling thread is in a transaction on this heap.
    #[inline]
    pub(crate) fn in_transaction(&self) -> bool {
        self.session().active.get()
    }

    /// Returns true if the calling thread is in a transaction that holds the lock that guards `at`.
    pub(crate) fn holds_lock(&self, at: PoolOffset) -> bool {
        let session = self.session();
        session.active.get() && session.state.borrow().held.contains(&self.locks.stripe(at))
    }

    /// Locks the cache of the calling thread, whose session is `session`. It stays locked for one step of the
    /// allocator, and no such step waits.
    #[inline]
    pub(crate) fn cache<'s>(&self, session: &'s Session) -> Hold<'s, Cache> {
        session.cache.lock(|round| self.medium().relax(round))
    }

    /// Makes the transaction of `session`, in `state`, durable and visible.
    fn commit(&self, scope: &FaultScope, session: &Session, state: &mut State) -> Result<(), HeapError> {
        if let Some(fault) = scope.fault() {
            return Err(fault.into());
        }
        if let Some((wanted, limit)) = state.too_large {
            self.check_changes()?;
            return Err(HeapError::TooLarge { wanted, limit });
        }
        if state.doomed {
            return Err(HeapError::NestedFailed);
        }
        if state.writes.is_empty() {
            return Ok(());
        }
        if bugs::EARLY_UNLOCK.is_active() {
            for stripe in state.held.drain(..) {
                self.locks.release(stripe);
            }
        }
        if state.writes.has_payloads() {
            state.writes.vouch();
        }
        let sequence = if state.writes.words() <= self.log.record_words_max() {
            self.log.commit_in(scope, state.writes.record(), &[])?
        } else {
            self.commit_spilled(scope, state)?
        };
        if !state.made.is_empty() {
            for made in state.made.drain(..) {
                self.shared.central.add_superblock(made.span, made.shape, made.key, made.free);
                self.cache(session).magazines.of(made.key).extend(made.next);
            }
        }
        state.taken.clear();
        state.huge.clear();
        if !state.freed.is_empty() {
            self.bury(session, state, sequence);
        }
        Ok(())
    }

    /// Commits a transaction whose record is too long for a ring. Its entries go to free space, and a short record
    /// leads to them. That space is used again only when the checkpoint covers the record.
    #[cold]
    fn commit_spilled(&self, scope: &FaultScope, state: &mut State) -> Result<u64, HeapError> {
        self.log.check_accepts()?;
        let body = state.writes.record().body().to_vec();
        let mut record = Record::new();
        let mut spans = Vec::new();
        let mut rest = &body[..];
        let written = loop {
            if rest.is_empty() {
                break self.log.commit_in(scope, &mut record, &body);
            }
            let chunks = align_up(rest.len() as u64 * WORD, CHUNK) / CHUNK;
            let longest = || {
                self.take_span(chunks, 1).or_else(|| self.shared.central.take_longest(self.memory(), chunks))
            };
            let span = match longest().map_or_else(|| self.reclaim_for(state, longest), |span| Ok(Some(span)))
            {
                Ok(Some(span)) => span,
                Ok(None) => break Err(HeapError::OutOfSpace { wanted: rest.len() as u64 * WORD }),
                Err(error) => break Err(error),
            };
            spans.push(span);
            let (part, later) = rest.split_at(rest.len().min((span.len() / WORD) as usize));
            rest = later;
            let crc = crc32c::crc32c(part.as_bytes());
            record.push(Entry::Continue { at: span.start, len: part.as_bytes().len() as u64, crc });
            if record.len() > self.log.record_words_max() {
                break Err(HeapError::OutOfSpace { wanted: rest.len() as u64 * WORD });
            }
            if let Err(error) = self.write_outside(span.start, part) {
                break Err(error);
            }
        };
        // In doubt, the record may lead to the spans: no thread gets them before the pool is opened again.
        let free_from = match written {
            Ok(sequence) => Some(sequence),
            Err(HeapError::InDoubt(_)) => None,
            Err(_) => Some(0),
        };
        if let Some(sequence) = free_from {
            let epoch = self.shared.readers.advance();
            let mut limbo = self.shared.limbo();
            for span in spans {
                limbo.add(sequence, epoch, Freed::Span(span));
            }
        }
        written
    }

    /// Writes entries to free space. They are durable with the record that leads to them, or before.
    fn write_outside(&self, at: PoolOffset, words: &[u64]) -> Result<(), HeapError> {
        let medium = self.medium();
        if medium.rung() != Rung::Commit {
            // No record may lead to entries that are not there.
            return Ok(FaultScope::around(|| medium.copy(at, words.as_bytes()))?);
        }
        let mut padded = words.to_vec();
        padded.resize(align_up(words.len() as u64, medium.log_block() / WORD) as usize, 0);
        // ORDER: the entries are durable before the record that leads to them is written. Stop here: nothing
        // leads to them.
        medium.log_write(at, padded.as_bytes()).map_err(HeapError::from)
    }

    /// Puts blocks and spans that the transaction `sequence` freed into a limbo, until they can be used again.
    fn bury(&self, session: &Session, state: &mut State, sequence: u64) {
        let mut epoch = None;
        let mut cache = self.cache(session);
        for freed in state.freed.drain(..) {
            match freed {
                Freed::Block(key, block) if key.class.block_size() <= PAYLOAD_MIN => {
                    if cache.limbo.add(key, block) {
                        self.turn_limbo(&mut cache);
                    }
                }
                Freed::Block(key, block) if bugs::EARLY_REUSE.is_active() => {
                    self.shared.central.give_blocks(key, [block].into_iter());
                }
                large => {
                    let epoch = *epoch.get_or_insert_with(|| self.shared.readers.advance());
                    self.shared.limbo().add(sequence, epoch, large);
                }
            }
        }
    }

    /// Moves blocks that this thread freed, and that no reader holds any more, to the thread's magazines.
    #[cold]
    fn turn_limbo(&self, cache: &mut Cache) {
        let oldest = self.shared.readers.oldest();
        let Cache { magazines, limbo } = cache;
        limbo.turn(
            oldest,
            || self.shared.readers.advance(),
            |key, block| {
                if let Some(surplus) = magazines.put(key, block) {
                    self.shared.central.give_blocks(key, surplus.into_iter());
                }
            },
        );
    }

    /// Releases the locks of the transaction in `state`, which is over, and resets the state.
    #[inline]
    fn forget(&self, state: &mut State) {
        if !state.held.is_empty() {
            for stripe in state.held.drain(..) {
                self.locks.release(stripe);
            }
        }
        state.reset();
    }

    /// Gives up the transaction in `state`, whose commit failed.
    #[cold]
    fn undo(&self, session: &Session, state: &mut State, error: HeapError) {
        match error {
            // The transaction may be there after reopening, so no other one gets the space that it had taken.
            HeapError::InDoubt(_) => {}
            _ => self.roll_back(session, state),
        }
    }

    /// Gives back the space that the transaction in `state` had taken.
    fn roll_back(&self, session: &Session, state: &mut State) {
        let made = std::mem::take(&mut state.made);
        let taken = std::mem::take(&mut state.taken);
        if !taken.is_empty() {
            let mut cache = self.cache(session);
            for (key, block) in taken {
                if made.iter().all(|made| !holds(made.span, block.at))
                    && let Some(surplus) = cache.magazines.put(key, block)
                {
                    self.shared.central.give_blocks(key, surplus.into_iter());
                }
            }
        }
        for made in made {
            self.shared.central.give_span(made.span);
        }
        for huge in std::mem::take(&mut state.huge) {
            self.shared.central.give_span(huge.span);
        }
    }
}

/// Bytes above which an object's first content may be written in place, past the log.
pub(crate) const PAYLOAD_MIN: u64 = 1024;

pub(crate) fn holds(span: crate::alloc::Span, at: PoolOffset) -> bool {
    at >= span.start && at < span.start.plus(span.len())
}

pub(crate) fn log_area(geometry: &Geometry) -> LogArea {
    LogArea { start: geometry.log_off(), len: geometry.log_len() }
}

impl<M: Medium> Drop for Heap<M> {
    fn drop(&mut self) {
        Session::end(self.number);
    }
}

/// A running transaction. If a panic drops it before its end, it is rolled back. If it was committing, it is in
/// doubt.
struct Running<'a, M: Medium> {
    heap: &'a Heap<M>,
    session: &'a Session,
    /// True once the commit has begun.
    is_committing: bool,
}

impl<'a, M: Medium> Running<'a, M> {
    #[inline]
    fn begin(heap: &'a Heap<M>, session: &'a Session) -> Running<'a, M> {
        session.active.set(true);
        Running { heap, session, is_committing: false }
    }

    /// Commits if the closure was `successful`, and rolls back if not.
    #[inline]
    fn end(mut self, scope: FaultScope, successful: bool) -> End {
        let state = &mut *self.session.state.borrow_mut();
        let end = match (successful, state.conflict) {
            (true, false) => {
                self.is_committing = true;
                match self.heap.commit(&scope, self.session, state) {
                    Ok(()) => {
                        scope.close_faultless();
                        End::Committed
                    }
                    Err(error) => {
                        self.heap.undo(self.session, state, error);
                        // The error reports the fault.
                        let _ = scope.close();
                        End::Failed(error)
                    }
                }
            }
            (_, conflict) => {
                let is_crossed = state.is_crossed;
                self.heap.roll_back(self.session, state);
                match (conflict, is_crossed, scope.close()) {
                    (false, _, Ok(())) => End::RolledBack,
                    // The closure's result follows from zeros.
                    (false, _, Err(fault)) => End::Failed(fault.into()),
                    // The next attempt reads again.
                    (true, false, _) => End::Conflict,
                    (true, true, _) => End::Crossed,
                }
            }
        };
        self.heap.forget(state);
        self.session.active.set(false);
        std::mem::forget(self);
        end
    }
}

/// A closure inside of another one's transaction. It is dropped when the closure fails or panics. A part of the
/// closure may then be done, so the drop keeps the transaction from being committed.
struct Joined<'a> {
    session: &'a Session,
}

impl Drop for Joined<'_> {
    fn drop(&mut self) {
        self.session.state.borrow_mut().doomed = true;
    }
}

/// The end of a transaction.
enum End {
    Committed,
    /// The closure returned an error.
    RolledBack,
    /// The commit returned an error.
    Failed(HeapError),
    /// It met a held lock and is to start again.
    Conflict,
    /// As `Conflict`, and a thread that waits for a lock of this transaction may hold the one that it needs.
    Crossed,
}

impl<M: Medium> Drop for Running<'_, M> {
    fn drop(&mut self) {
        let state = &mut *self.session.state.borrow_mut();
        if self.is_committing {
            // The record may be durable: no transaction gets the space that this one has taken, and no record
            // follows.
            self.heap.log.fail();
        } else {
            self.heap.roll_back(self.session, state);
        }
        self.heap.forget(state);
        self.session.active.set(false);
    }
}
