//! An oracle for block devices, with a volatile write cache or without one.

use crate::{HistoryPrefix, Operation, Outcome};
use std::fmt::{self, Debug};

/// The moment from which a power cut must not lose a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteCache {
    /// The device has no volatile cache: a write is durable when it returns.
    None,
    /// The device has a volatile cache: a write is durable when a flush returns that began after the write had returned,
    /// or when it returns itself, if it asked for that.
    Volatile,
}

/// A request to a block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockRequest<V> {
    /// Writes blocks. Each block is written whole or not at all; blocks of one request are independent. A request to
    /// write zeros is a write of the value that stands for them.
    Write {
        /// The number of each block, with its new value.
        blocks: Vec<(usize, V)>,
        /// True if the request asks for its own durability (force unit access).
        is_fua: bool,
    },
    /// Discards blocks: each keeps its value, or reads as zeros from then on.
    Trim {
        /// The numbers of the blocks.
        blocks: Vec<usize>,
    },
    /// Makes all writes durable that returned before it began.
    Flush,
    /// Reads a block.
    Read {
        /// The number of the block.
        block: usize,
        /// The value that was read; `None` if the request did not return.
        seen: Option<V>,
    },
}

/// A write of one block.
#[derive(Debug)]
struct BlockWrite<'v, V> {
    value: &'v V,
    begun: usize,
    /// Time of its return; the end of time if it has not returned.
    ended: usize,
    /// True if no power cut may lose the write.
    is_durable: bool,
    /// True if the write has replaced the values before it: it returned, and is no trim, which the device may ignore.
    is_done: bool,
}

/// The legal contents of a block device after a power cut.
///
/// A block has the value of some write that had begun. A later write replaces the value for sure if it is durable and
/// began after the other one had returned. Blocks do not depend on each other.
///
/// # Cost
/// A comparison for each pair of writes of one block, and one for each value that is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks<V> {
    /// The legal values of each block.
    legal: Vec<Vec<V>>,
    /// The first read of a value that the block could not have.
    impossible_read: Option<BlockMismatch<V>>,
}

/// The difference between what a block device returned and all that is legal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockMismatch<V> {
    /// A block has a value that it can't have.
    Value {
        /// The number of the block.
        block: usize,
        /// The value that was found.
        found: V,
        /// The values that are legal.
        legal: Vec<V>,
    },
    /// A read returned a value that the block did not have, even without a power cut.
    Read {
        /// The number of the block.
        block: usize,
        /// The value that was read.
        seen: V,
        /// The values that the block could have had.
        legal: Vec<V>,
    },
    /// The device has another number of blocks.
    Count {
        /// The number of blocks that were found.
        found: usize,
        /// The number of blocks of the device.
        want: usize,
    },
}

impl<V: Debug> fmt::Display for BlockMismatch<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlockMismatch::Value { block, found, legal } => {
                write!(f, "block {block} has {found:x?}, and could have one of {legal:x?}")
            }
            BlockMismatch::Read { block, seen, legal } => {
                write!(f, "a read of block {block} returned {seen:x?}, and could return one of {legal:x?}")
            }
            BlockMismatch::Count { found, want } => write!(f, "found {found} blocks instead of {want}"),
        }
    }
}

