//! The handle of a log: appends, reads, rewinds.

use crate::bugs;
use crate::error::InDoubtCause;
use crate::pmdk::error::PmemLogError;
use lode_layout::{Durability, PmdkHeader, PmdkKind, PmdkLog, PoolOffset, WORD};
use lode_pmem::sync::{AtomicBool, AtomicU64, Ordering, SpinMutex, fence};
use lode_pmem::{FaultScope, Medium, hold};
use std::ops::{ControlFlow, Deref};

/// The log of a pool of PMDK: bytes that any number of threads append and read. Positions count from its first byte.
///
/// # Durability
/// Without a [volatile cache](PmemLog::has_volatile_cache), an append is durable when it returns. With one it is visible
/// then, and durable after the next [`persist`](PmemLog::persist). A power cut leaves whole appends: all up to some place.
///
/// # Locks
/// Appends wait for each other until they are durable. Reads wait for none of them.
#[derive(Debug)]
pub struct PmemLog<M: Medium> {
    medium: M,
    /// Offset after the space of the log.
    limit: PoolOffset,
    /// True where appends become durable by syncs.
    is_cached: bool,
    /// Offset of the next append. Held while one is copied, and by a rewind. Taken before `committed`.
    next: SpinMutex<PoolOffset>,
    /// The word that commits appends, as it is durable. Held while it changes.
    committed: SpinMutex<PoolOffset>,
    /// Offset up to which bytes can be read.
    visible: AtomicU64,
    /// With a volatile cache, the offset up to which they are durable. Without one `visible` is that.
    durable: AtomicU64,
    /// Number of rewinds of this handle.
    rewinds: AtomicU64,
    /// True if an operation is in doubt.
    failed: AtomicBool,
}

/// Reads and checks header and descriptor.
///
/// # Errors
/// Fails with the first rule that they break.
pub(super) fn describe<M: Medium>(medium: &M) -> Result<PmdkLog, PmemLogError> {
    let mut page = [0; PmdkHeader::LEN];
    let size = medium.memory().len();
    if size < PmdkLog::START.get() {
        return Err(PmemLogError::Header(lode_layout::PmdkHeaderError::TooShort { len: size }));
    }
    medium.memory().reading(|memory| memory.read(PoolOffset::NULL, &mut page))?;
    let header = PmdkHeader::decode(&page).map_err(PmemLogError::Header)?;
    if header.kind != PmdkKind::Log {
        return Err(PmemLogError::Kind(header.kind));
    }
    if header.shutdown.unwrap_or_default().was_open_on_modules() {
        return Err(PmemLogError::OpenInCrash);
    }
    describe_content(medium)
}

/// Reads and checks the descriptor.
pub(super) fn describe_content<M: Medium>(medium: &M) -> Result<PmdkLog, PmemLogError> {
    let mut bytes = [0; PmdkLog::LEN];
    medium.memory().reading(|memory| memory.read(PmdkLog::OFF, &mut bytes))?;
    PmdkLog::decode(bytes, medium.memory().len()).map_err(PmemLogError::Descriptor)
}

impl<M: Medium> PmemLog<M> {
    /// Makes an empty log pool of PMDK on a zeroed medium.
    ///
    /// # Errors
    /// Fails if PMDK opens no pool of this size, or if the medium can't be written.
    ///
    /// # Durability
    /// Durable on return. A crash before that leaves no pool or a whole one.
    ///
    /// # Cost
    /// Two drains.
    pub fn format(medium: &M, header: &PmdkHeader) -> Result<(), PmemLogError> {
        let planned = PmdkLog::plan(medium.memory().len()).map_err(PmemLogError::Plan)?;
        PmemLog::format_as(medium, header, &planned)
    }

