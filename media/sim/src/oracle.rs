//! Oracles: the contents that are legal after a power cut, for histories that several engines share.

use crate::{HistoryPrefix, Outcome};
use std::collections::BTreeMap;
use std::fmt::{self, Debug};

/// Highest number of choices of writers to try for one content, where several operations wrote one value.
const TRIALS_MAX: usize = 1 << 12;

/// The reads and writes of an operation; `None` is the value of a key that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access<K, V> {
    /// Values that the operation read of other operations, as far as the workload noted them. If the operation
    /// returned, these values must be there, or have been replaced.
    pub reads: Vec<(K, Option<V>)>,
    /// Values that the operation writes, all of them or none; each key once.
    pub writes: Vec<(K, Option<V>)>,
}

/// An operation that wrote.
#[derive(Debug)]
struct Writer<K, V> {
    begun: usize,
    ended: usize,
    /// True if the operation must be there.
    is_required: bool,
    access: Access<K, V>,
}

/// A value that a key may have, and the operation that wrote it.
#[derive(Debug)]
struct Candidate<V> {
    value: Option<V>,
    writer: usize,
}

/// The oracle for keys that transactions read and write, from any number of threads.
///
/// A content is legal if some order of operations explains it. The order holds all operations that returned and some of
/// those in flight or in doubt, each whole. An operation that returned before another one began comes first. The last
/// write of each key must be the value that was found. The oracle is sharpest if each written value is written once.
///
/// # Cost
/// One comparison for each key if the writes of at most one operation are in flight, and a search if the operations of
/// several threads overlap on the same keys.
#[derive(Debug)]
pub struct Registers<K, V> {
    writers: Vec<Writer<K, V>>,
    keys: Vec<(K, Vec<Candidate<V>>)>,
    /// A read of a value that no operation wrote.
    unwritten_read: Option<(K, Option<V>)>,
}

/// The difference between a content and all legal ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegisterMismatch<K, V> {
    /// A key has a value that it can't have.
    Value {
        /// The key.
        key: K,
        /// The value that was found.
        found: Option<V>,
        /// The values that are legal.
        legal: Vec<Option<V>>,
    },
    /// Each value is possible alone, but not all of them together: an operation is there in part, or too early.
    Torn {
        /// Keys written by operations that may be missing, or must be there whole, each with the value that was found.
        keys: Vec<(K, Option<V>)>,
    },
    /// An operation read a value that no operation had written, even without a power cut.
    UnwrittenRead {
        /// The key.
        key: K,
        /// The value that the operation read.
        seen: Option<V>,
    },
}

impl<K: Debug, V: Debug> fmt::Display for RegisterMismatch<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegisterMismatch::Value { key, found, legal } => {
                write!(f, "key {key:?} has {found:x?}, and could have {legal:x?}")
            }
            RegisterMismatch::Torn { keys } => {
                write!(f, "an operation is there in part, or too early: {keys:x?}")
            }
            RegisterMismatch::UnwrittenRead { key, seen } => {
                write!(f, "an operation read {seen:x?} from key {key:?}, which no operation wrote")
            }
        }
    }
}