impl<V: Clone + PartialEq> Blocks<V> {
    /// Returns the oracle for a power cut at `history`, if the blocks had the values `initial` before the run. `zero`
    /// is the value of a block of zeros, and `request` describes an operation.
    ///
    /// # Panics
    /// Panics if a request names a block that the device does not have.
    pub fn new<T: Clone>(
        initial: &[V],
        zero: &V,
        cache: WriteCache,
        history: &HistoryPrefix<T>,
        request: impl Fn(&T) -> BlockRequest<V>,
    ) -> Blocks<V> {
        let begun = |operation: &&Operation<T>| operation.outcome != Outcome::Refused;
        let requests: Vec<(&Operation<T>, BlockRequest<V>)> = history
            .operations()
            .iter()
            .filter(begun)
            .map(|operation| (operation, request(&operation.what)))
            .collect();
        let last_flush = requests
            .iter()
            .filter(|(operation, request)| {
                *request == BlockRequest::Flush && operation.outcome == Outcome::Returned
            })
            .map(|(operation, _)| times(operation).0)
            .max();
        let first = |value| BlockWrite { value, begun: 0, ended: 0, is_durable: true, is_done: true };
        let mut writes: Vec<Vec<BlockWrite<'_, V>>> =
            initial.iter().map(|value| vec![first(value)]).collect();
        for (operation, request) in &requests {
            let returned = operation.outcome == Outcome::Returned;
            let (begun, ended) = times(operation);
            let is_flushed = last_flush.is_some_and(|flush| ended < flush);
            match request {
                BlockRequest::Write { blocks, is_fua } => {
                    let is_durable = returned && (cache == WriteCache::None || *is_fua || is_flushed);
                    for (block, value) in blocks {
                        writes[*block].push(BlockWrite {
                            value,
                            begun,
                            ended,
                            is_durable,
                            is_done: returned,
                        });
                    }
                }
                BlockRequest::Trim { blocks } => {
                    for block in blocks {
                        let advice =
                            BlockWrite { value: zero, begun, ended, is_durable: false, is_done: false };
                        writes[*block].push(advice);
                    }
                }
                BlockRequest::Flush | BlockRequest::Read { .. } => {}
            }
        }
        let impossible_read = requests.iter().find_map(|(operation, request)| match request {
            BlockRequest::Read { block, seen: Some(seen) } if operation.outcome == Outcome::Returned => {
                check_read(*block, seen, &writes[*block], times(operation))
            }
            _ => None,
        });
        Blocks { legal: writes.iter().map(|writes| legal_values(writes)).collect(), impossible_read }
    }

    /// Compares the recovered blocks, in the order of their numbers, with the legal ones.
    ///
    /// # Errors
    /// Fails with the first difference.
    pub fn check(&self, found: &[V]) -> Result<(), BlockMismatch<V>> {
        if let Some(mismatch) = &self.impossible_read {
            return Err(mismatch.clone());
        }
        if found.len() != self.legal.len() {
            return Err(BlockMismatch::Count { found: found.len(), want: self.legal.len() });
        }
        match found.iter().zip(&self.legal).enumerate().find(|(_, (found, legal))| !legal.contains(found)) {
            Some((block, (found, legal))) => {
                Err(BlockMismatch::Value { block, found: found.clone(), legal: legal.clone() })
            }
            None => Ok(()),
        }
    }
}

/// Returns when an operation began and ended. Operations begin after the initial values were written, at 0.
fn times<T>(operation: &Operation<T>) -> (usize, usize) {
    (operation.begun + 1, operation.ended.map_or(usize::MAX, |ended| ended + 1))
}

