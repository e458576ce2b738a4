//! The reads of a transaction, and the proof that they still hold: transactions are serializable.
//!
//! A read loads words under the lock of an offset, its *guard*, without taking the lock. The transaction notes the
//! guard, the number of the last transaction that changed words under it, and a way to read again. The rules:
//!
//! 1. *A read is of one moment.* The version of the lock is loaded before and after the words. If it has changed, the
//!    words are read again, and a fault of the first read does not count: a pointer and a length that do not go together
//!    may lead anywhere. If another transaction holds the lock for this guard, the reader waits. A lock that is held for another offset of its stripe is as good
//!    as open: its holder changes none of these words.
//! 2. *All reads are of one moment*, also while the closure runs. The transaction has a *snapshot*: a number up to
//!    which it sees all transactions. A read under a lock whose number is not greater belongs to the snapshot. At a
//!    greater number, all earlier reads are compared, and the snapshot moves up to the number of the last commit; the
//!    closure starts again if one of them has changed.
//! 3. *What was read still holds at the commit.* A transaction that changes something compares all its reads again,
//!    once it holds all its locks and before its record is written. So it could as well have run in that moment. A
//!    transaction that changes nothing could as well have run at its snapshot, and compares nothing.
//! 4. *A number that moved is no conflict yet.* The words are read again, by rule 1. Only if they differ the closure starts
//!    again. So a transaction that shares a stripe, or a node of a tree, and changes other words in it, restarts no
//!    other transaction. Equal words mean equal content: the transaction is pinned, so no object that it has seen is
//!    used again.
//! 5. Words under a lock that the transaction holds itself stay as they are. They are compared with the snapshot, and
//!    not noted.
//!
//! Comparing is a pass over all reads. After a pass that found numbers moved, and words equal, another pass follows,
//! until all numbers are as in the pass before. Between these two passes there was a moment at which all words were as
//! they were read.
//!
//! A number is the transaction's place in the log, which is drawn with all its locks held. So a reader that finds
//! the log at number n sees each transaction up to n at work, or done: its locks are held, or released.
//!
//! The comparison itself is in `validation.rs`.
//!
//! A transaction that was restarted often becomes the *senior*, one at a time. Its reads take their locks. It waits
//! for each as long as it has to, and no other transaction takes the lock for which it waits. Its holder gives up soon
//! if it waits for another one.
//!
//! # Cost
//! A read: two loads of the lock's word, and a note of 64 bytes; at a commit that changes something, one more load. A
//! transaction that reads nothing in this way pays nothing.

use crate::held_locks::HeldLocks;
use crate::locks::{LockTable, Tag, Version};
use crate::readers::{DetachedPin, Readers};
use crate::writes::write_set::WriteSet;
use lode_layout::PoolOffset;
use lode_pmem::Readable;
use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

/// A read: words under the lock of `guard`, in a form that its [`ReadCheck`] understands.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    /// The offset whose lock guards the words.
    pub guard: PoolOffset,
    /// The places of the words, and their contents.
    pub words: [u64; 5],
}

/// Reads again, and returns true if a [`Read`] still holds. Words that are guarded by another lock now are no
/// difference: the check then sets the new guard, and is called again.
pub type ReadCheck = fn(&Reread<'_>, &mut Read) -> bool;

/// The pool for a [`ReadCheck`]: as the transaction found it. Objects that the transaction has made are there, too.
#[derive(Debug)]
pub struct Reread<'a> {
    pub(crate) memory: &'a Readable,
    pub(crate) writes: RefCell<&'a mut WriteSet>,
    /// True if the words are read as they were before the transaction's own changes.
    pub(crate) is_below: bool,
}

impl Reread<'_> {
    /// Returns the aligned word at `at`.
    #[inline]
    pub fn load8(&self, at: PoolOffset) -> u64 {
        let writes = &mut *self.writes.borrow_mut();
        if self.is_below { writes.load8_below(self.memory, at) } else { writes.load8(self.memory, at) }
    }

    /// Copies the range that begins at `at`.
    pub fn read(&self, at: PoolOffset, into: &mut [u8]) {
        let writes = &mut *self.writes.borrow_mut();
        if self.is_below {
            writes.read_below(self.memory, at, into);
        } else {
            writes.read(self.memory, at, into);
        }
    }

    /// Returns a copy of the `len` bytes from `at` on; none if the pool does not have so many.
    pub(crate) fn bytes(&self, at: PoolOffset, len: u64) -> Vec<u8> {
        if at.get().checked_add(len).is_none_or(|end| end > self.memory.len()) {
            return Vec::new();
        }
        let mut bytes = vec![0; len as usize];
        self.read(at, &mut bytes);
        bytes
    }

    /// Returns the pool's bytes, without changes of transactions that wait for their sync.
    pub fn memory(&self) -> &Readable {
        self.memory
    }
}

impl Read {
    /// Returns the words that [`Tx::read_noted`](crate::Tx::read_noted) got.
    pub(crate) fn noted_words(&self) -> [u64; 3] {
        [self.words[0], self.words[1], self.words[2]]
    }

    /// Returns true if the last word is the digest of `bytes`. Of two contents that differ, one is taken for the other
    /// with probability 2^-64.
    pub(crate) fn is_digest(&self, bytes: &[u8]) -> bool {
        self.words[4] == digest(bytes)
    }
}

/// Returns the digest of `bytes`. Its key is the process's own, so contents with the same digest can't be prepared.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    KEY.get_or_init(RandomState::new).hash_one(bytes)
}

/// A read, and when it was compared last.
#[derive(Debug)]
pub(crate) struct Dependency {
    pub(crate) read: Read,
    /// The version of the guard's lock, open.
    pub(crate) version: Version,
    pub(crate) check: ReadCheck,
}

/// All that a transaction has read.
#[derive(Debug, Default)]
pub(crate) struct ReadSet {
    pub(crate) dependencies: Vec<Dependency>,
    /// Number up to which the transaction sees all others.
    pub(crate) snapshot: u64,
    pub(crate) pin: Option<DetachedPin>,
}

/// Maximum number of dependencies whose memory is kept for the next transaction.
const KEPT_MAX: usize = 4096;

impl ReadSet {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.dependencies.is_empty()
    }

    /// Returns true if the number of no read's lock has moved since the read was compared last, and no other transaction
    /// holds one of the locks. `held` are those of this transaction.
    #[cold]
    pub(crate) fn hold_still(&self, locks: &LockTable, held: &HeldLocks) -> bool {
        self.dependencies.iter().all(|Dependency { read, version, .. }| {
            let stripe = locks.stripe(read.guard);
            let now = locks.version(stripe);
            let is_free = !now.is_held_for(Tag::of(read.guard)) || held.contains(stripe);
            is_free && now.number() == version.number()
        })
    }

    #[inline]
    pub(crate) fn clear(&mut self, readers: &Readers) {
        if self.dependencies.capacity() > KEPT_MAX {
            self.dependencies = Vec::new();
        } else {
            self.dependencies.clear();
        }
        self.snapshot = 0;
        if let Some(pin) = self.pin.take() {
            readers.unpin(pin);
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, read: Read, number: u64, check: ReadCheck) {
        self.dependencies.push(Dependency { read, version: Version::of_number(number), check });
    }
}
