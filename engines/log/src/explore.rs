//! A workload for the crash explorer: threads that append, follow, truncate and persist a small log.

use crate::{AppendLog, AppendLogError, Damage, LogRecord, check, plan};
use lode_layout::{Durability, Geometry, LINE, LogDescriptor, LogFrameHeader, LogFrames, WORD};
use lode_pmem::Counter;
use lode_sim::{Actor, HistoryPrefix, Outcome, SimMedium, Subject, Ticket};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const UUID: [u8; 16] = [7; 16];
/// The value of records that a recovery appends, to show what follows them.
const PROBE: u64 = u64::MAX;
/// Most words of the records of an append, unless it has many.
const WORDS_MAX: u64 = 24;
/// Words of a line.
const LINE_WORDS: u64 = LINE / WORD;
/// Words of the header of a frame: half a line.
const HEADER_WORDS: u64 = LogFrameHeader::LEN as u64 / WORD;
/// Records of an append that take two frames.
const LONG_COUNT: u64 = LogFrameHeader::RECORDS_MAX as u64 + 2;
/// Bytes that are enough for so many records of a word.
const LONG_LEN: u64 = LONG_COUNT * 16;

/// A log that is soon full, so that its area is used many times.
#[derive(Clone, Copy, Debug)]
pub struct LogSubject {
    /// Length of the area in bytes, a multiple of 512.
    pub area_len: u64,
    /// True if appends are durable after a persist only.
    pub is_cached: bool,
}

/// The log while it is used.
#[derive(Debug)]
pub struct Engine {
    log: AppendLog<Arc<SimMedium>>,
    value: Counter,
}

/// An operation on the log. Positions are those that the operation returned.
#[derive(Clone, Debug)]
pub enum LogOperation {
    /// Appends records. Each is filled by its value.
    Append {
        /// The values, and lengths in words.
        records: Vec<(u64, u64)>,
        /// Position of the first.
        position: Option<u64>,
    },
    /// Drops the records before a position.
    Truncate {
        /// The position.
        to: Option<u64>,
    },
    /// Makes all durable.
    Persist,
    /// Reads what is durable.
    Follow {
        /// The positions and values that were read.
        seen: Vec<(u64, u64)>,
    },
}

/// The head and the records of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    head: u64,
    /// Positions and values. A record that is not filled by one value has 0.
    records: Vec<(u64, u64)>,
}

