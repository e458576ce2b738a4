//! The trees to which leaves belong that nothing leads to.
//!
//! A leaf has its key, but not the name of its tree. It belongs to a tree with certainty if no other tree can have lost
//! it: its key lies in none of the ranges in which the other trees have lost slots, and their counts are explained. A
//! leaf that no tree can have lost comes from a tree that damage made look empty, or of which nothing else is left. The
//! ranges of that tree are unknown, so then no leaf belongs to a tree with certainty.

use super::survey::{LooseLeaf, Survey, SurveyedTree};
use lode_fsck::LostRange;
use std::iter;
use std::ops::Range;

/// Returns for each leaf of the survey the number of the tree to which it belongs; `None` if that is not certain.
pub(super) fn place(survey: &Survey) -> Vec<Option<usize>> {
    let (leaves, leaves_max) = (&survey.leaves, survey.leaves_max);
    let mut ranges: Vec<_> = survey.trees.iter().map(|tree| ranges(tree, leaves, leaves_max)).collect();
    loop {
        let (placed, counts) = unique(&ranges, leaves.len());
        // A slot that is zero by damage can have been anywhere: if the ranges of a tree explain too little, it may have
        // lost any leaf. What other trees may have lost as well explains nothing.
        let is_unexplained = |number: usize| {
            let tree = &survey.trees[number];
            let explained = counts[number] + tree.losses.lost_leaves.len() as u64;
            ranges[number] != everything(leaves)
                && missing(tree, leaves_max).is_some_and(|missing| explained < missing)
        };
        let unexplained: Vec<usize> = (0..ranges.len()).filter(|number| is_unexplained(*number)).collect();
        for number in &unexplained {
            ranges[*number] = everything(leaves);
        }
        if unexplained.is_empty() {
            let Some(placed) = placed else { return vec![None; leaves.len()] };
            // More leaves than the tree has lost: some belong to a tree of which nothing else is left.
            let is_certain = |number: usize| {
                missing(&survey.trees[number], leaves_max).is_none_or(|missing| counts[number] <= missing)
            };
            return placed.into_iter().map(|tree| tree.filter(|tree| is_certain(*tree))).collect();
        }
    }
}

/// Returns for each leaf the tree in whose ranges it lies, if that is one tree, and the number of such leaves of each
/// tree. `None` if a leaf lies in no range.
fn unique(ranges: &[Vec<Range<usize>>], leaves: usize) -> (Option<Vec<Option<usize>>>, Vec<u64>) {
    // The number of trees that may have lost the leaf, and one of them.
    let mut candidates = vec![(0u64, 0); leaves];
    for (number, ranges) in ranges.iter().enumerate() {
        for range in ranges {
            for candidate in &mut candidates[range.clone()] {
                *candidate = (candidate.0 + 1, number);
            }
        }
    }
    let mut counts = vec![0; ranges.len()];
    let placed: Vec<Option<usize>> =
        candidates.iter().map(|(count, tree)| (*count == 1).then_some(*tree)).collect();
    placed.iter().flatten().for_each(|tree| counts[*tree] += 1);
    (candidates.iter().all(|(count, _)| *count > 0).then_some(placed), counts)
}

/// Returns the number of leaves that the tree has lost. `None` if that is unknown: its count is lost or damaged.
fn missing(tree: &SurveyedTree, leaves_max: u64) -> Option<u64> {
    let missing = tree.losses.counted.wrapping_sub(tree.losses.leaves);
    (tree.has_root && missing <= leaves_max).then_some(missing)
}

/// Returns the ranges of leaves that the tree may have lost, disjoint, as ranges of their numbers.
fn ranges(tree: &SurveyedTree, leaves: &[LooseLeaf], leaves_max: u64) -> Vec<Range<usize>> {
    let losses = &tree.losses;
    if !tree.has_root {
        return everything(leaves);
    }
    let misdirected = losses.misdirected.iter().map(|slot| &slot.range);
    let gaps = losses.lost.iter().chain(&losses.suspect).chain(misdirected);
    let mut found: Vec<Range<usize>> = gaps.map(|gap| numbers(gap, leaves)).collect();
    found.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in found {
        match joined.last_mut().filter(|last| range.start <= last.end) {
            Some(last) => last.end = last.end.max(range.end),
            None => joined.push(range),
        }
    }
    if missing(tree, leaves_max) == Some(0) { Vec::new() } else { joined }
}

