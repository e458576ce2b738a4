//! Scans of a transaction in batches, between which it may change the tree.
//!
//! A batch is read in one go, and then handed out entry by entry. The first batches are short, since most scans are: a
//! scan reads at most about twice the entries that it hands out.

use crate::error::Result;
use crate::tree_def::{decode_owned_key, decode_value};
use crate::value::Value;
use lode_index::{Direction, Entry, IndexError, KeyBounds, exclude};
use lode_layout::Key;
use std::collections::VecDeque;
use std::mem;
use std::ops::Bound;

/// Entries of the first batch, and of the longest one.
const BATCH: (usize, usize) = (4, 1024);
/// Bytes of keys and values after which a batch ends.
const BATCH_LEN: usize = 256 << 10;

/// A tree that can be scanned.
pub(crate) trait Scan {
    /// Passes the entries between the bounds to `take`, in this direction, until that returns false. Shows no deletion that
    /// was deferred.
    fn scan(
        &self,
        bounds: KeyBounds,
        direction: Direction,
        take: &mut dyn FnMut(Entry) -> bool,
    ) -> Result<()>;

    /// Makes the deletions that were deferred.
    fn apply_deferred(&self) -> Result<()>;

    /// Returns a number that changes with each change, deferred or not.
    fn edits(&self) -> u64;
}

/// Passes the entries of a scan to `take`, until that returns false.
pub(crate) fn take_entries(
    mut entries: impl DoubleEndedIterator<Item = std::result::Result<Entry, IndexError>>,
    direction: Direction,
    take: &mut dyn FnMut(Entry) -> bool,
) -> std::result::Result<(), IndexError> {
    loop {
        let Some(entry) = direction.next(&mut entries).transpose()? else { return Ok(()) };
        if !take(entry) {
            return Ok(());
        }
    }
}

/// The entries of a range, from both ends.
#[derive(Debug)]
pub(crate) struct Batches {
    /// The part of the range that no batch has.
    rest: KeyBounds,
    is_done: bool,
    /// Entries that were read from the front, ascending, and from the back, descending.
    front: VecDeque<Entry>,
    back: VecDeque<Entry>,
    batch: usize,
    edits: u64,
    /// True if deletions that were deferred may be in the range. The others are of entries that were handed out.
    is_new: bool,
    /// The part of the range that was not handed out.
    left: KeyBounds,
}

impl Batches {
    pub(crate) fn new(bounds: KeyBounds, edits: u64) -> Batches {
        let (front, back) = Default::default();
        Batches {
            left: bounds.clone(),
            rest: bounds,
            is_done: false,
            front,
            back,
            batch: BATCH.0,
            edits,
            is_new: true,
        }
    }

    /// Returns the entries of a whole tree for a caller that may want only the first one.
    pub(crate) fn one_by_one(scan: &impl Scan) -> Batches {
        let bounds = (Bound::Unbounded, Bound::Unbounded);
        Batches { batch: 1, ..Batches::new(bounds, scan.edits()) }
    }

    /// Returns true if the transaction has made no change but those that are known.
    pub(crate) fn knows_edits(&self, scan: &impl Scan) -> bool {
        self.edits == scan.edits()
    }

    /// Takes one change for known, the caller's own removal of what was handed out: it does not change what the batches
    /// hold.
    pub(crate) fn know_removal(&mut self) {
        self.edits += 1;
    }

    /// Returns the next entry from one end.
    pub(crate) fn next(&mut self, scan: &impl Scan, direction: Direction) -> Option<Result<Entry>> {
        if !self.knows_edits(scan) {
            self.forget(scan);
        }
        let is_forward = direction == Direction::Forward;
        let own = if is_forward { &mut self.front } else { &mut self.back };
        if own.is_empty()
            && !self.is_done
            && let Err(error) = self.fill(scan, direction)
        {
            self.is_done = true;
            self.front.clear();
            self.back.clear();
            return Some(Err(error));
        }
        // What the other end has read and not handed out comes last.
        let entry = if is_forward {
            self.front.pop_front().or_else(|| self.back.pop_back())
        } else {
            self.back.pop_front().or_else(|| self.front.pop_back())
        }?;
        exclude(if is_forward { &mut self.left.0 } else { &mut self.left.1 }, &entry.key);
        Some(Ok(entry))
    }

    /// Returns the key of the entry that [`next`](Batches::next) returned last from this end.
    pub(crate) fn last_key(&self, direction: Direction) -> &[u8] {
        let bound = if direction == Direction::Forward { &self.left.0 } else { &self.left.1 };
        match bound {
            Bound::Included(key) | Bound::Excluded(key) => key,
            Bound::Unbounded => &[],
        }
    }

    fn fill(&mut self, scan: &impl Scan, direction: Direction) -> Result<()> {
        if mem::take(&mut self.is_new) {
            scan.apply_deferred()?;
        }
        let (limit, mut len) = (self.batch, 0);
        let own = if direction == Direction::Forward { &mut self.front } else { &mut self.back };
        let mut is_full = false;
        scan.scan(self.rest.clone(), direction, &mut |entry| {
            len += entry.key.len() + entry.value.len();
            own.push_back(entry);
            is_full = own.len() >= limit || len >= BATCH_LEN;
            !is_full
        })?;
        self.batch = (limit * 2).min(BATCH.1);
        self.is_done = !is_full;
        if let Some(last) = own.back() {
            let is_forward = direction == Direction::Forward;
            exclude(if is_forward { &mut self.rest.0 } else { &mut self.rest.1 }, &last.key);
        }
        Ok(())
    }

    /// Forgets what was read and not handed out, since it may have changed.
    #[cold]
    fn forget(&mut self, scan: &impl Scan) {
        self.edits = scan.edits();
        self.front.clear();
        self.back.clear();
        self.rest = self.left.clone();
        self.is_done = false;
        self.is_new = true;
        self.batch = BATCH.0;
    }
}

/// Decodes an entry.
pub(crate) fn decode<K: Key, V: Value>(entry: Entry) -> Result<(K, V)> {
    Ok((decode_owned_key(entry.key)?, decode_value(entry.value)?))
}