impl<K: Ord + Clone, V: Eq + Clone> Registers<K, V> {
    /// Returns the oracle for a power cut at `history`, if the keys had the values `initial` before the run.
    pub fn new<T: Clone>(
        initial: &[(K, V)],
        history: &HistoryPrefix<T>,
        access: impl Fn(&T) -> Access<K, V>,
    ) -> Registers<K, V> {
        let first = Access {
            reads: Vec::new(),
            writes: initial.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect(),
        };
        let mut writers = vec![Writer { begun: 0, ended: 0, is_required: true, access: first }];
        let operations =
            history.operations().iter().filter(|operation| operation.outcome != Outcome::Refused);
        writers.extend(operations.map(|operation| Writer {
            begun: operation.begun + 1,
            ended: operation.ended.map_or(usize::MAX, |note| note + 1),
            is_required: operation.outcome == Outcome::Returned,
            access: access(&operation.what),
        }));
        let mut by_key: BTreeMap<K, Vec<Candidate<V>>> = BTreeMap::new();
        for (writer, Writer { access, .. }) in writers.iter().enumerate() {
            for (key, value) in &access.writes {
                let value = value.clone();
                by_key.entry(key.clone()).or_default().push(Candidate { value, writer });
            }
        }
        for candidates in by_key.values_mut().filter(|candidates| candidates[0].writer != 0) {
            candidates.insert(0, Candidate { value: None, writer: 0 });
        }
        let unwritten_read = require_reads(&mut writers, &by_key);
        for candidates in by_key.values_mut() {
            let is_required = candidates.iter().filter(|candidate| writers[candidate.writer].is_required);
            let newest = is_required.map(|candidate| writers[candidate.writer].begun).max().unwrap_or(0);
            candidates.retain(|candidate| writers[candidate.writer].ended >= newest);
            candidates.sort_by_key(|candidate| (writers[candidate.writer].ended, candidate.writer));
        }
        Registers { writers, keys: by_key.into_iter().collect(), unwritten_read }
    }

    /// Compares the recovered content, in ascending order of the keys, with the legal ones.
    ///
    /// # Errors
    /// Fails with the difference.
    ///
    /// # Panics
    /// Panics if so many overlapping operations wrote equal values that the search would take too long.
    pub fn check(&self, found: &[(K, V)]) -> Result<(), RegisterMismatch<K, V>> {
        if let Some((key, seen)) = self.unwritten_read.clone() {
            return Err(RegisterMismatch::UnwrittenRead { key, seen });
        }
        let values = self.line_up(found)?;
        let mut explanations = Vec::with_capacity(self.keys.len());
        for ((key, candidates), value) in self.keys.iter().zip(&values) {
            let matching = candidates.iter().filter(|candidate| candidate.value.as_ref() == *value);
            let writers: Vec<usize> = matching.map(|candidate| candidate.writer).collect();
            if writers.is_empty() {
                let legal = candidates.iter().map(|candidate| candidate.value.clone()).collect();
                return Err(RegisterMismatch::Value { key: key.clone(), found: value.cloned(), legal });
            }
            explanations.push(writers);
        }
        let last: Vec<usize> = explanations.iter().map(|writers| writers[writers.len() - 1]).collect();
        if self.is_in_order(&last) || self.is_explained(&explanations) {
            return Ok(());
        }
        let keys = self.keys.iter().zip(&values);
        let keys = keys.filter(|((_, candidates), _)| candidates.len() > 1);
        Err(RegisterMismatch::Torn {
            keys: keys.map(|((key, _), value)| (key.clone(), value.cloned())).collect(),
        })
    }

