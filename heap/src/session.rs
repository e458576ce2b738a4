//! The state that a thread keeps for a heap: its current transaction, and its cache of free blocks.

use crate::alloc::cache::ThreadCache;
use crate::alloc::central::FreeBlocks;
use crate::alloc::limbo::Freed;
use crate::alloc::{Block, Class, Key, Span};
use crate::locks::Stripe;
use crate::sync::thread_local;
use crate::writeset::WriteSet;
use lode_layout::{CHUNK, PoolOffset, Superblock};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::{Arc, Weak};

/// The shared part of a heap, which takes over the cache of a thread at its exit.
pub(crate) trait Inherit: Send + Sync {
    /// Makes a cache for the calling thread.
    fn add_cache(&self) -> Arc<ThreadCache>;

    /// Takes all blocks of the cache, whose thread exits.
    fn inherit(&self, cache: &Arc<ThreadCache>);
}

/// A superblock that the running transaction makes.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) span: Span,
    pub(crate) shape: Superblock,
    pub(crate) key: Key,
    /// Blocks that the transaction has not taken, except those in `next`.
    pub(crate) free: FreeBlocks,
    /// Blocks that the transaction takes next, the first one at the end.
    pub(crate) next: Vec<Block>,
}

impl Made {
    /// Takes a block that the transaction has not taken.
    fn take(&mut self) -> Option<Block> {
        if self.next.is_empty() {
            self.free.take(self.span.start, &self.shape, refill_of(self.key.class), &mut self.next);
            // Ascending addresses: objects that are made together lie together.
            self.next.reverse();
        }
        self.next.pop()
    }
}

/// An object in a span of its own that the running transaction makes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MadeHuge {
    pub(crate) span: Span,
    pub(crate) at: PoolOffset,
    pub(crate) size: u64,
    pub(crate) type_number: u64,
}

/// The state of the running transaction, its own until it is over.
pub(crate) struct State {
    pub(crate) writes: WriteSet,
    pub(crate) taken: Vec<(Key, Block)>,
    pub(crate) made: Vec<Made>,
    pub(crate) huge: Vec<MadeHuge>,
    pub(crate) freed: Vec<Freed>,
    freed_set: HashSet<u64>,
    pub(crate) held: Vec<Stripe>,
    /// Maximum length of the record in words, once it was looked up.
    pub(crate) words_allowed: Option<u64>,
    /// Bytes of changes that were wanted when the transaction turned out to be too large, and the limit.
    pub(crate) too_large: Option<(u64, u64)>,
    /// Set if a lock could not be had: the closure is to be started again.
    pub(crate) conflict: bool,
    /// Set if that lock comes before one that was held.
    pub(crate) is_crossed: bool,
    /// Set if a nested closure failed: the whole transaction must fail.
    pub(crate) doomed: bool,
    /// Set if no space could be had.
    pub(crate) starved: bool,
    /// Set if no space could be had in the transaction before.
    pub(crate) was_starved: bool,
}

/// Number of frees above which double frees are looked for by hash.
const FEW: usize = 16;

impl State {
    fn new() -> State {
        State {
            writes: WriteSet::new(),
            taken: Vec::new(),
            made: Vec::new(),
            huge: Vec::new(),
            freed: Vec::new(),
            freed_set: HashSet::new(),
            held: Vec::new(),
            words_allowed: None,
            too_large: None,
            conflict: false,
            is_crossed: false,
            doomed: false,
            starved: false,
            was_starved: false,
        }
    }

    /// Returns true if the transaction has allocated `block`.
    pub(crate) fn has_taken(&self, block: Block) -> bool {
        self.taken.iter().any(|(_, taken)| *taken == block)
    }

    /// Returns true if the transaction has already freed the object or span that begins at `at`.
    pub(crate) fn has_freed(&self, at: PoolOffset) -> bool {
        if self.freed.len() > FEW {
            return self.freed_set.contains(&at.get());
        }
        self.freed.iter().any(|freed| match freed {
            Freed::Block(_, block) => block.at == at,
            Freed::Span(span) => span.start == at,
        })
    }

    pub(crate) fn add_freed(&mut self, freed: Freed) {
        let place = |freed: &Freed| match freed {
            Freed::Block(_, block) => block.at.get(),
            Freed::Span(span) => span.start.get(),
        };
        self.freed.push(freed);
        if self.freed.len() > FEW {
            if self.freed_set.is_empty() {
                self.freed_set.extend(self.freed.iter().map(place));
            } else {
                self.freed_set.insert(place(&freed));
            }
        }
    }

