//! A workload for the crash explorer: threads that append to a small log of PMDK, rewind and persist it.

use crate::pmdk::{PmemLog, PmemLogError, check};
use lode_layout::{Durability, PmdkHeader, PmdkKind, PmdkLog, PoolOffset};
use lode_pmem::Counter;
use lode_sim::{Actor, HistoryPrefix, Operation, Outcome, SimMedium, Subject, Ticket};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use uuid::Uuid;

/// The value that a recovery appends.
const PROBE: u64 = u64::MAX;
/// Most words of an append.
const WORDS_MAX: u64 = 40;
/// Bytes of the pool.
const SIZE: u64 = PmdkLog::START.get() + 4096;

/// A log of a page, which is soon full.
#[derive(Clone, Copy, Debug)]
pub struct PmemLogSubject {
    /// True if appends are durable after a persist only.
    pub is_cached: bool,
}

/// The log while it is used.
#[derive(Debug)]
pub struct Engine {
    log: PmemLog<Arc<SimMedium>>,
    value: Counter,
}

/// An operation on the log.
#[derive(Clone, Debug)]
pub enum PmemLogOperation {
    /// Appends so many words of a value.
    Append {
        /// The value.
        value: u64,
        /// Number of words.
        words: u64,
    },
    /// Drops all.
    Rewind,
    /// Makes all durable.
    Persist,
}

/// The appends that are there: values, and numbers of words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found(Vec<(u64, u64)>);

/// Reasons why a log can't be used after a power cut.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The log can't be opened or read, or the check finds damage.
    #[error(transparent)]
    Log(#[from] PmemLogError),
    /// An append did not follow what was there.
    #[error("a later append is not at the end")]
    Followed,
}

impl PmemLogSubject {
    /// Returns the subject for a medium of this durability.
    pub fn new(durability: Durability) -> PmemLogSubject {
        PmemLogSubject { is_cached: durability == Durability::Commit }
    }
}

/// Reads all appends.
fn found(log: &PmemLog<Arc<SimMedium>>) -> Result<Found, PmemLogError> {
    let mut appends: Vec<(u64, u64)> = Vec::new();
    log.walk(0, |bytes| {
        let (words, rest) = bytes.as_chunks::<8>();
        for value in words.iter().map(|word| u64::from_le_bytes(*word)) {
            match appends.last_mut() {
                Some((last, count)) if *last == value => *count += 1,
                _ => appends.push((value, 1)),
            }
        }
        // Bytes that are no word are none of an append.
        appends.extend((!rest.is_empty()).then_some((0, 0)));
        ControlFlow::Continue(())
    })?;
    Ok(Found(appends))
}

fn open(medium: Arc<SimMedium>) -> Result<PmemLog<Arc<SimMedium>>, PmemLogError> {
    match check(&medium).first() {
        Some(error) => Err(*error),
        None => PmemLog::open(medium),
    }
}

/// Runs an operation and notes its end.
fn run(
    actor: &mut Actor<'_, PmemLogOperation>,
    operation: PmemLogOperation,
    run: impl FnOnce() -> Result<(), PmemLogError>,
) {
    let ticket: Ticket = actor.begin(operation);
    match run() {
        Ok(()) => actor.returned(ticket),
        Err(PmemLogError::InDoubt(_)) => actor.in_doubt(ticket),
        Err(_) => actor.refused(ticket),
    }
}

impl Subject for PmemLogSubject {
    type Engine = Engine;
    type Operation = PmemLogOperation;
    type Contents = Found;
    type Legal = Legal;
    type Mismatch = String;
    type Error = Unusable;

    fn size(&self) -> u64 {
        SIZE
    }

    fn format(&self, medium: Arc<SimMedium>) -> Result<(), Unusable> {
        let planned = PmdkLog { end: PoolOffset::new(SIZE), write: PmdkLog::START };
        let header = PmdkHeader::new(PmdkKind::Log, Uuid::from_u128(1), Uuid::from_u128(2), 0);
        PmemLog::format_as(&medium, &header, &planned)?;
        // Bytes of an earlier lap, which must not be found.
        let log = PmemLog::open(medium)?;
        log.append(&PROBE.to_le_bytes().repeat(log.capacity() as usize / 8))?;
        Ok(log.rewind()?)
    }

    fn start(&self, medium: Arc<SimMedium>) -> Result<Engine, Unusable> {
        Ok(Engine { log: PmemLog::open(medium)?, value: Counter::new(1) })
    }