    /// Returns the value found for each key that was ever written; an error for any other key.
    fn line_up<'f>(&self, found: &'f [(K, V)]) -> Result<Vec<Option<&'f V>>, RegisterMismatch<K, V>> {
        let mut rest = found.iter().peekable();
        let values = self.keys.iter().map(|(key, _)| rest.next_if(|pair| pair.0 == *key).map(|pair| &pair.1));
        let values: Vec<Option<&V>> = values.collect();
        match rest.next() {
            None => Ok(values),
            // A key that stops the walk is unknown, or follows an unknown one.
            Some((key, value)) => Err(RegisterMismatch::Value {
                key: key.clone(),
                found: Some(value.clone()),
                legal: vec![None],
            }),
        }
    }

    /// Returns true if the order in which the operations returned explains that these were the last writers.
    fn is_in_order(&self, last: &[usize]) -> bool {
        let is_there = |writer: usize| self.writers[writer].is_required || last.contains(&writer);
        self.keys.iter().zip(last).all(|((_, candidates), last)| {
            // Candidates are sorted by the return of their writers.
            candidates.iter().rev().find(|candidate| is_there(candidate.writer)).map(|newest| newest.writer)
                == Some(*last)
        })
    }

    /// Returns true if some choice of one last writer for each key can be put into an order. `explanations` are the writers
    /// to choose from, for each key.
    fn is_explained(&self, explanations: &[Vec<usize>]) -> bool {
        let mut undecided = Vec::new();
        let mut last = Vec::new();
        for (key, writers) in explanations.iter().enumerate() {
            match writers[..] {
                [writer] => last.push((key, writer)),
                _ => undecided.push(key),
            }
        }
        let mut trials = 0;
        self.extends(&mut last, &undecided, explanations, &mut trials)
    }

    /// Returns true if the choice `last`, of some keys and their last writers, can be put into an order together with some
    /// choice for the keys `undecided`. A choice without an order has none with further keys, so those are not tried.
    fn extends(
        &self,
        last: &mut Vec<(usize, usize)>,
        undecided: &[usize],
        explanations: &[Vec<usize>],
        trials: &mut usize,
    ) -> bool {
        *trials += 1;
        assert!(
            *trials <= TRIALS_MAX,
            "too many overlapping operations wrote equal values: let the workload write different ones"
        );
        if !self.is_serializable(last) {
            return false;
        }
        let Some((key, undecided)) = undecided.split_first() else { return true };
        // The writer that returned last is the likeliest.
        explanations[*key].iter().rev().any(|writer| {
            last.push((*key, *writer));
            let extends = self.extends(last, undecided, explanations, trials);
            last.pop();
            extends
        })
    }

    /// Returns true if there is an order of the operations in which these are the last writers of these keys.
    fn is_serializable(&self, last: &[(usize, usize)]) -> bool {
        let mut nodes: Vec<usize> = last.iter().map(|(_, writer)| *writer).collect();
        let candidates = self.keys.iter().flat_map(|(_, candidates)| candidates);
        nodes.extend(
            candidates.map(|candidate| candidate.writer).filter(|writer| self.writers[*writer].is_required),
        );
        nodes.sort_unstable();
        nodes.dedup();
        let mut edges = Vec::new();
        for (key, last) in last {
            let (_, candidates) = &self.keys[*key];
            let earlier = candidates.iter().map(|candidate| candidate.writer);
            let earlier = earlier.filter(|writer| writer != last && nodes.binary_search(writer).is_ok());
            edges.extend(earlier.map(|writer| (writer, *last)));
        }
        while !nodes.is_empty() {
            let free = nodes.iter().position(|node| {
                let begun = self.writers[*node].begun;
                !nodes.iter().any(|other| {
                    other != node && (self.writers[*other].ended < begun || edges.contains(&(*other, *node)))
                })
            });
            match free {
                Some(free) => nodes.swap_remove(free),
                None => return false,
            };
        }
        true
    }
}

/// Marks the writers as required whose writes were read by required operations. Returns the first read of a value that
/// no operation wrote.
fn require_reads<K: Ord + Clone, V: Eq + Clone>(
    writers: &mut [Writer<K, V>],
    by_key: &BTreeMap<K, Vec<Candidate<V>>>,
) -> Option<(K, Option<V>)> {
    let mut open: Vec<usize> = (0..writers.len()).filter(|writer| writers[*writer].is_required).collect();
    while let Some(reader) = open.pop() {
        let Writer { ended, access, .. } = &writers[reader];
        let (ended, reads) = (*ended, access.reads.clone());
        for (key, value) in reads {
            let candidates = by_key.get(&key).map_or(&[][..], Vec::as_slice);
            let wrote = |candidate: &&Candidate<V>| {
                candidate.value == value
                    && candidate.writer != reader
                    && writers[candidate.writer].begun < ended
            };
            let sources: Vec<usize> =
                candidates.iter().filter(wrote).map(|candidate| candidate.writer).collect();
            match sources[..] {
                [] if candidates.is_empty() && value.is_none() => (),
                [] => return Some((key, value)),
                [source] if !writers[source].is_required => {
                    writers[source].is_required = true;
                    open.push(source);
                }
                // The writer is required already, or several operations may have written the value.
                _ => (),
            }
        }
    }
    None
}

/// The oracle for a single thread whose operations change any kind of content. After k returned operations, the content
/// must be the one after k or k + 1 operations.
#[derive(Debug)]
pub struct Sequence<C> {
    legal: Vec<C>,
}

/// A content that no legal prefix of the operations leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceMismatch<C> {
    /// The content that was found.
    pub found: C,
    /// The contents that are legal.
    pub legal: Vec<C>,
}

