//! Losses: the parts of a damaged tree that a pass unlinked, and the ranges of keys that are lost with them.

use lode_fsck::LostRange;
use lode_layout::PoolOffset;
use std::collections::HashSet;

/// Findings of a pass over one tree.
#[derive(Debug)]
pub(crate) struct Losses {
    /// Number of keys that the tree counted before the pass.
    pub(crate) counted: u64,
    /// Number of leaves that stay.
    pub(crate) leaves: u64,
    /// Ranges in which leaves were damaged.
    pub(crate) lost: Vec<LostRange>,
    /// The damaged leaves.
    pub(crate) lost_leaves: HashSet<PoolOffset>,
    /// Ranges in which something was unlinked that may have had leaves below it.
    pub(crate) suspect: Vec<LostRange>,
    /// Slots that led to leaves of other keys.
    pub(crate) misdirected: Vec<MisdirectedSlot>,
    /// Number of cleared slots that led to one leaf at most, without those of damaged leaves. `None` if a cleared slot
    /// may have led to a subtree.
    pub(crate) cleared: Option<u64>,
    /// True if a slot led to a place without an object.
    pub(crate) is_dangling: bool,
}

/// The state of a tree at the end of its repair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aftermath<'a> {
    /// Leaves that were inserted again, sorted by their keys.
    pub(crate) reinserted: &'a [(PoolOffset, Vec<u8>)],
    /// Number of leaves in the end.
    pub(crate) leaves: u64,
    /// True if a leaf to which no slot led is damaged, and no slot to it was cleared.
    pub(crate) has_unlisted_loss: bool,
    /// True if the count is evidence: something other than the unlinked leaves may be missing.
    pub(crate) trusts_count: bool,
    /// True if the pool had a tree that is lost.
    pub(crate) was_lost: bool,
}

impl Default for Losses {
    fn default() -> Losses {
        Losses {
            counted: 0,
            leaves: 0,
            lost: Vec::new(),
            lost_leaves: HashSet::new(),
            suspect: Vec::new(),
            misdirected: Vec::new(),
            cleared: Some(0),
            is_dangling: false,
        }
    }
}

impl Losses {
    /// Returns the ranges in which keys are lost.
    ///
    /// If the heap was sound, every leaf that was unlinked was still allocated: it was inserted again, or is damaged
    /// itself, or another leaf's bytes lie over it, which `misdirected` shows. So the count is evidence only if the heap
    /// was not sound. The count may be damaged as well.
    pub(crate) fn ranges(self, after: &Aftermath<'_>) -> Vec<LostRange> {
        let missing = self.counted.wrapping_sub(after.leaves).wrapping_sub(self.lost_leaves.len() as u64);
        let is_short = missing != 0 && (self.is_dangling || after.trusts_count);
        let mut ranges = self.lost;
        if after.has_unlisted_loss || is_short {
            ranges.extend(self.suspect);
        }
        ranges.extend(self.misdirected.into_iter().filter_map(|slot| slot.lost(after.reinserted)));
        let is_explained =
            after.reinserted.is_empty() && self.cleared.is_some_and(|cleared| missing <= cleared);
        if after.was_lost || after.has_unlisted_loss || is_short && !is_explained {
            ranges.push(LostRange::default());
        }
        ranges
    }
}

/// A slot that led to the leaf of another key.
#[derive(Debug)]
pub(crate) struct MisdirectedSlot {
    /// Range of the keys that the slot may have been for.
    pub(crate) range: LostRange,
    /// The leaf that it led to, if that can't be the one that the slot was for.
    pub(crate) other: Option<PoolOffset>,
}

impl MisdirectedSlot {
    /// Adds it to `all`, or joins it with the last one there, if that has the same range.
    pub(crate) fn add_to(self, all: &mut Vec<MisdirectedSlot>) {
        match all.last_mut().filter(|last| last.range == self.range) {
            Some(last) if last.other == self.other => {}
            Some(last) => last.other = None,
            None => all.push(self),
        }
    }

    /// Returns the range if a key in it is lost. `reinserted` has the leaves that the repair inserted again, by key.
    ///
    /// If the slot was damaged, its own leaf is intact, so that leaf is one of `reinserted` and no key is lost. If
    /// `reinserted` has no leaf for the range, the leaf was overwritten and its key is lost. One leaf accounts for all
    /// slots with the same range. So a loss next to other damage in the same node may go unreported.
    fn lost(self, reinserted: &[(PoolOffset, Vec<u8>)]) -> Option<LostRange> {
        let after = self.range.after.as_deref();
        let first = reinserted.partition_point(|(_, key)| after.is_some_and(|after| key.as_slice() <= after));
        let explains =
            |(at, key): &(PoolOffset, Vec<u8>)| Some(*at) != self.other && self.range.contains(key);
        // Only one leaf is the one that the slot led to.
        (!reinserted[first..].iter().take(2).any(explains)).then_some(self.range)
    }
}