/// Reasons why a log can't be used after a power cut.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The log can't be opened, or a record can't be read.
    #[error(transparent)]
    Log(#[from] AppendLogError),
    /// The pool is impossible.
    #[error(transparent)]
    Geometry(#[from] lode_layout::GeometryError),
    /// The check found damage, and a power cut is none.
    #[error("the check finds damage: {0}")]
    Damaged(Damage),
    /// A read of one position finds what a walk does not.
    #[error("the record at {position} is not what a walk finds there")]
    Misread {
        /// The position.
        position: u64,
    },
    /// Something followed a record that was the last one.
    #[error("records follow the last one: {0:?}")]
    Followed(Vec<(u64, u64)>),
}

impl LogSubject {
    fn geometry() -> Result<Geometry, Unusable> {
        Ok(Geometry::plan(Geometry::SIZE_MIN)?)
    }

    fn open(medium: Arc<SimMedium>, epoch: u64) -> Result<AppendLog<Arc<SimMedium>>, Unusable> {
        Ok(AppendLog::open(medium, &LogSubject::geometry()?, UUID, [epoch; 2])?.0)
    }

    fn sound(medium: &Arc<SimMedium>) -> Result<(), Unusable> {
        match check(medium, &LogSubject::geometry()?, &UUID).first() {
            Some(damage) => Err(Unusable::Damaged(*damage)),
            None => Ok(()),
        }
    }
}

/// Returns the value that fills the content; 0 if none does.
fn value_of(content: &[u8]) -> u64 {
    let mut words = content.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    let Some(first) = words.next() else { return 0 };
    if words.all(|word| word == first) { first } else { 0 }
}

/// Reads all records: by a walk, and each by its position.
fn found(log: &AppendLog<Arc<SimMedium>>) -> Result<Found, Unusable> {
    let head = log.head();
    let (mut walk, mut content, mut records) = (log.walk(head), Vec::new(), Vec::new());
    let mut by_position = Vec::new();
    while let Some(record) = walk.next(&mut content)? {
        let LogRecord { position, next } = record;
        if log.read(position, &mut by_position)? != record || by_position != content {
            return Err(Unusable::Misread { position });
        }
        // After the last record of a frame there is none up to the next one.
        if next != position + 1 && log.read(position + 1, &mut by_position).is_ok() {
            return Err(Unusable::Misread { position: position + 1 });
        }
        records.push((position, value_of(&content)));
    }
    Ok(Found { head, records })
}

/// Returns the positions of records that were appended at `first`.
fn positions(records: &[(u64, u64)], first: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut frames = LogFrames::default();
    records.iter().map(move |(value, words)| {
        frames.push(words * 8);
        (first + frames.position(), *value)
    })
}

/// Returns the values of the records of each frame of an append.
fn frames(records: &[(u64, u64)]) -> Vec<Vec<u64>> {
    let placed: Vec<(u64, u64)> = positions(records, 0).collect();
    let is_shared =
        |a: &(u64, u64), b: &(u64, u64)| LogFrameHeader::frame_of(a.0) == LogFrameHeader::frame_of(b.0);
    placed.chunk_by(is_shared).map(|frame| frame.iter().map(|(_, value)| *value).collect()).collect()
}

impl Engine {
    fn append(&self, actor: &mut Actor<'_, LogOperation>) {
        let count = match actor.rng.u8(..12) {
            0 if self.log.append_max() >= LONG_LEN => LONG_COUNT,
            ..5 => actor.rng.u64(2..7),
            _ => 1,
        };
        let words_max = (WORDS_MAX / count).max(1);
        let mut records: Vec<(u64, u64)> =
            (0..count).map(|_| (self.value.add(1), actor.rng.u64(1..=words_max))).collect();
        if count > 1 && actor.rng.bool() {
            // The table begins a line, so a power cut may lose it alone.
            let words: u64 = records.iter().map(|(_, words)| words).sum();
            records[0].1 += (HEADER_WORDS + LINE_WORDS - words % LINE_WORDS) % LINE_WORDS;
        }
        let contents: Vec<Vec<u8>> =
            records.iter().map(|(value, words)| value.to_le_bytes().repeat(*words as usize)).collect();
        let ticket = actor.begin(LogOperation::Append { records: records.clone(), position: None });
        let appended = match &contents[..] {
            [content] => {
                let (first, second) = content.split_at(8);
                self.log.appendv(&[first, second])
            }
            _ => {
                let contents: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
                self.log.append_batch(&contents).map(|range| range.start)
            }
        };
        let operation =
            |position: u64| LogOperation::Append { records: records.clone(), position: Some(position) };
        finish(actor, ticket, appended.map(operation));
    }

    fn truncate(&self, actor: &mut Actor<'_, LogOperation>) {
        let rewinds = actor.rng.u8(..6) == 0;
        let mut walk = self.log.walk(self.log.head());
        let steps = actor.rng.u8(1..4);
        let mut content = Vec::new();
        for _ in 0..steps {
            // Another thread may drop the record meanwhile.
            let _ = walk.next(&mut content);
        }
        let to = (!rewinds).then_some(walk.position());
        let ticket = actor.begin(LogOperation::Truncate { to });
        let done = match to {
            Some(to) => self.log.truncate(to).map(|()| to),
            None => self.log.rewind(),
        };
        finish(actor, ticket, done.map(|to| LogOperation::Truncate { to: Some(to) }));
    }

    fn follow(&self, actor: &mut Actor<'_, LogOperation>) {
        let ticket = actor.begin(LogOperation::Follow { seen: Vec::new() });
        let (mut walk, mut content, mut seen) = (self.log.follow(self.log.head()), Vec::new(), Vec::new());
        let done = loop {
            match walk.next(&mut content) {
                Ok(Some(record)) => seen.push((record.position, value_of(&content))),
                Ok(None) => break Ok(LogOperation::Follow { seen }),
                Err(AppendLogError::Dropped { .. }) => seen.clear(),
                Err(error) => break Err(error),
            }
        };
        finish(actor, ticket, done);
    }
}

/// Notes the end of an operation.
fn finish(actor: &Actor<'_, LogOperation>, ticket: Ticket, done: Result<LogOperation, AppendLogError>) {
    match done {
        Ok(operation) => {
            actor.revise(ticket, operation);
            actor.returned(ticket);
        }
        Err(AppendLogError::Damaged(damage)) => panic!("a power cut is no damage: {damage}"),
        Err(AppendLogError::InDoubt(_)) => actor.in_doubt(ticket),
        Err(_) => actor.refused(ticket),
    }
}

impl Subject for LogSubject {
    type Engine = Engine;
    type Operation = LogOperation;
    type Contents = Found;
    type Legal = Legal;
    type Mismatch = String;
    type Error = Unusable;

    fn size(&self) -> u64 {
        Geometry::SIZE_MIN
    }

    fn format(&self, medium: Arc<SimMedium>) -> Result<(), Unusable> {
        let geometry = LogSubject::geometry()?;
        let planned = LogDescriptor { area_len: self.area_len, ..plan::plan(&geometry, [5; 2])? };
        AppendLog::format_as(&medium, &geometry, &UUID, &planned, [1; 2])?;
        // A lap before the explored one leaves records that must not be found.
        let log = LogSubject::open(medium, 2)?;
        let content = PROBE.to_le_bytes().repeat(4);
        // Until the log is full.
        for _ in 0..self.area_len / LogFrameHeader::stride(1, 4 * 8) {
            log.append(&content)?;
        }
        log.rewind()?;
        Ok(log.persist()?)
    }

    fn start(&self, medium: Arc<SimMedium>) -> Result<Engine, Unusable> {
        Ok(Engine { log: LogSubject::open(medium, 3)?, value: Counter::new(1) })
    }

    fn run(&self, engine: &Engine, actor: &mut Actor<'_, LogOperation>) {
        for _ in 0..actor.operations {
            match actor.rng.u8(..12) {
                0..7 => engine.append(actor),
                7..9 => engine.truncate(actor),
                9 => engine.follow(actor),
                _ => {
                    let ticket = actor.begin(LogOperation::Persist);
                    finish(actor, ticket, engine.log.persist().map(|()| LogOperation::Persist));
                }
            }
        }
    }

    fn recover(&self, medium: Arc<SimMedium>) -> Result<Found, Unusable> {
        LogSubject::sound(&medium)?;
        let log = LogSubject::open(Arc::clone(&medium), 4)?;
        let before = found(&log)?;
        // What an earlier epoch left after the end must not follow what is appended now.
        let probes = [8, 40, 72].map(|len| log.append(&PROBE.to_le_bytes().repeat(len / 8)));
        log.persist()?;
        let count = probes.iter().filter(|probe| probe.is_ok()).count();
        if let Some(error) = probes.into_iter().find_map(Result::err)
            && !matches!(error, AppendLogError::Full { .. })
        {
            return Err(error.into());
        }
        drop(log);
        LogSubject::sound(&medium)?;
        let after = found(&LogSubject::open(medium, 5)?)?;
        let is_same = after.records.len() == before.records.len() + count
            && after.records.starts_with(&before.records)
            && after.records[before.records.len()..].iter().all(|(_, value)| *value == PROBE);
        if !is_same {
            return Err(Unusable::Followed(after.records));
        }
        let records = before.records.into_iter().filter(|(_, value)| *value != PROBE).collect();
        Ok(Found { head: before.head, records })
    }

    fn legal_after_kill(&self, history: &HistoryPrefix<LogOperation>) -> Option<Legal> {
        Some(self.legal(history))
    }

    fn legal(&self, history: &HistoryPrefix<LogOperation>) -> Legal {
        Legal::new(history, self)
    }

    fn check(&self, legal: &Legal, contents: &Found) -> Result<(), String> {
        legal.check(contents)
    }
}

impl LogSubject {
    /// Returns the subject for a medium of this durability.
    pub fn new(area_len: u64, durability: Durability) -> LogSubject {
        LogSubject { area_len, is_cached: durability == Durability::Commit }
    }
}

/// The contents that are legal after a power cut.
#[derive(Debug)]
pub struct Legal {
    /// Positions at which the log may begin; any if a rewind is on its way.
    heads: BTreeSet<u64>,
    is_rewinding: bool,
    /// The log begins here or later.
    head_min: u64,
    /// Records at known positions that must be there, unless they are dropped.
    required: BTreeMap<u64, u64>,
    /// Records at known positions: those before one that is there are there.
    known: BTreeMap<u64, u64>,
    /// The values of each append that may be there, by its frames.
    appends: Vec<Vec<Vec<u64>>>,
}

impl Legal {
    fn new(history: &HistoryPrefix<LogOperation>, subject: &LogSubject) -> Legal {
        // The log was full and then empty, when the run began.
        let first = subject.area_len;
        let mut legal = Legal {
            heads: BTreeSet::from([first]),
            is_rewinding: false,
            head_min: first,
            required: BTreeMap::new(),
            known: BTreeMap::new(),
            appends: Vec::new(),
        };
        let operations = history.operations();
        let is_persist = |operation: &&lode_sim::Operation<LogOperation>| {
            matches!(operation.what, LogOperation::Persist) && operation.outcome == Outcome::Returned
        };
        let persisted = operations.iter().filter(is_persist).map(|operation| operation.begun).max();
        for operation in operations.iter().filter(|operation| operation.outcome != Outcome::Refused) {
            let has_returned = operation.outcome == Outcome::Returned;
            match &operation.what {
                LogOperation::Append { records, position } => {
                    legal.appends.push(frames(records));
                    let at = |first: &u64| positions(records, *first);
                    legal.known.extend(position.iter().flat_map(at));
                    let is_persisted = operation.ended.is_some_and(|end| Some(end) < persisted);
                    if has_returned && (!subject.is_cached || is_persisted) {
                        legal.required.extend(position.iter().flat_map(at));
                    }
                }
                LogOperation::Truncate { to } => {
                    legal.heads.extend(to);
                    legal.is_rewinding |= to.is_none();
                    if has_returned {
                        legal.head_min = legal.head_min.max(to.unwrap_or(0));
                    }
                }
                LogOperation::Follow { seen } => legal.required.extend(seen.iter().copied()),
                LogOperation::Persist => {}
            }
        }
        legal
    }

    fn check(&self, found: &Found) -> Result<(), String> {
        let Found { head, records } = found;
        if *head < self.head_min || (!self.is_rewinding && !self.heads.contains(head)) {
            return Err(format!("the log begins at {head}, and {} was dropped: {found:?}", self.head_min));
        }
        let at: BTreeMap<u64, u64> = records.iter().copied().collect();
        let last = records.last().map_or(0, |(position, _)| *position);
        for (position, value) in self.required.range(head..) {
            if at.get(position) != Some(value) {
                return Err(format!("record {value} at {position} is lost: {found:?}"));
            }
        }
        for (position, value) in self.known.range(head..).filter(|(position, _)| **position <= last) {
            if at.get(position) != Some(value) {
                return Err(format!("record {value} at {position} is missing before a later one: {found:?}"));
            }
        }
        self.check_values(found)
    }

    /// Checks that each value is there once, and those of an append are there in order, frame by frame from the first one on.
    fn check_values(&self, found: &Found) -> Result<(), String> {
        let places: BTreeMap<u64, usize> =
            found.records.iter().enumerate().map(|(index, (_, value))| (*value, index)).collect();
        if places.len() != found.records.len() {
            return Err(format!("a record is there twice: {found:?}"));
        }
        let mut explained = 0;
        for frames in &self.appends {
            let values: Vec<u64> = frames.concat();
            let here: Vec<usize> = values.iter().filter_map(|value| places.get(value).copied()).collect();
            explained += here.len();
            let Some(first) = values.iter().position(|value| places.contains_key(value)) else { continue };
            let last = values.iter().rposition(|value| places.contains_key(value)).unwrap_or(first);
            let is_joined =
                here.len() == last + 1 - first && here.windows(2).all(|pair| pair[0] + 1 == pair[1]);
            // The head may lie inside of an append, also of a frame. A torn frame is there with none of its records.
            let begins = first == 0 || here[0] == 0;
            let ends = frames.iter().any(|frame| frame.last() == Some(&values[last]));
            if !is_joined || !begins || !ends {
                return Err(format!("an append of {frames:?} is there in part: {found:?}"));
            }
        }
        if explained != found.records.len() {
            return Err(format!("a record that no operation appended is there: {found:?}"));
        }
        Ok(())
    }
}
