//! A running transaction, as its closure sees it.

use crate::alloc::central::{FreeBlocks, out_of_space};
use crate::alloc::limbo::Freed;
use crate::alloc::{Block, Class, Found, Key, Span};
use crate::error::HeapError;
use crate::heap::{Heap, PAYLOAD_MIN};
use crate::locks::{Stripe, Version};
use crate::session::{Made, MadeHuge, Session, State, refill_of};
use crate::sync::Ordering;
use lode_layout::{
    CHUNK, Descriptor, Huge, PoolOffset, SPAN_HEADER, Superblock, WORD, align_up, checked, encode_root,
    unchecked,
};
use lode_pmem::{Medium, Readable, Rung};
use zerocopy::IntoBytes;

/// The strongest alignment of an object, in bytes.
const ALIGN_MAX: u64 = 4096;
/// The weakest alignment of an object, in bytes.
const ALIGN_MIN: u64 = 16;
/// Words of a record up to which its limit is not looked up.
const WORDS_UNASKED: u64 = 4096;
/// Rounds for which a transaction waits for a lock that comes after all locks that it holds.
const PATIENCE: u32 = 1 << 14;
/// Rounds for which it waits for a lock that comes before one that it holds. In each cycle of waiting transactions,
/// one waits like that, and it gives up before any of them sleeps.
const PATIENCE_CROSSED: u32 = 96;

/// Returns the alignment that an object gets when `align` was asked for.
pub(crate) fn checked_align(align: u64) -> Result<u64, HeapError> {
    let fine = align.max(1).is_power_of_two() && align <= ALIGN_MAX;
    if fine { Ok(align.max(ALIGN_MIN)) } else { Err(HeapError::Alignment { align }) }
}

/// The locks that a transaction held at some moment, and the words that it had stored by then.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    count: usize,
    words: usize,
}

impl Held {
    /// Returns true if any lock was held.
    #[inline]
    pub fn is_any(self) -> bool {
        self.count > 0
    }
}

/// The place at which a block was found.
enum Room {
    Block(Block),
    /// A span for a superblock of such blocks.
    Superblock(Span),
}

/// A transaction. It sees its own stores at once; other threads see them when they are durable.
///
/// Stores outside of the heap's space raise a [`Fault`](lode_pmem::Fault). The transaction then fails with it.
pub struct Tx<'a, M: Medium> {
    pub(crate) heap: &'a Heap<M>,
    pub(crate) session: &'a Session,
    /// The pool's bytes, inside of the transaction's scope of faults.
    pub(crate) memory: &'a Readable,
}