    /// Makes an empty log in a pool whose headers another layer writes after it: they may be those of a pool set.
    ///
    /// # Errors
    /// As [`format`](PmemLog::format).
    ///
    /// # Durability
    /// Durable on return.
    ///
    /// # Cost
    /// One drain.
    pub fn format_content(medium: &M) -> Result<(), PmemLogError> {
        let planned = PmdkLog::plan(medium.memory().len()).map_err(PmemLogError::Plan)?;
        PmemLog::store_descriptor(medium, &planned)
    }

    fn store_descriptor(medium: &M, planned: &PmdkLog) -> Result<(), PmemLogError> {
        FaultScope::run(|| medium.copy(PmdkLog::OFF, &planned.encode()))?;
        // ORDER: the descriptor before the header that makes this a pool. Stop here: no pool.
        Ok(medium.drain()?)
    }

    /// Makes an empty log as this descriptor says.
    pub(super) fn format_as(medium: &M, header: &PmdkHeader, planned: &PmdkLog) -> Result<(), PmemLogError> {
        PmemLog::store_descriptor(medium, planned)?;
        FaultScope::run(|| medium.copy(PoolOffset::NULL, &header.encode()))?;
        // ORDER: the header before the caller is told. Stop here: no pool, or a whole one.
        Ok(medium.drain()?)
    }

    /// Opens the log. On a private view it is read-only.
    ///
    /// # Errors
    /// Fails if header or descriptor can't be used. Nothing was changed.
    ///
    /// # Durability
    /// Every append that had returned is there; with a volatile cache, every one that was persisted.
    ///
    /// # Cost
    /// Reads two pages. One drain if the pool is opened for writing.
    pub fn open(medium: M) -> Result<PmemLog<M>, PmemLogError> {
        let planned = describe(&medium)?;
        PmemLog::open_as(medium, planned)
    }

    /// Opens the log of a pool whose headers another layer has checked: they may be those of a pool set, which lie between the
    /// parts and are no part of the medium.
    ///
    /// # Errors
    /// As [`open`](PmemLog::open), but for those of the header.
    ///
    /// # Durability
    /// As [`open`](PmemLog::open).
    ///
    /// # Cost
    /// As [`open`](PmemLog::open), but for one page.
    pub fn open_content(medium: M) -> Result<PmemLog<M>, PmemLogError> {
        let planned = describe_content(&medium)?;
        PmemLog::open_as(medium, planned)
    }

    fn open_as(medium: M, planned: PmdkLog) -> Result<PmemLog<M>, PmemLogError> {
        let PmdkLog { end, write } = planned;
        if !medium.memory().is_private_view() {
            // A process that ended before its drain may have left the word visible only.
            FaultScope::run(|| medium.flush(PmdkLog::WRITE_OFF, WORD))?;
            // ORDER: the word before the appends that build on it. Stop here: as before.
            medium.drain()?;
        }
        Ok(PmemLog {
            is_cached: medium.durability() == Durability::Commit,
            medium,
            limit: end,
            next: SpinMutex::new(write),
            committed: SpinMutex::new(write),
            visible: AtomicU64::new(write.get()),
            durable: AtomicU64::new(write.get()),
            rewinds: AtomicU64::new(0),
            failed: AtomicBool::new(false),
        })
    }

    /// Returns the medium.
    pub fn medium(&self) -> &M {
        &self.medium
    }

    /// Returns true if appends are durable after a persist only.
    pub fn has_volatile_cache(&self) -> bool {
        self.is_cached
    }

    /// Returns the most bytes that the log can have.
    pub fn capacity(&self) -> u64 {
        self.limit.get() - PmdkLog::START.get()
    }

    /// Returns the number of bytes that can be read.
    pub fn len(&self) -> u64 {
        // ORDER: acquires; pairs with the releases in `appendv` and `commit`: the bytes before the offset can be read.
        self.visible.load(Ordering::Acquire) - PmdkLog::START.get()
    }

    /// Returns the number of bytes that can be read and are durable: those of appends that were persisted.
    pub fn durable_len(&self) -> u64 {
        if !self.is_cached {
            return self.len();
        }
        // ORDER: acquires; pairs with the releases in `commit`: the bytes before the offset can be read.
        self.durable.load(Ordering::Acquire) - PmdkLog::START.get()
    }

