//! An oracle for transactions whose reads count: some order of them, one after the other, explains all that they read
//! and what they leave.

use crate::{HistoryPrefix, Operation, Outcome};
use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;

/// The contents that are legal after a power cut, for operations that are strictly serializable.
///
/// An order holds all operations that returned and some of those in flight or in doubt. An operation that returned
/// before another one began comes first. Each operation reads what the ones before it leave.
///
/// # Cost
/// A search over the operations that overlap: a few states for each operation, with up to three threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SerialOrders<C> {
    ends: Vec<C>,
}

/// The operations of one thread, or one that may take effect at any later time.
struct Sequence<'h, T>(Vec<&'h Operation<T>>);

impl<C: Clone + Eq + Hash> SerialOrders<C> {
    /// Returns the oracle for a power cut at `history`, if the content was `initial` before the run. `apply` applies an
    /// operation to a content, and returns false if the operation read anything that the content does not have.
    pub fn new<T: Clone>(
        initial: C,
        history: &HistoryPrefix<T>,
        apply: impl Fn(&mut C, &T) -> bool,
    ) -> SerialOrders<C> {
        let mut sequences: Vec<Sequence<'_, T>> = Vec::new();
        for operation in history.operations() {
            let own = sequences.iter_mut().find(|sequence| sequence.0[0].thread == operation.thread);
            match (operation.outcome, own) {
                (Outcome::Refused, _) => {}
                (Outcome::Returned | Outcome::InFlight, Some(own))
                    if own.0[0].outcome != Outcome::InDoubt =>
                {
                    own.0.push(operation);
                }
                _ => sequences.insert(0, Sequence(vec![operation])),
            }
        }
        let start = (vec![0; sequences.len()], initial);
        let (mut seen, mut open) = (HashSet::from([start.clone()]), vec![start]);
        let mut ends = Vec::new();
        while let Some((done, content)) = open.pop() {
            let next = |index: usize| sequences[index].0.get(done[index]).copied();
            if (0..done.len()).all(|index| next(index).is_none()) {
                if !ends.contains(&content) {
                    ends.push(content);
                }
                continue;
            }
            for index in 0..done.len() {
                let Some(operation) = next(index) else { continue };
                let comes_first = |other: &Operation<T>| {
                    other.outcome == Outcome::Returned
                        && other.ended.is_some_and(|ended| ended < operation.begun)
                };
                if (0..done.len()).filter(|other| *other != index).filter_map(next).any(comes_first) {
                    continue;
                }
                let mut done = done.clone();
                done[index] += 1;
                let mut after = content.clone();
                let applies = apply(&mut after, &operation.what);
                let without = (operation.outcome != Outcome::Returned).then_some(content.clone());
                for content in applies.then_some(after).into_iter().chain(without) {
                    if seen.insert((done.clone(), content.clone())) {
                        open.push((done.clone(), content));
                    }
                }
            }
        }
        SerialOrders { ends }
    }

    /// Returns true if some order explains the history, and leaves `found`.
    pub fn allows(&self, found: &C) -> bool {
        self.ends.contains(found)
    }

    /// Returns the legal contents; none if no order explains what the operations have read.
    pub fn contents(&self) -> &[C] {
        &self.ends
    }

    /// Compares a recovered content with the legal ones.
    ///
    /// # Errors
    /// Fails with the difference.
    pub fn check(&self, found: &C) -> Result<(), OrderMismatch<C>> {
        if self.ends.is_empty() {
            return Err(OrderMismatch::NoOrder);
        }
        if self.allows(found) {
            return Ok(());
        }
        Err(OrderMismatch::Contents { found: found.clone(), legal: self.ends.clone() })
    }
}

/// The reason why a history, or the content that it left, is not serializable.
#[derive(Debug, PartialEq, Eq)]
pub enum OrderMismatch<C> {
    /// No order of the operations explains what they read.
    NoOrder,
    /// No order of the operations leaves this content.
    Contents {
        /// The content.
        found: C,
        /// The contents that orders leave.
        legal: Vec<C>,
    },
}

impl<C: fmt::Debug> fmt::Display for OrderMismatch<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OrderMismatch::NoOrder => write!(f, "no order of the transactions explains what they read"),
            OrderMismatch::Contents { found, legal } => {
                write!(f, "the content is {found:?}, and could be {legal:?}")
            }
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    /// Reads and writes of two numbers.
    type Step = (Vec<(usize, u8)>, Vec<(usize, u8)>);

    fn operation(thread: usize, times: (usize, usize), what: Step) -> Operation<Step> {
        Operation { thread, what, begun: times.0, ended: Some(times.1), outcome: Outcome::Returned }
    }

    fn ends(operations: Vec<Operation<Step>>) -> Vec<[u8; 2]> {
        let orders = SerialOrders::new([0, 0], &HistoryPrefix::of(operations), |content, (reads, writes)| {
            let reads_hold = reads.iter().all(|(key, value)| content[*key] == *value);
            writes.iter().for_each(|(key, value)| content[*key] = *value);
            reads_hold
        });
        let mut ends = orders.contents().to_vec();
        ends.sort_unstable();
        ends
    }

    #[test]
    fn overlapping_operations_have_any_order() {
        let first = operation(0, (0, 2), (vec![], vec![(0, 1)]));
        let second = operation(1, (1, 3), (vec![], vec![(0, 2)]));
        assert_eq!(ends(vec![first.clone(), second.clone()]), [[1, 0], [2, 0]]);
        assert_eq!(ends(vec![first, Operation { begun: 3, ended: Some(4), ..second }]), [[2, 0]]);
    }

    #[test]
    fn write_skew_has_no_order() {
        let skew = |thread: usize| operation(thread, (thread, 3), (vec![(1 - thread, 0)], vec![(thread, 1)]));
        assert_eq!(ends(vec![skew(0), skew(1)]), [[0u8; 2]; 0]);
        let orders = SerialOrders::<u8> { ends: vec![] };
        assert_eq!(orders.check(&0), Err(OrderMismatch::NoOrder));
        let one_after = operation(1, (1, 3), (vec![(0, 1)], vec![(1, 1)]));
        assert_eq!(ends(vec![skew(0), one_after]), [[1, 1]]);
    }

    #[test]
    fn operations_without_return_are_optional() {
        let write = operation(0, (0, 9), (vec![], vec![(0, 1)]));
        let read = operation(1, (2, 3), (vec![(0, 0)], vec![(1, 1)]));
        for outcome in [Outcome::InFlight, Outcome::InDoubt] {
            let open = Operation { outcome, ended: None, ..write.clone() };
            assert_eq!(ends(vec![open.clone(), read.clone()]), [[0, 1], [1, 1]]);
            let seen = operation(1, (2, 3), (vec![(0, 1)], vec![]));
            assert_eq!(ends(vec![open, seen]), [[1, 0]]);
        }
        let refused = Operation { outcome: Outcome::Refused, ..write };
        assert_eq!(ends(vec![refused, read]), [[0, 1]]);
    }
}