    /// Returns the block that begins at `at` in a superblock that this transaction makes.
    pub(crate) fn made_block(&self, at: PoolOffset) -> Option<(Block, Key, Superblock)> {
        let inside = |made: &&Made| at >= made.span.start && at < made.span.start.plus(made.span.len());
        let made = self.made.iter().find(inside)?;
        let into = at.get().checked_sub(made.span.start.get() + made.shape.data_off)?;
        let index = into / made.shape.block_size;
        let exact = index * made.shape.block_size == into && index < made.shape.block_count;
        exact.then(|| (Block::of(made.span.start, &made.shape, index), made.key, made.shape))
    }

    /// Takes a block of a superblock of `key` that this transaction makes.
    pub(crate) fn take_made(&mut self, key: Key) -> Option<Block> {
        self.made.iter_mut().rev().filter(|made| made.key == key).find_map(Made::take)
    }

    pub(crate) fn made_huge(&self, at: PoolOffset) -> Option<MadeHuge> {
        self.huge.iter().find(|huge| huge.at == at).copied()
    }

    /// Resets the state after a transaction. Its blocks and spans were dealt with before.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.writes.clear();
        if self.has_blocks() {
            self.forget_blocks();
        }
        self.words_allowed = None;
        self.too_large = None;
        self.conflict = false;
        self.is_crossed = false;
        self.doomed = false;
        self.was_starved = std::mem::take(&mut self.starved);
    }

    /// Returns true if blocks or spans were taken or freed. Looks at the set of freed ones, too: a commit empties the
    /// list, and leaves the set.
    #[inline]
    fn has_blocks(&self) -> bool {
        let lists = [self.taken.len(), self.made.len(), self.huge.len(), self.freed.len()];
        lists.iter().any(|len| *len > 0) || !self.freed_set.is_empty()
    }

    #[cold]
    fn forget_blocks(&mut self) {
        self.taken.clear();
        self.made.clear();
        self.huge.clear();
        self.freed.clear();
        self.freed_set = HashSet::new();
    }
}

/// A thread's state for one heap.
pub(crate) struct Session {
    heap: u64,
    pub(crate) active: Cell<bool>,
    pub(crate) state: RefCell<State>,
    pub(crate) cache: Arc<ThreadCache>,
    heir: Weak<dyn Inherit>,
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(heir) = self.heir.upgrade() {
            heir.inherit(&self.cache);
        }
    }
}

thread_local! {
    static SESSIONS: RefCell<Vec<Rc<Session>>> = const { RefCell::new(Vec::new()) };
}

impl Session {
    /// Returns this thread's session for the heap number `heap`.
    #[inline]
    pub(crate) fn of(heap: u64, heir: impl FnOnce() -> Arc<dyn Inherit>) -> Rc<Session> {
        let known = SESSIONS.with(|sessions| {
            let sessions = sessions.borrow();
            sessions.iter().find(|session| session.heap == heap).map(Rc::clone)
        });
        known.unwrap_or_else(|| Session::begin(heap, heir()))
    }

    #[cold]
    fn begin(heap: u64, heir: Arc<dyn Inherit>) -> Rc<Session> {
        let (active, state) = (Cell::new(false), RefCell::new(State::new()));
        let (cache, heir) = (heir.add_cache(), Arc::downgrade(&heir));
        let session = Rc::new(Session { heap, active, state, cache, heir });
        SESSIONS.with(|sessions| {
            let sessions = &mut *sessions.borrow_mut();
            // Sessions of closed heaps have no heir any more.
            sessions.retain(|session| session.active.get() || session.heir.strong_count() > 0);
            sessions.push(Rc::clone(&session));
        });
        session
    }

    /// Ends this thread's session for the heap number `heap`, if it has one.
    pub(crate) fn end(heap: u64) {
        // A thread whose thread-local storage is gone has no session either.
        let _ = SESSIONS.try_with(|sessions| sessions.borrow_mut().retain(|session| session.heap != heap));
    }
}

/// Returns the number of blocks of `class` that a thread fetches at a time. It is small enough to leave blocks of a
/// small pool to other threads.
pub(crate) fn refill_of(class: Class) -> usize {
    let per_chunk = (CHUNK / class.block_size()).max(1) as usize;
    crate::alloc::magazine::REFILL.min(per_chunk.div_ceil(4))
}