    fn run(&self, engine: &Engine, actor: &mut Actor<'_, PmemLogOperation>) {
        let log = &engine.log;
        for _ in 0..actor.operations {
            match actor.rng.u8(..12) {
                0..9 => {
                    let (value, words) = (engine.value.add(1), actor.rng.u64(1..=WORDS_MAX));
                    let bytes = value.to_le_bytes().repeat(words as usize);
                    // Parts that begin and end in words.
                    let (first, second) = bytes.split_at(actor.rng.usize(..bytes.len()));
                    run(actor, PmemLogOperation::Append { value, words }, || {
                        log.appendv(&[first, second]).map(drop)
                    });
                }
                9 => run(actor, PmemLogOperation::Rewind, || log.rewind()),
                _ => run(actor, PmemLogOperation::Persist, || log.persist()),
            }
        }
    }

    fn recover(&self, medium: Arc<SimMedium>) -> Result<Found, Unusable> {
        let log = open(Arc::clone(&medium))?;
        let Found(mut before) = found(&log)?;
        before.retain(|(value, _)| *value != PROBE);
        match log.append(&PROBE.to_le_bytes().repeat(3)) {
            Ok(_) => {
                log.close()?;
                let Found(after) = found(&open(medium)?)?;
                if after.last().is_none_or(|(value, _)| *value != PROBE) || !after.starts_with(&before) {
                    return Err(Unusable::Followed);
                }
            }
            Err(PmemLogError::Full { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Found(before))
    }

    fn legal_after_kill(&self, history: &HistoryPrefix<PmemLogOperation>) -> Option<Legal> {
        Some(self.legal(history))
    }

    fn legal(&self, history: &HistoryPrefix<PmemLogOperation>) -> Legal {
        Legal { operations: history.operations().to_vec(), is_cached: self.is_cached }
    }

    fn check(&self, legal: &Legal, contents: &Found) -> Result<(), String> {
        legal.check(contents)
    }
}

/// The contents that are legal after a power cut.
#[derive(Debug)]
pub struct Legal {
    operations: Vec<Operation<PmemLogOperation>>,
    is_cached: bool,
}

/// Returns true if `first` ended before `second` began.
fn is_before(first: &Operation<PmemLogOperation>, second: &Operation<PmemLogOperation>) -> bool {
    first.ended.is_some_and(|ended| ended < second.begun)
}

impl Legal {
    /// Returns true if `operation` returned and can't be lost.
    fn is_durable(&self, operation: &Operation<PmemLogOperation>) -> bool {
        let is_persist = |other: &&Operation<PmemLogOperation>| {
            matches!(other.what, PmemLogOperation::Persist) && other.outcome == Outcome::Returned
        };
        operation.outcome == Outcome::Returned
            && (!self.is_cached
                || self.operations.iter().filter(is_persist).any(|persist| is_before(operation, persist)))
    }

    fn check(&self, Found(found): &Found) -> Result<(), String> {
        let there: BTreeSet<u64> = found.iter().map(|(value, _)| *value).collect();
        if there.len() != found.len() {
            return Err(format!("an append is there twice: {found:?}"));
        }
        let of = |kind: fn(&PmemLogOperation) -> bool| {
            self.operations.iter().filter(move |it| it.outcome != Outcome::Refused && kind(&it.what))
        };
        let appends = || of(|what| matches!(what, PmemLogOperation::Append { .. }));
        let rewinds = || of(|what| matches!(what, PmemLogOperation::Rewind));
        let mut explained = Vec::new();
        for append in appends() {
            let PmemLogOperation::Append { value, words } = append.what else { continue };
            let may_be_dropped = rewinds().any(|rewind| !is_before(rewind, append));
            if there.contains(&value) {
                if !found.contains(&(value, words)) {
                    return Err(format!("append {value} of {words} words is torn: {found:?}"));
                }
                let dropped = |rewind: &Operation<PmemLogOperation>| {
                    rewind.outcome == Outcome::Returned && is_before(append, rewind)
                };
                if rewinds().any(dropped) {
                    return Err(format!("append {value} was dropped: {found:?}"));
                }
                explained.push(append);
            } else if !may_be_dropped
                && (self.is_durable(append)
                    || appends().any(|later| {
                        matches!(later.what, PmemLogOperation::Append { value, .. } if there.contains(&value))
                            && append.outcome == Outcome::Returned
                            && is_before(append, later)
                    }))
            {
                return Err(format!("append {value} is lost: {found:?}"));
            }
        }
        if explained.len() != found.len() {
            return Err(format!("bytes that no operation appended: {found:?}"));
        }
        let place = |append: &Operation<PmemLogOperation>| match append.what {
            PmemLogOperation::Append { value, .. } => found.iter().position(|(other, _)| *other == value),
            _ => None,
        };
        let is_swapped = |first: &&Operation<PmemLogOperation>| {
            explained.iter().any(|second| is_before(first, second) && place(first) > place(second))
        };
        match explained.iter().any(is_swapped) {
            true => Err(format!("appends are out of order: {found:?}")),
            false => Ok(()),
        }
    }
}