/// Returns one range of all leaves.
fn everything(leaves: &[LooseLeaf]) -> Vec<Range<usize>> {
    iter::once(0..leaves.len()).collect()
}

/// Returns the numbers of the leaves whose keys lie in the range.
fn numbers(range: &LostRange, leaves: &[LooseLeaf]) -> Range<usize> {
    let start = range.after.as_deref().map_or(0, |after| leaves.partition_point(|leaf| *leaf.1 <= *after));
    let end = range
        .before
        .as_deref()
        .map_or(leaves.len(), |before| leaves.partition_point(|leaf| *leaf.1 < *before));
    start..end.max(start)
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::losses::Losses;
    use lode_layout::PoolOffset;

    /// A tree that has lost so many leaves, some of them in these ranges.
    fn tree(missing: u64, gaps: &[(&[u8], &[u8])]) -> SurveyedTree {
        let gap = |(after, before): &(&[u8], &[u8])| LostRange {
            tree: None,
            after: Some(after.to_vec()),
            before: Some(before.to_vec()),
        };
        let suspect = gaps.iter().map(gap).collect();
        SurveyedTree {
            root: PoolOffset::new(64),
            entry: None,
            is_entry_loose: false,
            has_root: true,
            losses: Losses { counted: 10 + missing, leaves: 10, suspect, ..Losses::default() },
        }
    }

    fn place_in(trees: Vec<SurveyedTree>, keys: &[&[u8]]) -> Vec<Option<usize>> {
        let leaves = keys.iter().map(|key| (PoolOffset::new(64), key.to_vec())).collect();
        place(&Survey { trees, leaves, leaves_max: 1 << 20, ..Survey::default() })
    }

    #[test]
    fn leaf_belongs_to_the_only_tree_that_lost_its_range() {
        let trees = vec![tree(0, &[]), tree(1, &[(b"b", b"d")]), tree(1, &[(b"p", b"r")])];
        assert_eq!(place_in(trees, &[b"c", b"q"]), [Some(1), Some(2)]);
    }

    #[test]
    fn leaf_that_no_tree_lost_makes_all_uncertain() {
        let trees = || vec![tree(0, &[]), tree(1, &[(b"b", b"d")]), tree(1, &[(b"p", b"r")])];
        assert_eq!(place_in(trees(), &[b"c", b"q", b"z"]), [None, None, None]);
    }

    #[test]
    fn leaf_in_ranges_of_two_trees_is_uncertain() {
        let trees = vec![tree(2, &[(b"a", b"d")]), tree(1, &[(b"c", b"e")])];
        assert_eq!(place_in(trees, &[b"b", b"c1"]), [None, None]);
        // Ranges of one tree that overlap are those of one tree.
        let twice = vec![tree(1, &[(b"a", b"d"), (b"a", b"d")])];
        assert_eq!(place_in(twice, &[b"b"]), [Some(0)]);
    }

    #[test]
    fn count_shows_that_a_slot_was_lost_anywhere() {
        assert_eq!(place_in(vec![tree(0, &[]), tree(1, &[])], &[b"k"]), [Some(1)]);
        let trees = vec![tree(1, &[]), tree(1, &[(b"a", b"z")])];
        assert_eq!(place_in(trees, &[b"k", b"~"]), [None, None]);
    }

    #[test]
    fn more_leaves_than_the_tree_has_lost_are_uncertain() {
        assert_eq!(place_in(vec![tree(1, &[(b"a", b"z")])], &[b"k", b"l"]), [None, None]);
        // A count that can't be right is no evidence.
        assert_eq!(place_in(vec![tree(1 << 60, &[(b"a", b"m")])], &[b"k", b"l"]), [Some(0), Some(0)]);
    }

    #[test]
    fn tree_without_root_object_may_have_lost_everything() {
        let rootless = || SurveyedTree { has_root: false, ..tree(0, &[]) };
        assert_eq!(place_in(vec![rootless()], &[b"k", b"l"]), [Some(0), Some(0)]);
        assert_eq!(place_in(vec![rootless(), rootless()], &[b"k"]), [None]);
    }
}