impl<C: Debug> fmt::Display for SequenceMismatch<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found {:x?}, and could have found one of {:x?}", self.found, self.legal)
    }
}

impl<C: Clone + PartialEq> Sequence<C> {
    /// Returns the oracle for a power cut at `history`. The content was `initial` before the run, and `apply` applies
    /// an operation to it.
    ///
    /// # Panics
    /// Panics if operations of several threads were noted, since their order is not known.
    pub fn new<T: Clone>(initial: C, history: &HistoryPrefix<T>, apply: impl Fn(&mut C, &T)) -> Sequence<C> {
        let mut legal = vec![initial];
        for operation in history.operations() {
            assert!(operation.thread == history.operations()[0].thread, "one thread has one sequence");
            let without = match operation.outcome {
                Outcome::Refused => continue,
                Outcome::Returned => Vec::new(),
                Outcome::InFlight | Outcome::InDoubt => legal.clone(),
            };
            legal.iter_mut().for_each(|content| apply(content, &operation.what));
            legal.extend(without);
        }
        Sequence { legal }
    }

    /// Compares the recovered content with the legal ones.
    ///
    /// # Errors
    /// Fails with the found content and the legal ones if the found content is not legal.
    pub fn check(&self, found: &C) -> Result<(), SequenceMismatch<C>> {
        if self.legal.contains(found) {
            return Ok(());
        }
        Err(SequenceMismatch { found: found.clone(), legal: self.legal.clone() })
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::Operation;

    type Writes = Vec<(char, Option<u8>)>;

    #[derive(Clone, Debug, Default)]
    struct Transaction {
        reads: Writes,
        writes: Writes,
    }

    fn writes(pairs: &[(char, u8)]) -> Transaction {
        let writes = pairs.iter().map(|(key, value)| (*key, (*value != 0).then_some(*value)));
        Transaction { reads: Vec::new(), writes: writes.collect() }
    }

    fn ended(begun: usize, ended: usize, what: Transaction) -> Operation<Transaction> {
        Operation { thread: 0, what, begun, ended: Some(ended), outcome: Outcome::Returned }
    }

    fn in_flight(begun: usize, what: Transaction) -> Operation<Transaction> {
        Operation { thread: 1, what, begun, ended: None, outcome: Outcome::InFlight }
    }

    fn registers(operations: Vec<Operation<Transaction>>) -> Registers<char, u8> {
        let history = HistoryPrefix::of(operations);
        Registers::new(&[('z', 9)], &history, |transaction| Access {
            reads: transaction.reads.clone(),
            writes: transaction.writes.clone(),
        })
    }

    /// Checks a content after adding the initial `z` to it.
    fn is_legal(registers: &Registers<char, u8>, found: &[(char, u8)]) -> bool {
        let mut found = found.to_vec();
        found.push(('z', 9));
        registers.check(&found).is_ok()
    }

    #[test]
    fn returned_operations_are_required() {
        let registers =
            registers(vec![ended(0, 1, writes(&[('a', 1)])), ended(2, 3, writes(&[('a', 2), ('b', 2)]))]);
        assert!(is_legal(&registers, &[('a', 2), ('b', 2)]));
        for wrong in [&[][..], &[('a', 1)], &[('a', 2)], &[('b', 2)], &[('a', 1), ('b', 2)]] {
            assert!(!is_legal(&registers, wrong), "{wrong:?}");
        }
        assert!(!is_legal(&registers, &[('a', 2), ('b', 2), ('c', 1)]), "a key that was never written");
        assert!(registers.check(&[('a', 2), ('b', 2)]).is_err(), "the initial key is lost");
    }

    #[test]
    fn in_flight_operations_are_atomic() {
        let registers = registers(vec![
            ended(0, 1, writes(&[('a', 1), ('b', 1)])),
            in_flight(2, writes(&[('a', 0), ('b', 2)])),
        ]);
        assert!(is_legal(&registers, &[('a', 1), ('b', 1)]));
        assert!(is_legal(&registers, &[('b', 2)]));
        assert!(!is_legal(&registers, &[('a', 1), ('b', 2)]));
        assert!(!is_legal(&registers, &[('b', 1)]));
    }

    #[test]
    fn refused_is_absent_in_doubt_is_optional() {
        let with = |outcome| registers(vec![Operation { outcome, ..ended(0, 1, writes(&[('a', 1)])) }]);
        assert!(!is_legal(&with(Outcome::Refused), &[('a', 1)]) && is_legal(&with(Outcome::Refused), &[]));
        assert!(is_legal(&with(Outcome::InDoubt), &[('a', 1)]) && is_legal(&with(Outcome::InDoubt), &[]));
        let later = Operation { outcome: Outcome::InDoubt, ..ended(0, 1, writes(&[('a', 1)])) };
        let registers = registers(vec![later, ended(2, 3, writes(&[('a', 2)]))]);
        assert!(is_legal(&registers, &[('a', 2)]) && !is_legal(&registers, &[('a', 1)]));
    }

    #[test]
    fn overlapping_operations_are_serializable() {
        let registers = registers(vec![
            ended(0, 2, writes(&[('a', 1), ('b', 1)])),
            ended(1, 3, writes(&[('a', 2), ('b', 2)])),
        ]);
        assert!(is_legal(&registers, &[('a', 1), ('b', 1)]) && is_legal(&registers, &[('a', 2), ('b', 2)]));
        assert!(!is_legal(&registers, &[('a', 1), ('b', 2)]));
    }

    #[test]
    fn real_time_order_is_respected() {
        // The first operation overlaps both others, which have an order.
        let registers = registers(vec![
            ended(0, 5, writes(&[('a', 9), ('b', 9)])),
            ended(1, 2, writes(&[('a', 1)])),
            ended(3, 4, writes(&[('b', 2)])),
        ]);
        assert!(is_legal(&registers, &[('a', 9), ('b', 2)]));
        assert!(!is_legal(&registers, &[('a', 1), ('b', 9)]), "b was written by 2 after 1, so by 9 after 1");
    }

    #[test]
    fn values_read_by_returned_operations_are_required() {
        let reader = |value| Transaction { reads: vec![('a', value)], writes: vec![('b', Some(7))] };
        let with = |value| registers(vec![in_flight(0, writes(&[('a', 1)])), ended(1, 2, reader(value))]);
        assert!(is_legal(&with(Some(1)), &[('a', 1), ('b', 7)]));
        assert!(!is_legal(&with(Some(1)), &[('b', 7)]), "the reader is there, and what it read is not");
        assert!(is_legal(&with(None), &[('b', 7)]));
        assert!(!is_legal(&with(Some(3)), &[('a', 1), ('b', 7)]), "3 was never written");
    }

    #[test]
    fn equal_values_match_any_writer() {
        let registers = registers(vec![
            ended(0, 4, writes(&[('a', 1), ('b', 1)])),
            ended(1, 5, writes(&[('a', 1), ('b', 2)])),
            ended(2, 6, writes(&[('a', 3), ('b', 3)])),
        ]);
        for legal in [[('a', 1), ('b', 1)], [('a', 1), ('b', 2)], [('a', 3), ('b', 3)]] {
            assert!(is_legal(&registers, &legal), "{legal:?}");
        }
        assert!(!is_legal(&registers, &[('a', 1), ('b', 3)]));
    }

    #[test]
    fn sequence_ends_after_k_or_k_plus_one() {
        let push = |value| Transaction { writes: vec![('a', Some(value))], reads: Vec::new() };
        let history =
            HistoryPrefix::of(vec![ended(0, 1, push(1)), Operation { thread: 0, ..in_flight(2, push(2)) }]);
        let sequence =
            Sequence::new(Vec::new(), &history, |list: &mut Writes, what| list.extend(&what.writes));
        let [one, two] = [('a', Some(1)), ('a', Some(2))];
        assert!(sequence.check(&vec![one]).is_ok() && sequence.check(&vec![one, two]).is_ok());
        assert!(sequence.check(&vec![]).is_err() && sequence.check(&vec![two]).is_err());
    }
}