impl<M: Medium> Tx<'_, M> {
    /// Returns the heap.
    #[inline]
    pub fn heap(&self) -> &Heap<M> {
        self.heap
    }

    /// Returns the pool's bytes without the transaction's own changes. Loads that fail count as faults of the
    /// transaction.
    #[inline]
    pub fn memory(&self) -> &Readable {
        self.memory
    }

    /// Returns the aligned word at `at` as the transaction sees it.
    #[inline]
    pub fn load8(&self, at: PoolOffset) -> u64 {
        self.session.state.borrow_mut().writes.load8(self.memory, at)
    }

    /// Copies the range that begins at `at`, as the transaction sees it.
    pub fn read(&self, at: PoolOffset, into: &mut [u8]) {
        self.session.state.borrow_mut().writes.read(self.memory, at, into);
    }

    /// Returns true if the transaction has stored nothing yet.
    #[inline]
    pub fn is_clean(&self) -> bool {
        self.session.state.borrow().writes.is_empty()
    }

    /// Stores an aligned word.
    #[inline]
    pub fn store8(&self, at: PoolOffset, value: u64) {
        let state = &mut *self.session.state.borrow_mut();
        if self.admit(state, at, WORD, at.get().is_multiple_of(WORD), WORD) {
            self.heap.memory().prefetch_store(at);
            state.writes.store8(at, value);
        }
    }

    /// Stores words to an aligned place.
    #[inline]
    pub fn store_words(&self, at: PoolOffset, words: &[u64]) {
        let state = &mut *self.session.state.borrow_mut();
        if self.admit(
            state,
            at,
            words.len() as u64 * WORD,
            at.get().is_multiple_of(WORD),
            words.len() as u64 * WORD,
        ) {
            self.heap.memory().prefetch_store(at);
            state.writes.store_words(at, words);
        }
    }

    /// Stores bytes at any offset.
    pub fn store(&self, at: PoolOffset, bytes: &[u8]) {
        let state = &mut *self.session.state.borrow_mut();
        if self.admit(state, at, bytes.len() as u64, true, bytes.len() as u64) {
            state.writes.store_bytes(at, bytes);
        }
    }

    /// Makes `len` bytes zero. Takes no log space for them.
    pub fn zero(&self, at: PoolOffset, len: u64) {
        let state = &mut *self.session.state.borrow_mut();
        // The record's length counts, and there a run of zeros takes a few words, however long it is.
        if self.admit(state, at, len, true, 0) {
            state.writes.zero(at, len);
        }
    }

    /// Returns true if the store is inside of the heap, and if `logged` more bytes in the record are within the limit
    /// of the transaction.
    #[inline]
    fn admit(&self, state: &mut State, at: PoolOffset, len: u64, aligned: bool, logged: u64) -> bool {
        if !self.heap.space.holds(at, len) || !aligned {
            self.memory.refuse(at, len);
            return false;
        }
        if state.writes.has_payloads() {
            state.writes.log_payloads(self.memory, at, len);
        }
        let words = state.writes.words() as u64 + logged / WORD;
        words <= WORDS_UNASKED || self.allow(state, words)
    }

    /// Returns true if the transaction's record may have `words` words.
    #[cold]
    fn allow(&self, state: &mut State, words: u64) -> bool {
        let mut allowed = *state.words_allowed.get_or_insert_with(|| self.half_of_free());
        if words > allowed && state.too_large.is_none() {
            // Ignores an error: it shows again when the transaction commits.
            let _ = self.heap.reclaim_for(state, || None::<Span>);
            allowed = self.half_of_free();
            state.words_allowed = Some(allowed);
        }
        if words > allowed {
            state.too_large.get_or_insert((words * WORD, allowed * WORD));
        }
        words <= allowed
    }

    /// Returns half of the free chunks, in words.
    fn half_of_free(&self) -> u64 {
        let free = self.heap.shared.central.fullness(&self.heap.space, self.heap.memory());
        free.free_chunks * CHUNK / WORD / 2
    }

    /// Makes the object at `at` the root, from which all others are reached.
    pub fn set_root(&self, at: PoolOffset) {
        let state = &mut *self.session.state.borrow_mut();
        state.writes.store_words(self.heap.space.root_at(), &[encode_root(at)]);
    }

    /// Takes the lock that guards `at` until the transaction is over.
    ///
    /// # Errors
    /// [`HeapError::Conflict`] when another transaction keeps it.
    pub fn lock(&self, at: PoolOffset) -> Result<(), HeapError> {
        let stripe = self.heap.locks.stripe(at);
        for round in 0.. {
            let state = &mut *self.session.state.borrow_mut();
            if state.held.contains(&stripe) || self.try_lock(state, stripe, self.heap.locks.version(stripe)) {
                return Ok(());
            }
            let is_crossed = state.held.iter().any(|held| *held > stripe);
            let patience = if is_crossed { PATIENCE_CROSSED } else { PATIENCE };
            if round >= patience {
                state.conflict = true;
                state.is_crossed = is_crossed;
                return Err(HeapError::Conflict);
            }
            self.heap.medium().relax(round);
        }
        unreachable!("the loop ends with the lock or without patience")
    }

    /// Takes the lock that guards `at` if no thread held it since its version was `version`. If so, words under the
    /// lock that were read since then have not changed.
    ///
    /// # Errors
    /// [`HeapError::Conflict`] when the version has changed; the caller reads again, or passes it on.
    #[inline]
    pub fn lock_unchanged(&self, at: PoolOffset, version: Version) -> Result<(), HeapError> {
        let stripe = self.heap.locks.stripe(at);
        let state = &mut *self.session.state.borrow_mut();
        if state.held.contains(&stripe) || self.try_lock(state, stripe, version) {
            return Ok(());
        }
        Err(HeapError::Conflict)
    }

    #[inline]
    fn try_lock(&self, state: &mut State, stripe: Stripe, version: Version) -> bool {
        let taken = self.heap.locks.take(stripe, version);
        if taken {
            state.held.push(stripe);
        }
        taken
    }

    /// Takes the lock of the word that holds the root's offset.
    pub(crate) fn lock_root(&self) -> Result<(), HeapError> {
        self.lock(self.heap.space.root_at())
    }

    /// Keeps the transaction from committing, because one part of a step failed and another part is done.
    pub fn doom(&self) {
        self.session.state.borrow_mut().doomed = true;
    }

    /// Returns true if the transaction will be rolled back, whatever else it does.
    pub(crate) fn is_lost(&self) -> bool {
        let state = self.session.state.borrow();
        state.doomed || state.conflict || state.too_large.is_some()
    }

    /// Returns true if this transaction holds the lock that guards `at`.
    pub fn holds_lock(&self, at: PoolOffset) -> bool {
        self.session.state.borrow().held.contains(&self.heap.locks.stripe(at))
    }

    /// Notes the locks that are held, for [`unlock_since`](Tx::unlock_since).
    #[inline]
    pub fn held(&self) -> Held {
        let state = self.session.state.borrow();
        Held { count: state.held.len(), words: state.writes.words() }
    }

    /// Releases the locks that were taken since `held` was noted. For optimistic readers that start again. If the
    /// transaction has stored anything since, all its locks stay until it is over: other threads must not see its
    /// stores before.
    pub fn unlock_since(&self, held: Held) {
        let state = &mut *self.session.state.borrow_mut();
        if state.writes.words() != held.words {
            return;
        }
        for stripe in state.held.drain(held.count.min(state.held.len())..) {
            self.heap.locks.release(stripe);
        }
    }

    /// Makes the closure start again, as after a conflict. The closure passes the error on.
    pub fn restart(&self) -> HeapError {
        self.session.state.borrow_mut().conflict = true;
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
        let state = &mut *self.session.state.borrow_mut();
        let align = checked_align(align)?;
        let Some(class) = Class::of(size.max(1), align) else {
            return self.alloc_huge(state, size, align, type_number);
        };
        let key = Key { class, type_number };
        let Some((key, block)) = self.take_block(state, key, align)? else {
            return self.alloc_huge(state, size, align, type_number);
        };
        self.heap.memory().prefetch_store(block.word);
        state.writes.set_bits(block.word, block.mask());
        state.taken.push((key, block));
        Ok(block.at)
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
    /// Content above 1 KiB is written once, in place, under the transaction's one drain. On the commit rung it goes
    /// through the log.
    pub fn alloc_with(&self, content: &[u64], align: u64, type_number: u64) -> Result<PoolOffset, HeapError> {
        let len = content.len() as u64 * WORD;
        let at = self.alloc(len, align, type_number)?;
        self.store_new(at, content);
        Ok(at)
    }

    /// Stores the first content of the object at `at`, which was just allocated.
    fn store_new(&self, at: PoolOffset, content: &[u64]) {
        let len = content.len() as u64 * WORD;
        let in_place = len > PAYLOAD_MIN && matches!(self.heap.medium().rung(), Rung::Line | Rung::Byte);
        if !in_place {
            return self.store_words(at, content);
        }
        // No reader and no record uses the space: freed blocks of this size waited for readers and for the
        // checkpoint. If the transaction fails, the space is free again and its content does not matter.
        self.heap.medium().copy(at, content.as_bytes());
        let crc = crc32c::crc32c(content.as_bytes());
        self.session.state.borrow_mut().writes.payload(at, len, crc);
    }

    /// Takes a free block of `key`. If there is none, takes a larger one that is aligned to `align`. The block
    /// belongs to the transaction from then on. Returns `None` if there is no block, and no room for a superblock.
    #[inline]
    pub(crate) fn take_block(
        &self,
        state: &mut State,
        key: Key,
        align: u64,
    ) -> Result<Option<(Key, Block)>, HeapError> {
        let block = self.heap.cache(self.session).magazines.of(key).pop();
        block.map_or_else(|| self.find_block(state, key, align), |block| Ok(Some((key, block))))
    }

    /// Finds a free block outside of the thread's cache, and fetches others with it.
    #[cold]
    fn find_block(&self, state: &mut State, key: Key, align: u64) -> Result<Option<(Key, Block)>, HeapError> {
        // No cache of a read-only heap holds a block, so each allocation comes here, or to `find_huge`.
        self.heap.check_changes()?;
        // Only the transaction knows a superblock that it makes, so its blocks are found here only.
        if let Some(block) = state.take_made(key) {
            return Ok(Some((key, block)));
        }
        let block = self.fetch_blocks(key);
        let block = block.or_else(|| self.heap.take_ripe().then(|| self.fetch_blocks(key)).flatten());
        if let Some(block) = block {
            return Ok(Some((key, block)));
        }
        let of_length = |chunks| self.heap.take_span(chunks, chunks).map(Room::Superblock);
        let most = key.class.lengths().find(|chunks| *chunks <= self.heap.space.chunks());
        let find = || self.fetch_blocks(key).map(Room::Block).or_else(|| of_length(most?));
        let room = match find() {
            Some(room) => Some(room),
            None => self.heap.reclaim_for(state, find)?,
        };
        match room.or_else(|| key.class.lengths().find_map(of_length)) {
            Some(Room::Block(block)) => Ok(Some((key, block))),
            Some(Room::Superblock(span)) => {
                self.make_superblock(state, span, key);
                Ok(state.take_made(key).map(|block| (key, block)))
            }
            None => {
                let larger = key.class.larger().filter(|class| class.align() >= align);
                let mut keys = larger.map(|class| Key { class, ..key });
                Ok(keys.find_map(|key| Some((key, self.fetch_blocks(key)?))))
            }
        }
    }

    /// Moves free blocks of `key` from the superblocks to the thread's cache, and returns one of them.
    fn fetch_blocks(&self, key: Key) -> Option<Block> {
        let shared = &self.heap.shared;
        // ORDER: none: a thread that sees it late has fetched some more blocks, which are found in its cache.
        let is_short = shared.is_short.load(Ordering::Relaxed);
        let want = if is_short { 1 } else { refill_of(key.class) };
        // Locked until the blocks are in the cache, for a thread that looks for them there.
        let mut cache = self.heap.cache(self.session);
        let blocks = cache.magazines.of(key);
        if blocks.is_empty() {
            shared.central.take_blocks(&self.heap.space, self.heap.memory(), key, want, blocks);
            // Ascending addresses: objects that are made together lie together.
            blocks.reverse();
        }
        blocks.pop()
    }

    /// Makes `span` a superblock of `key`. Its header is part of this transaction's record.
    fn make_superblock(&self, state: &mut State, span: Span, key: Key) {
        let (class, chunks) = (key.class, span.chunks);
        let shape = Superblock::plan(span.len(), class.block_size(), class.align(), key.type_number);
        let bitmap = vec![checked(0); shape.bitmap_words() as usize];
        self.describe(state, span, Descriptor::Superblock { chunks });
        state.writes.store_header(span.start, &shape.encode(span.start.get()), &bitmap);
        let free = FreeBlocks::of(&shape, &vec![0; bitmap.len()]);
        state.made.push(Made { span, shape, key, free, next: Vec::new() });
    }

    fn alloc_huge(
        &self,
        state: &mut State,
        size: u64,
        align: u64,
        type_number: u64,
    ) -> Result<PoolOffset, HeapError> {
        let (span, data_off) = self.find_huge(state, size, align)?;
        let chunks = span.chunks;
        let object = Huge { size, data_off, type_number };
        self.describe(state, span, Descriptor::Huge { chunks });
        state.writes.store_header(span.start, &object.encode(span.start.get()), &[]);
        let at = span.start.plus(data_off);
        state.huge.push(MadeHuge { span, at, size: span.len() - data_off, type_number });
        Ok(at)
    }

    /// Returns a span for a huge object, and the object's offset in the span.
    pub(crate) fn find_huge(
        &self,
        state: &mut State,
        size: u64,
        align: u64,
    ) -> Result<(Span, u64), HeapError> {
        self.heap.check_changes()?;
        let data_off = align_up(SPAN_HEADER, align);
        let len = size.checked_add(data_off + CHUNK - 1).ok_or(out_of_space(size))?;
        let span = self.heap.find_span(state, len / CHUNK, 1)?.ok_or(out_of_space(size))?;
        Ok((span, data_off))
    }

    pub(crate) fn describe(&self, state: &mut State, span: Span, descriptor: Descriptor) {
        let at = self.heap.space.descriptor_at(span.start).expect("spans lie in extents");
        state.writes.store_words(at, &[descriptor.encode()]);
    }

    /// Frees the object that begins at `at`.
    ///
    /// # Errors
    /// [`HeapError::NoObject`] when no allocated object begins there; [`HeapError::Corrupt`].
    ///
    /// # Cost
    /// 16 bytes of the record.
    pub fn free(&self, at: PoolOffset) -> Result<(), HeapError> {
        let state = &mut *self.session.state.borrow_mut();
        let none = HeapError::NoObject { at };
        if let Some((block, key, _)) = state.made_block(at) {
            return if state.has_taken(block) { self.free_block(state, key, block) } else { Err(none) };
        }
        if let Some(huge) = state.made_huge(at) {
            return self.free_span(state, huge.span, none);
        }
        let memory = self.memory;
        match self.heap.space.find(memory, at)? {
            Found::Block { block, span, class, shape } => {
                if !self.is_allocated(state, block)? {
                    return Err(none);
                }
                self.heap.shared.central.meet_superblock(&self.heap.space, memory, span);
                self.free_block(state, Key { class, type_number: shape.type_number }, block)
            }
            Found::Huge { span, .. } => {
                self.heap.shared.central.meet_span(&self.heap.space, memory, span.start);
                self.free_span(state, span, none)
            }
        }
    }

    /// Returns true if the block was allocated before the transaction or by it.
    fn is_allocated(&self, state: &State, block: Block) -> Result<bool, HeapError> {
        let bits = unchecked(self.memory.load8(block.word))
            .ok_or(HeapError::Corrupt { what: "the allocation bitmap", at: block.word })?;
        Ok(bits & block.mask() != 0 || state.has_taken(block))
    }

    fn free_block(&self, state: &mut State, key: Key, block: Block) -> Result<(), HeapError> {
        if state.has_freed(block.at) {
            return Err(HeapError::NoObject { at: block.at });
        }
        state.writes.clear_bits(block.word, block.mask());
        state.add_freed(Freed::Block(key, block));
        Ok(())
    }

    fn free_span(&self, state: &mut State, span: Span, none: HeapError) -> Result<(), HeapError> {
        if state.has_freed(span.start) {
            return Err(none);
        }
        self.describe(state, span, Descriptor::Free);
        state.add_freed(Freed::Span(span));
        Ok(())
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
        let state = self.session.state.borrow();
        let none = HeapError::NoObject { at };
        if let Some((block, key, shape)) = state.made_block(at) {
            let there = !state.has_freed(at) && state.has_taken(block);
            return if there { Ok((shape.block_size, key.type_number)) } else { Err(none) };
        }
        if let Some(huge) = state.made_huge(at) {
            let there = !state.has_freed(huge.span.start);
            return if there { Ok((huge.size, huge.type_number)) } else { Err(none) };
        }
        match self.heap.space.find(self.memory, at)? {
            Found::Block { block, shape, .. }
                if !state.has_freed(at) && self.is_allocated(&state, block)? =>
            {
                Ok((shape.block_size, shape.type_number))
            }
            Found::Huge { span, object } if !state.has_freed(span.start) => {
                Ok((span.len() - object.data_off, object.type_number))
            }
            _ => Err(none),
        }
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
            Err(HeapError::OutOfSpace { .. }) if holds => return Ok(at),
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
        self.free(at).inspect_err(|_| self.doom())?;
        Ok(moved)
    }
}