    /// Returns true if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends bytes and returns their position.
    ///
    /// # Errors
    /// With [`PmemLogError::InDoubt`] they may or may not be there after the pool is opened again, and the handle accepts no
    /// more changes. With any other error nothing was appended.
    ///
    /// # Durability
    /// See [`PmemLog`].
    ///
    /// # Cost
    /// Two drains without a volatile cache, none with one. The lines of the bytes, and one for the word that commits them.
    pub fn append(&self, bytes: &[u8]) -> Result<u64, PmemLogError> {
        self.appendv(&[bytes])
    }

    /// Appends these parts, one after the other, and returns their position. After a crash all of them are there, or none.
    ///
    /// # Errors
    /// As [`append`](PmemLog::append).
    ///
    /// # Durability
    /// See [`PmemLog`].
    ///
    /// # Cost
    /// That of one [`append`](PmemLog::append).
    pub fn appendv<P: Deref<Target = [u8]>>(&self, parts: &[P]) -> Result<u64, PmemLogError> {
        let need = parts.iter().map(|part| part.len() as u64).sum();
        let mut next = hold(&self.next, &self.medium);
        self.check_accepts()?;
        let (start, free) = (*next, self.limit.get() - next.get());
        if need > free {
            return Err(PmemLogError::Full { need, free });
        }
        FaultScope::run(|| {
            let mut at = start;
            for part in parts {
                self.copy(at, part);
                at = at.plus(part.len() as u64);
            }
        })?;
        let end = start.plus(need);
        if self.is_cached {
            // ORDER: releases: the bytes are in the page cache before a reader looks there, and before a persist commits them.
            self.visible.store(end.get(), Ordering::Release);
        } else {
            self.commit(&mut hold(&self.committed, &self.medium), end)?;
        }
        *next = end;
        Ok(start.get() - PmdkLog::START.get())
    }

    /// Takes over the end that another process has committed which has the same mapping: the parent or a child of a fork. Only one
    /// of them may change the log at a time.
    ///
    /// # Errors
    /// [`PmemLogError::Memory`]. Nothing was changed. A handle that accepts no more changes takes over none.
    ///
    /// # Cost
    /// A load. With a volatile cache, two locks.
    pub fn adopt_end(&self) -> Result<(), PmemLogError> {
        let end = self.stored_end()?;
        // ORDER: none: a thread that commits just now has the lock, and the end is looked at again.
        if self.is_cached || end != self.visible.load(Ordering::Relaxed) {
            self.adopt_stored_end()?;
        }
        Ok(())
    }

    /// Returns the word that commits appends.
    fn stored_end(&self) -> Result<u64, PmemLogError> {
        Ok(self.medium.memory().reading(|memory| memory.load8(PmdkLog::WRITE_OFF))?)
    }

    #[cold]
    fn adopt_stored_end(&self) -> Result<(), PmemLogError> {
        let mut next = hold(&self.next, &self.medium);
        let mut committed = hold(&self.committed, &self.medium);
        let end = PoolOffset::new(self.stored_end()?);
        // ORDER: none: a change that failed had both locks, or one of them.
        let is_in_doubt = self.failed.load(Ordering::Relaxed);
        let is_own = is_in_doubt || end == *committed || *next != *committed;
        if is_own || !(PmdkLog::START..=self.limit).contains(&end) {
            return Ok(());
        }
        if end < *committed {
            // ORDER: as in `rewind`.
            self.rewinds.fetch_add(1, Ordering::Release);
        }
        (*next, *committed) = (end, end);
        self.show(end);
        Ok(())
    }

    /// Lets readers see the bytes up to `end`, which are durable.
    fn show(&self, end: PoolOffset) {
        // ORDER: releases: as in `commit`.
        self.durable.store(end.get(), Ordering::Release);
        // ORDER: as above.
        self.visible.store(end.get(), Ordering::Release);
    }