/// Returns the values that a block may have after a power cut, each once.
fn legal_values<V: Clone + PartialEq>(writes: &[BlockWrite<'_, V>]) -> Vec<V> {
    let is_replaced =
        |write: &BlockWrite<'_, V>| writes.iter().any(|later| later.is_durable && write.ended < later.begun);
    unique(writes.iter().filter(|write| !is_replaced(write)))
}

/// Returns the mismatch of a read between two times, if the block could not have the value that the read returned.
fn check_read<V: Clone + PartialEq>(
    block: usize,
    seen: &V,
    writes: &[BlockWrite<'_, V>],
    (begun, ended): (usize, usize),
) -> Option<BlockMismatch<V>> {
    let is_replaced = |write: &BlockWrite<'_, V>| {
        let replaces =
            |later: &BlockWrite<'_, V>| later.is_done && write.ended < later.begun && later.ended < begun;
        writes.iter().any(replaces)
    };
    let legal = unique(writes.iter().filter(|write| write.begun < ended && !is_replaced(write)));
    let mismatch = || BlockMismatch::Read { block, seen: seen.clone(), legal: legal.clone() };
    (!legal.contains(seen)).then(mismatch)
}

fn unique<'w, 'v: 'w, V: Clone + PartialEq + 'v>(
    writes: impl Iterator<Item = &'w BlockWrite<'v, V>>,
) -> Vec<V> {
    let mut values = Vec::new();
    for write in writes {
        if !values.contains(write.value) {
            values.push(write.value.clone());
        }
    }
    values
}

#[cfg(test)]
mod test {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    type Request = BlockRequest<u8>;

    fn write(blocks: &[(usize, u8)]) -> Request {
        BlockRequest::Write { blocks: blocks.to_vec(), is_fua: false }
    }

    fn fua(block: usize, value: u8) -> Request {
        BlockRequest::Write { blocks: vec![(block, value)], is_fua: true }
    }

    fn read(block: usize, seen: u8) -> Request {
        BlockRequest::Read { block, seen: Some(seen) }
    }

    /// An operation that returned.
    fn done(thread: usize, begun: usize, ended: usize, what: Request) -> Operation<Request> {
        Operation { thread, what, begun, ended: Some(ended), outcome: Outcome::Returned }
    }

    fn with(outcome: Outcome, operation: Operation<Request>) -> Operation<Request> {
        let ended = operation.ended.filter(|_| outcome != Outcome::InFlight);
        Operation { outcome, ended, ..operation }
    }

    /// The oracle for two blocks that were 1 and 2.
    fn blocks(cache: WriteCache, operations: &[Operation<Request>]) -> Blocks<u8> {
        Blocks::new(&[1, 2], &0, cache, &HistoryPrefix::of(operations.to_vec()), Clone::clone)
    }

    /// Returns the legal pairs of values of the two blocks, all of them below 10.
    fn legal(cache: WriteCache, operations: &[Operation<Request>]) -> Vec<[u8; 2]> {
        let oracle = blocks(cache, operations);
        let pairs = (0..10).flat_map(|first| (0..10).map(move |second| [first, second]));
        pairs.filter(|pair| oracle.check(pair).is_ok()).collect()
    }

    use WriteCache::{None as Uncached, Volatile};

    #[test]
    fn device_without_requests_is_unchanged() {
        for cache in [Uncached, Volatile] {
            assert_eq!(legal(cache, &[]), [[1, 2]]);
        }
    }

    #[test]
    fn write_without_cache_is_durable_on_return() {
        let one = done(0, 0, 1, write(&[(0, 5)]));
        assert_eq!(legal(Uncached, std::slice::from_ref(&one)), [[5, 2]]);
        assert_eq!(legal(Volatile, std::slice::from_ref(&one)), [[1, 2], [5, 2]]);
        assert_eq!(legal(Uncached, &[with(Outcome::InFlight, one.clone())]), [[1, 2], [5, 2]]);
        assert_eq!(legal(Uncached, &[with(Outcome::Refused, one)]), [[1, 2]]);
    }

    #[test]
    fn flush_makes_earlier_writes_durable() {
        let writes = [done(0, 0, 1, write(&[(0, 5)])), done(0, 2, 3, write(&[(0, 6)]))];
        let flushed = |begun, outcome| {
            let flush = with(outcome, done(1, begun, 9, BlockRequest::Flush));
            legal(Volatile, &[writes[0].clone(), writes[1].clone(), flush])
        };
        assert_eq!(flushed(4, Outcome::Returned), [[6, 2]]);
        // It began before the second write had returned.
        assert_eq!(flushed(2, Outcome::Returned), [[5, 2], [6, 2]]);
        assert_eq!(flushed(0, Outcome::Returned), [[1, 2], [5, 2], [6, 2]]);
        for outcome in [Outcome::InFlight, Outcome::InDoubt, Outcome::Refused] {
            assert_eq!(flushed(4, outcome), [[1, 2], [5, 2], [6, 2]], "{outcome:?}");
        }
    }

    #[test]
    fn fua_covers_its_own_write_only() {
        let other = done(0, 0, 1, write(&[(1, 7)]));
        assert_eq!(legal(Volatile, &[other.clone(), done(0, 2, 3, fua(0, 5))]), [[5, 2], [5, 7]]);
        let open = with(Outcome::InFlight, done(0, 2, 3, fua(0, 5)));
        assert_eq!(legal(Volatile, &[other, open]), [[1, 2], [1, 7], [5, 2], [5, 7]]);
    }

    #[test]
    fn blocks_of_one_request_are_independent() {
        let open = with(Outcome::InFlight, done(0, 0, 1, write(&[(0, 5), (1, 6)])));
        assert_eq!(legal(Uncached, &[open]), [[1, 2], [1, 6], [5, 2], [5, 6]]);
        assert_eq!(legal(Uncached, &[done(0, 0, 1, write(&[(0, 5), (1, 6)]))]), [[5, 6]]);
    }

    #[test]
    fn overlapping_writers_come_in_either_order() {
        let (first, second) = (done(0, 0, 3, write(&[(0, 5)])), done(1, 1, 2, write(&[(0, 6)])));
        assert_eq!(legal(Uncached, &[first.clone(), second.clone()]), [[5, 2], [6, 2]]);
        let third = done(2, 4, 5, write(&[(0, 7)]));
        assert_eq!(legal(Uncached, &[first.clone(), second.clone(), third.clone()]), [[7, 2]]);
        let third = with(Outcome::InDoubt, third);
        assert_eq!(legal(Uncached, &[first, second, third]), [[5, 2], [6, 2], [7, 2]]);
    }

    #[test]
    fn refused_write_is_never_there() {
        let refused = with(Outcome::Refused, done(0, 0, 1, write(&[(0, 5)])));
        assert_eq!(legal(Volatile, &[refused]), [[1, 2]]);
        let in_doubt = with(Outcome::InDoubt, done(0, 0, 1, write(&[(0, 5)])));
        assert_eq!(legal(Uncached, &[in_doubt]), [[1, 2], [5, 2]]);
    }

    #[test]
    fn trimmed_block_is_zero_or_as_before() {
        let trim = done(0, 0, 1, BlockRequest::Trim { blocks: vec![0] });
        for cache in [Uncached, Volatile] {
            assert_eq!(legal(cache, std::slice::from_ref(&trim)), [[0, 2], [1, 2]]);
        }
        for (seen, ok) in [(0, true), (1, true), (5, false)] {
            let operations = [trim.clone(), done(0, 2, 3, read(0, seen))];
            assert_eq!(blocks(Uncached, &operations).check(&[1, 2]).is_ok(), ok, "{seen}");
        }
        let zeroes = done(0, 0, 1, write(&[(0, 0)]));
        assert_eq!(legal(Uncached, &[zeroes]), [[0, 2]]);
        assert_eq!(legal(Uncached, &[trim, done(0, 2, 3, write(&[(0, 5)]))]), [[5, 2]]);
    }

    #[test]
    fn read_returns_the_value_of_its_time() {
        let (first, second) = (done(0, 0, 1, write(&[(0, 5)])), done(0, 4, 7, write(&[(0, 6)])));
        let is_legal = |seen, begun, ended| {
            let operations = [first.clone(), second.clone(), done(1, begun, ended, read(0, seen))];
            blocks(Volatile, &operations).check(&[6, 2]).is_ok()
        };
        assert!(is_legal(5, 2, 3) && !is_legal(1, 2, 3) && !is_legal(6, 2, 3) && !is_legal(9, 2, 3));
        assert!(is_legal(5, 5, 6) && is_legal(6, 5, 6) && !is_legal(1, 5, 6));
        assert!(is_legal(6, 8, 9) && !is_legal(5, 8, 9));
    }

    #[test]
    fn mismatch_names_block_and_values() {
        let oracle = blocks(Uncached, &[done(0, 0, 1, write(&[(1, 7)]))]);
        let mismatch = oracle.check(&[1, 2]).unwrap_err();
        assert_eq!(mismatch.to_string(), "block 1 has 2, and could have one of [7]");
        assert_eq!(oracle.check(&[1]), Err(BlockMismatch::Count { found: 1, want: 2 }));
    }

    /// The definition: all values that block 0 has after some order of its writes, in which each write follows those
    /// that had returned before it began. Power is lost at any point after the last durable write.
    fn defined_values(cache: WriteCache, operations: &[Operation<Request>]) -> BTreeSet<u8> {
        let flush = operations
            .iter()
            .filter(|other| other.what == BlockRequest::Flush && other.outcome == Outcome::Returned)
            .map(|flush| flush.begun)
            .max();
        let is_durable = |operation: &Operation<Request>| match operation.what {
            BlockRequest::Write { is_fua, .. } if operation.outcome == Outcome::Returned => {
                let is_flushed = flush.is_some_and(|flush| operation.ended.is_some_and(|end| end < flush));
                cache == Uncached || is_fua || is_flushed
            }
            _ => false,
        };
        let changes = |operation: &&Operation<Request>| {
            operation.outcome != Outcome::Refused
                && matches!(operation.what, BlockRequest::Write { .. } | BlockRequest::Trim { .. })
        };
        let rest: Vec<&Operation<Request>> = operations.iter().filter(changes).collect();
        let mut values = BTreeSet::new();
        let mut open = vec![(rest, 1)];
        while let Some((rest, value)) = open.pop() {
            if !rest.iter().any(|operation| is_durable(operation)) {
                values.insert(value);
            }
            for next in 0..rest.len() {
                let begun = rest[next].begun;
                if rest.iter().any(|other| other.ended.is_some_and(|ended| ended < begun)) {
                    continue;
                }
                let mut rest = rest.clone();
                match &rest.remove(next).what {
                    BlockRequest::Write { blocks, .. } => open.push((rest, blocks[0].1)),
                    _ => open.extend([(rest.clone(), 0), (rest, value)]),
                }
            }
        }
        values
    }

    /// Makes a history of three threads: each choice begins an operation of a thread, or ends the one that it runs.
    fn history(choices: &[(usize, u8, u8)]) -> Vec<Operation<Request>> {
        let mut operations: Vec<Operation<Request>> = Vec::new();
        let mut running = [None; 3];
        for (time, (thread, kind, end)) in choices.iter().enumerate() {
            let value = 3 + operations.len() as u8;
            let what = match kind {
                0..4 => write(&[(0, value)]),
                4 => fua(0, value),
                5 => BlockRequest::Trim { blocks: vec![0] },
                _ => BlockRequest::Flush,
            };
            match running[*thread].take() {
                None => {
                    running[*thread] = Some(operations.len());
                    let outcome = Outcome::InFlight;
                    operations.push(Operation { thread: *thread, what, begun: time, ended: None, outcome });
                }
                Some(index) => {
                    operations[index].ended = Some(time);
                    operations[index].outcome = match end {
                        0 => Outcome::InDoubt,
                        1 => Outcome::Refused,
                        _ => Outcome::Returned,
                    };
                }
            }
        }
        operations
    }

    proptest! {
        #[test]
        fn legal_values_are_those_of_the_definition(
            choices in prop::collection::vec((0usize..3, 0u8..8, 0u8..8), 0..14),
            is_cached: bool,
        ) {
            let cache = if is_cached { Volatile } else { Uncached };
            let operations = history(&choices);
            let oracle = blocks(cache, &operations);
            let legal: BTreeSet<u8> = (0..20).filter(|value| oracle.check(&[*value, 2]).is_ok()).collect();
            prop_assert_eq!(legal, defined_values(cache, &operations), "{:?}", operations);
        }
    }
}