    /// Copies bytes to free space: words past the cache, and the ends that are no words through it.
    fn copy(&self, at: PoolOffset, bytes: &[u8]) {
        let first = bytes.len().min((at.get().next_multiple_of(WORD) - at.get()) as usize);
        let (first, rest) = bytes.split_at(first);
        let (words, last) = rest.split_at(rest.len() - rest.len() % WORD as usize);
        let words_at = at.plus(first.len() as u64);
        self.store_part(at, first);
        if !words.is_empty() {
            self.medium.copy(words_at, words);
        }
        self.store_part(words_at.plus(words.len() as u64), last);
    }

    fn store_part(&self, at: PoolOffset, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.medium.store(at, bytes);
            self.medium.flush(at, bytes.len() as u64);
        }
    }

    /// Makes all bytes up to `end` durable, and then the word that commits them.
    fn commit(&self, committed: &mut PoolOffset, end: PoolOffset) -> Result<(), PmemLogError> {
        if !bugs::PMDK_BYTES_NOT_DRAINED.is_active() {
            // ORDER: the bytes are durable before the word that commits them is stored. Stop here: rows 1 and 2 of the crash
            // table, they are free space.
            self.medium.drain().map_err(|error| self.fail(InDoubtCause::Drain(error)))?;
        }
        let end = match bugs::PMDK_LATER_BYTES_COMMITTED.is_active() {
            // ORDER: none: a seeded bug.
            true => PoolOffset::new(end.get().max(self.visible.load(Ordering::Relaxed))),
            false => end,
        };
        self.store_word(end)?;
        *committed = end;
        let durable = if self.is_cached { &self.durable } else { &self.visible };
        // ORDER: releases: the bytes are durable, and can be read, before the offset says so.
        durable.store(end.get(), Ordering::Release);
        Ok(())
    }

    /// Makes the word that commits appends durable.
    fn store_word(&self, end: PoolOffset) -> Result<(), PmemLogError> {
        FaultScope::run(|| {
            self.medium.store8(PmdkLog::WRITE_OFF, end.get());
            self.medium.flush(PmdkLog::WRITE_OFF, WORD);
        })
        .map_err(|fault| self.fail(InDoubtCause::Memory(fault)))?;
        if bugs::PMDK_WORD_NOT_DRAINED.is_active() {
            return Ok(());
        }
        // ORDER: the word is durable before the caller is told. Stop here: row 3, the append is there or not.
        self.medium.drain().map_err(|error| self.fail(InDoubtCause::Drain(error)))
    }

    /// Makes all appends durable that have returned.
    ///
    /// # Errors
    /// Fails if a sync does, now or before. What was not persisted before may or may not be there after the pool is opened
    /// again.
    ///
    /// # Durability
    /// All bytes up to [`len`](PmemLog::len), as it was at the call, are durable on return, unless they were dropped.
    ///
    /// # Cost
    /// With a volatile cache, two syncs for all appends since the last one; otherwise none.
    pub fn persist(&self) -> Result<(), PmemLogError> {
        if self.medium.memory().is_private_view() {
            return Ok(());
        }
        self.check_accepts()?;
        let mut committed = hold(&self.committed, &self.medium);
        self.check_accepts()?;
        let end = PmdkLog::START.plus(self.len());
        if *committed == end {
            return Ok(());
        }
        self.commit(&mut committed, end)
    }

    /// Drops all bytes.
    ///
    /// # Errors
    /// With [`PmemLogError::InDoubt`] they may or may not be dropped when the pool is opened again, and the handle accepts no
    /// more changes. With any other error nothing was changed.
    ///
    /// # Durability
    /// Durable on return.
    ///
    /// # Cost
    /// One drain.
    pub fn rewind(&self) -> Result<(), PmemLogError> {
        let mut next = hold(&self.next, &self.medium);
        let mut committed = hold(&self.committed, &self.medium);
        self.check_accepts()?;
        self.store_word(PmdkLog::START)?;
        (*next, *committed) = (PmdkLog::START, PmdkLog::START);
        // ORDER: releases: a reader that finds bytes of a later append, which takes the lock after this, finds the number, too.
        self.rewinds.fetch_add(1, Ordering::Release);
        self.show(PmdkLog::START);
        Ok(())
    }

    /// Reads bytes from `position` on, and returns how many there are: fewer than asked for at the end of the log.
    ///
    /// # Errors
    /// [`PmemLogError::Memory`], and [`PmemLogError::Rewound`] if they were dropped meanwhile. The content of `into` has no
    /// meaning then.
    ///
    /// # Cost
    /// No drain.
    pub fn read(&self, position: u64, into: &mut [u8]) -> Result<usize, PmemLogError> {
        self.read_of(self.rewinds(), position, into)
    }

    fn rewinds(&self) -> u64 {
        // ORDER: acquires: the number comes before the length that is read after it.
        self.rewinds.load(Ordering::Acquire)
    }

    /// Reads as [`read`](PmemLog::read) does; fails if there were more rewinds than these.
    fn read_of(&self, rewinds: u64, position: u64, into: &mut [u8]) -> Result<usize, PmemLogError> {
        let rest = self.len().saturating_sub(position);
        let len = usize::try_from(rest).map_or(into.len(), |rest| rest.min(into.len()));
        let part = &mut into[..len];
        if len > 0 {
            let at = PmdkLog::START.plus(position);
            self.medium.memory().reading(|memory| memory.read(at, part))?;
        }
        // ORDER: acquires: loads of the bytes come before that of the number.
        fence(Ordering::Acquire);
        match self.rewinds() == rewinds {
            true => Ok(len),
            false => Err(PmemLogError::Rewound),
        }
    }

    /// Calls `visit` with all bytes of the log in chunks of `chunk_len`, the last of which may be shorter; with all at once
    /// if it is 0. `visit` may break off. Bytes that are appended meanwhile may be missing.
    ///
    /// # Errors
    /// As [`read`](PmemLog::read).
    ///
    /// # Cost
    /// Copies each chunk. No drain.
    pub fn walk(
        &self,
        chunk_len: usize,
        mut visit: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), PmemLogError> {
        let rewinds = self.rewinds();
        let end = self.len();
        let chunk_len = if chunk_len == 0 { end } else { end.min(chunk_len as u64) };
        let mut chunk = vec![0; chunk_len as usize];
        let mut position = 0;
        while position < end {
            let len = (chunk.len() as u64).min(end - position) as usize;
            let read = self.read_of(rewinds, position, &mut chunk[..len])?;
            position += read as u64;
            if visit(&chunk[..read]).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Makes all appends durable. A log that is dropped instead leaves what a crash would leave.
    ///
    /// # Errors
    /// As [`persist`](PmemLog::persist).
    ///
    /// # Durability
    /// All bytes are durable on return.
    ///
    /// # Cost
    /// That of [`persist`](PmemLog::persist).
    pub fn close(self) -> Result<(), PmemLogError> {
        self.persist()
    }

    /// Fails if the handle accepts no changes.
    fn check_accepts(&self) -> Result<(), PmemLogError> {
        // ORDER: none: an operation that misses it fails at its own drain, or changes what no other has.
        match self.failed.load(Ordering::Relaxed) {
            true => Err(PmemLogError::Poisoned),
            false if self.medium.memory().is_private_view() => Err(PmemLogError::ReadOnly),
            false => Ok(()),
        }
    }

    /// Makes the handle refuse all further changes, and returns the error of this one.
    #[cold]
    fn fail(&self, cause: InDoubtCause) -> PmemLogError {
        // ORDER: none: the caller holds the lock of what is in doubt, and others take it before they ask.
        self.failed.store(true, Ordering::Relaxed);
        PmemLogError::InDoubt(cause)
    }
}
