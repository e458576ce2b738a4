//! Loading a text: a durable transaction for each line, by threads that share group commits, or for many lines.
//!
//! A hash of the key assigns each line to a thread, so one thread puts all lines of a key, in their order. Lines go
//! out in blocks, and each thread gets its part of every block. So no thread is more than a few blocks late.
//!
//! # Why no acknowledged line is lost, after any number of kills
//!
//! A note in the pool, a [`KvLoad`], holds two positions in the input. Every line before `offset` is in the tree. No
//! line that ends after `begun` was begun, because a line is begun only when a durable note covers it. So after a
//! kill each line before `offset` is done, each that ends after `begun` is not, and each line between may be done or
//! not. One thread puts the lines of a key in their order. So the key has the value of the last of these lines that
//! is done, if any is. An acknowledgement says that a line was put.
//!
//! The next load of this input reads all lines between before it begins any of them. For each key it looks for the
//! last of these lines whose value the key has in the tree. It passes over that line and the key's lines before it,
//! as if they had just been put. The last line that was done has that value, so it is passed over, too. Only lines
//! after it are put, in their order. If no line has that value, none was done. Either way the value of a key never
//! goes back, at whatever point the next kill comes. A line counts as done if the key has its value, or had it before
//! the value of a later line. If the input ends before `begun`, or can't be read up to there, the load begins none of
//! these lines.
//!
//! `begun` covers no more than the bytes that were received when it was noted. So a sender that repeats the input has
//! all bytes that the load waits for, and can send them before any line is acknowledged.
//!
//! # Many lines in a transaction
//!
//! One thread puts a block in one transaction, and the note that the block is done is a part of that transaction. So
//! no line is begun without being done, and no note has to come before: `begun` stays as it was. If the transaction
//! fails, the block is put in parts, each in its order, and a note with a `begun` that covers the block comes first.
//!
//! An input is the same if it has the same hash up to `offset` or, as long as that is 0, the same first line.

use crate::error::KvError;
use crate::format::{Format, Pair};
use crate::input::{Input, Line};
use crate::line_error::LineError;
use crate::progress::{Block, Progress};
use crate::store::Store;
use lode_heap::HeapError;
use lode_index::{IndexError, Tree};
use lode_layout::KvLoad;
use lode_pmem::{Counter, Medium};
use std::collections::HashSet;
use std::io;
use std::mem;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use xxhash_rust::xxh3::xxh3_64;

/// Lines of a full block, for each thread that puts them one by one.
const PART_LINES: usize = 16;
/// Bytes of lines at which a block goes out even if it has fewer lines.
const BLOCK_LEN: u64 = 1 << 20;
/// Lines after which the progress of the load is noted again.
const PROGRESS_LINES: u64 = 512;
/// Greatest number of blocks that wait for a thread.
const BLOCKS_WAITING: usize = 2;
/// Greatest number of bytes that a byte of a pair takes in a line, as `\xHH`.
const ESCAPE_LEN: u64 = 4;
/// Length of a line's content in bytes up to which a pool may grow for it.
const LINE_GROWTH_MAX: u64 = 1 << 30;

/// The end of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnd {
    /// LF. A CR before it belongs to the line.
    Lf,
    /// CR LF, or LF alone.
    CrLf,
}

/// Treatment of a line that can't be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// End the load; the lines before it are loaded.
    Stop,
    /// Pass over it.
    Skip,
}

/// Options of a load.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// Syntax of the lines.
    pub format: Format,
    /// The end of each line.
    pub line_end: LineEnd,
    /// Treatment of a line that can't be loaded.
    pub on_error: OnError,
    /// The division of the lines into transactions.
    pub transactions: Transactions,
}

/// The division of the lines of a load into transactions. One more thread reads the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transactions {
    /// Each line has a transaction of its own. The threads share syncs.
    OfOneLine {
        /// Number of threads that load.
        threads: NonZeroUsize,
    },
    /// Lines that come together share a transaction, 1 MiB of them at most, and none is durable before all of them are.
    /// One thread loads. If such a transaction fails, the lines are put in parts, so those before a line that can't be
    /// loaded are loaded.
    OfManyLines {
        /// Maximum number of lines.
        lines: NonZeroUsize,
    },
}

/// Receiver of the events of a load. Any thread of the load may call it.
pub trait LoadEvents: Sync {
    /// Reports that the key is durable with the value of the line with this number, from 1, or of a later line.
    ///
    /// # Errors
    /// Fails if the acknowledgement can't be delivered. The load then ends.
    fn durable(&self, line: u64, key: &[u8]) -> io::Result<()>;

    /// Reports that the line with this number, from 1, was passed over.
    fn skipped(&self, line: u64, error: &LineError);

    /// Reports that the input was read up to this offset, in bytes from where the load found it; first, where it goes on with what
    /// an earlier load has done. For progress: nothing is durable by that.
    fn read_to(&self, offset: u64) {
        let _ = offset;
    }

    /// Returns true if the load must end early. Lines that were begun are finished. The load asks repeatedly, also
    /// while the input has nothing to read.
    fn stopped(&self) -> bool;
}

/// The result of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Lines that an earlier load of the same input had done, or whose value the key already had.
    pub lines_before: u64,
    /// Lines of the input that are done now.
    pub lines: u64,
    /// Bytes of the input that are done now.
    pub offset: u64,
    /// Keys that this load put.
    pub put: u64,
    /// Keys among them that were present before.
    pub replaced: u64,
    /// Lines that this load passed over.
    pub skipped: u64,
    /// Pairs of lines that end with CR LF whose CR belongs to key or value, since [`LineEnd::Lf`] was asked for.
    pub carriage_returns: u64,
    /// True if all of the input is in the tree. Otherwise the load was stopped.
    pub complete: bool,
}

/// A load in progress.
struct Loader<'s, M: Medium, E> {
    store: &'s Store<M>,
    events: &'s E,
    options: LoadOptions,
    progress: Progress,
    /// The note in the pool. With many lines in a transaction, only the thread that loads changes it as long as it
    /// runs; otherwise only the thread that reads. So notes never go back.
    stored: Mutex<KvLoad>,
    already_loaded: Counter,
    put: Counter,
    replaced: Counter,
    failed: AtomicBool,
    /// Set when a thread stopped before the end of its lines.
    stopped_early: AtomicBool,
    failure: Mutex<Option<KvError>>,
}

/// Numbers of lines that the reading thread counts.
#[derive(Debug, Default)]
struct LineCounts {
    skipped: u64,
    carriage_returns: u64,
}

/// The lines of a block for one thread.
struct Part {
    block: Arc<Block>,
    /// The note that no line of the block is done, and that any may be begun.
    begun: KvLoad,
    lines: Vec<NumberedPair>,
    /// True if an earlier load may have done some of the lines.
    may_be_loaded: bool,
}

/// A line's pair, and its number from 1.
struct NumberedPair {
    line: u64,
    pair: Pair,
}

/// The end of reading.
enum Ending {
    /// The input ended. If its last line held a pair, that pair is still to be put.
    Complete(Option<NumberedPair>),
    /// Reading ended early: the caller stopped the load, or a thread failed.
    Stopped,
    /// A line can't be loaded, or bytes can't be read.
    Failed(KvError),
}

impl<M: Medium> Store<M> {
    /// Puts every pair of `input`, each in a transaction of its own or many in one. If the tree holds the beginning of the same
    /// input, only the rest is put. The load that put the beginning must be the last change of the tree.
    ///
    /// # Errors
    /// [`KvError::Line`] and [`KvError::Input`]: all lines before are loaded. But if not all lines that an earlier
    /// load had begun can be read, none of these is loaded. [`KvError::InputTruncated`], [`KvError::Threads`]: nothing
    /// was changed. [`KvError::Refused`], [`KvError::Acknowledge`]: every line that was reported to `events` is loaded.
    /// [`KvError::Index`] with [`HeapError::ReadOnly`] in a pool that was opened for reading.
    ///
    /// # Durability
    /// Each key is durable before it is reported to `events`, and all keys are on return. From then on a key has that
    /// value or that of a later line, however often this load is killed and repeated.
    ///
    /// # Cost
    /// One drain per transaction, shared by all threads at durability `commit`. One more for each note, after some hundred
    /// lines or after as many as a pipe has at a time.
    pub fn load<E: LoadEvents>(
        &mut self,
        input: Input<'_>,
        options: &LoadOptions,
        events: &E,
    ) -> Result<LoadReport, KvError> {
        self.heap().check_writable()?;
        let stopped = || events.stopped();
        let mut input = input.stop_when(&stopped);
        let mut stored = input.progress(options.mode());
        if let Some(load) = self.load_progress()?.filter(|load| load.mode == options.mode()) {
            match input.resume(&load) {
                Ok(true) => stored = load,
                Ok(false) => {}
                Err(_) if events.stopped() => return Ok(LoadReport::default()),
                Err(error) => return Err(KvError::Input(error)),
            }
        }
        let begin = input.progress(options.mode());
        let loader = Loader {
            store: self,
            events,
            options: *options,
            progress: Progress::new(begin),
            stored: Mutex::new(stored),
            already_loaded: Counter::default(),
            put: Counter::default(),
            replaced: Counter::default(),
            failed: AtomicBool::new(false),
            stopped_early: AtomicBool::new(false),
            failure: Mutex::new(None),
        };
        loader.run(&mut input, &begin)
    }
}

impl Transactions {
    /// Returns the number of threads that load.
    fn threads(self) -> usize {
        match self {
            Transactions::OfOneLine { threads } => threads.get(),
            Transactions::OfManyLines { .. } => 1,
        }
    }

    /// Returns the maximum number of lines of a block.
    fn block_lines(self) -> usize {
        match self {
            Transactions::OfOneLine { threads } => PART_LINES * threads.get(),
            Transactions::OfManyLines { lines } => lines.get(),
        }
    }
}

impl LoadOptions {
    /// Returns the number that stands for these options in the progress of a load. A line that one reading passed over
    /// may be a pair in another.
    fn mode(&self) -> u32 {
        let crlf = u32::from(self.line_end == LineEnd::CrLf) << 9;
        self.format.code() | u32::from(self.on_error == OnError::Skip) << 8 | crlf
    }

    /// Returns the content of a line that was read with its end.
    fn content<'l>(&self, line: &'l [u8]) -> &'l [u8] {
        let crlf = line.strip_suffix(b"\r\n").filter(|_| self.line_end == LineEnd::CrLf);
        crlf.or_else(|| line.strip_suffix(b"\n")).unwrap_or(line)
    }

    /// Returns true if the pair of a line has the CR of its end.
    fn keeps_carriage_return(&self, line: &[u8]) -> bool {
        self.line_end == LineEnd::Lf && self.format != Format::Jsonl && line.ends_with(b"\r\n")
    }
}

impl<M: Medium, E: LoadEvents> Loader<'_, M, E> {
    fn run(self, input: &mut Input<'_>, begin: &KvLoad) -> Result<LoadReport, KvError> {
        let mut counts = LineCounts::default();
        self.events.read_to(input.offset());
        let ending = thread::scope(|scope| {
            let start = |_| {
                let (sender, parts) = sync_channel(BLOCKS_WAITING);
                let loader = &self;
                thread::Builder::new().spawn_scoped(scope, move || loader.work(&parts)).map(|_| sender)
            };
            let senders: Result<Vec<SyncSender<Part>>, _> =
                (0..self.options.transactions.threads()).map(start).collect();
            match senders {
                Ok(senders) => self.distribute(input, &senders, &mut counts),
                Err(error) => Ending::Failed(KvError::Threads(error)),
            }
        });
        let ending = match self.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(failure) => Ending::Failed(failure),
            // The reader may have come to the end of the input before.
            // ORDER: none: the threads have ended.
            None if self.stopped_early.load(Ordering::Relaxed) => Ending::Stopped,
            None => ending,
        };
        let complete = matches!(ending, Ending::Complete(_));
        let reached = self.finish(ending, input)?;
        Ok(LoadReport {
            lines_before: begin.lines + self.already_loaded.get(),
            lines: reached.lines,
            offset: reached.offset,
            put: self.put.get(),
            replaced: self.replaced.get(),
            skipped: counts.skipped,
            carriage_returns: counts.carriage_returns,
            complete,
        })
    }

    /// Reads one block after another and sends each part to its thread. The first block has all lines that an earlier
    /// load of this input had begun.
    fn distribute(
        &self,
        input: &mut Input<'_>,
        senders: &[SyncSender<Part>],
        counts: &mut LineCounts,
    ) -> Ending {
        let mut begun = Some(self.lock_stored().begun).filter(|begun| *begun > input.offset());
        for number in 0.. {
            let begin = input.progress(self.options.mode());
            let mut parts: Vec<Vec<NumberedPair>> = senders.iter().map(|_| Vec::new()).collect();
            let (end, ending) = self.fill(input, &mut parts, begun.unwrap_or(0), counts);
            self.events.read_to(input.offset());
            let ending = match (ending, begun.filter(|begun| *begun > input.offset())) {
                (Some(Ending::Stopped), _) => return Ending::Stopped,
                (Some(Ending::Complete(_)), Some(begun)) => {
                    return Ending::Failed(KvError::InputTruncated { end: input.offset(), begun });
                }
                (Some(failed @ Ending::Failed(KvError::Input(_))), Some(_)) => return failed,
                // A line that can't be loaded ended the earlier load, too, so nothing after it was begun.
                (ending, _) => ending,
            };
            if let Err(error) = self.store_progress_before(&end, input) {
                self.fail(error);
                return Ending::Stopped;
            }
            let block = Arc::new(Block::new(number, end, parts.len()));
            let may_be_loaded = begun.take().is_some();
            let begun = KvLoad { begun: end.offset, hash: input.hash_of(&begin), ..begin };
            for (sender, lines) in senders.iter().zip(parts) {
                if sender.send(Part { block: Arc::clone(&block), begun, lines, may_be_loaded }).is_err() {
                    // The thread failed, and has reported its error.
                    return Ending::Stopped;
                }
            }
            if let Some(ending) = ending {
                return ending;
            }
        }
        unreachable!("the loop ends with the input")
    }

    /// Makes sure that a durable note covers the lines before `end`, unless their transaction holds the note. Renews the
    /// note from time to time.
    fn store_progress_before(&self, end: &KvLoad, input: &Input<'_>) -> Result<(), KvError> {
        if matches!(self.options.transactions, Transactions::OfManyLines { .. }) {
            return Ok(());
        }
        let stored = *self.lock_stored();
        let is_due = self.progress.reached().lines >= stored.lines + PROGRESS_LINES;
        if end.offset > stored.begun || is_due {
            // ORDER: durable before any line that it covers for the first time is sent to a thread. Stop here: those
            // lines are not begun, which the note allows for lines between its offset and `begun`.
            self.store_progress(input, input.received())?;
        }
        Ok(())
    }

    /// Reads the lines of one block, at least up to byte `begun`. Leaves out the last line of the input if it holds a
    /// pair. Returns the progress of a load that has loaded the block, and the end of reading, if it ended.
    fn fill(
        &self,
        input: &mut Input<'_>,
        parts: &mut [Vec<NumberedPair>],
        begun: u64,
        counts: &mut LineCounts,
    ) -> (KvLoad, Option<Ending>) {
        let (how, lines_max) = (self.options.mode(), self.options.transactions.block_lines());
        // A pool that grows may become longer for a line, but no line without an end is read for ever.
        let size_max = self.store.pool().header().size_max.min(LINE_GROWTH_MAX);
        let max = self.store.heap().memory().len().max(size_max).saturating_mul(ESCAPE_LEN);
        let (mut line, mut lines, begin) = (Vec::new(), 0, input.offset());
        while input.offset() < begun || (lines < lines_max && input.offset() - begin < BLOCK_LEN) {
            if self.must_stop() {
                return (input.progress(how), Some(Ending::Stopped));
            }
            let before = |input: &Input<'_>, ending| (input.progress(how), Some(ending));
            let read = match input.read_line(&mut line, max) {
                Ok(Line::End) => return before(input, Ending::Complete(None)),
                Ok(read) => read,
                Err(_) if self.must_stop() => return before(input, Ending::Stopped),
                Err(error) => return before(input, Ending::Failed(KvError::Input(error))),
            };
            let number = input.lines() + 1;
            let content = self.options.content(&line);
            let parsed = match read {
                Line::TooLong => Err(LineError::TooLong { max }),
                _ => self.options.format.parse(content),
            };
            let pair = match parsed {
                Ok(pair) => Some(pair),
                Err(error) if self.options.on_error == OnError::Stop => {
                    return before(input, Ending::Failed(KvError::Line { line: number, error }));
                }
                Err(error) => {
                    self.events.skipped(number, &error);
                    counts.skipped += 1;
                    None
                }
            };
            let idle = input.is_idle();
            if let Some(pair) = pair {
                counts.carriage_returns += u64::from(self.options.keeps_carriage_return(&line));
                let numbered = NumberedPair { line: number, pair };
                match if idle { Ok(false) } else { input.is_at_end() } {
                    Err(error) => return before(input, Ending::Failed(KvError::Input(error))),
                    Ok(true) => {
                        let end = input.progress(how);
                        let ending = input.advance(&line, read).map_err(KvError::Input);
                        let complete = |()| Ending::Complete(Some(numbered));
                        return (end, Some(ending.map_or_else(Ending::Failed, complete)));
                    }
                    Ok(false) => {
                        let part = xxh3_64(&numbered.pair.key) % parts.len() as u64;
                        parts[part as usize].push(numbered);
                    }
                }
            }
            if let Err(error) = input.advance(&line, read) {
                return before(input, Ending::Failed(KvError::Input(error)));
            }
            lines += 1;
            if idle && input.offset() >= begun {
                break;
            }
        }
        (input.progress(how), None)
    }

    /// Puts the lines of one thread, part after part.
    fn work(&self, parts: &Receiver<Part>) {
        let worked = self.store.tree().map_err(KvError::from).and_then(|tree| {
            for part in parts {
                if !self.put_part(&tree, &part)? {
                    // ORDER: none: read when this thread has ended.
                    self.stopped_early.store(true, Ordering::Relaxed);
                    break;
                }
                self.progress.part_done(&part.block);
            }
            Ok(())
        });
        if let Err(error) = worked {
            self.fail(error);
        }
    }

    /// Puts the lines of one part. Returns true if it came to the part's end.
    fn put_part(&self, tree: &Tree<'_, M>, part: &Part) -> Result<bool, KvError> {
        let already_loaded = match part.may_be_loaded {
            true => find_loaded(tree, &part.lines)?,
            false => vec![false; part.lines.len()],
        };
        let has_own_transaction = matches!(self.options.transactions, Transactions::OfOneLine { .. });
        let mut to_put = Vec::new();
        for (numbered, is_loaded) in part.lines.iter().zip(already_loaded) {
            if self.must_stop() {
                return Ok(false);
            }
            if is_loaded {
                self.already_loaded.add(1);
                // The load that put the line may have been killed before it acknowledged the line.
                self.acknowledge(numbered)?;
            } else if has_own_transaction {
                self.put(tree, numbered, None)?;
            } else {
                to_put.push(numbered);
            }
        }
        if to_put.is_empty() { Ok(true) } else { self.put_together(tree, &to_put, part) }
    }

    /// Puts the lines of a block in one transaction, which notes that the block is done. If that fails, puts them in
    /// parts. Returns true if it came to the block's end.
    fn put_together(
        &self,
        tree: &Tree<'_, M>,
        lines: &[&NumberedPair],
        part: &Part,
    ) -> Result<bool, KvError> {
        if self.put_in_one(tree, lines, Some(part.block.end()))? {
            return Ok(true);
        }
        // ORDER: durable before the first part. Stop here: no line of the block is begun, which the note allows.
        self.store_note(&part.begun)?;
        let (mut rest, mut has_failed) = (vec![lines], true);
        while let Some(lines) = rest.pop() {
            if self.must_stop() {
                return Ok(false);
            }
            if let [line] = lines {
                self.put(tree, line, None)?;
            } else if mem::take(&mut has_failed) || !self.put_in_one(tree, lines, None)? {
                let (first, second) = lines.split_at(lines.len() / 2);
                rest.extend([second, first]);
            }
        }
        Ok(true)
    }

    /// Puts lines in one transaction, with a note if there is one. Returns false if nothing was put, and fewer lines may
    /// be.
    fn put_in_one(
        &self,
        tree: &Tree<'_, M>,
        lines: &[&NumberedPair],
        note: Option<&KvLoad>,
    ) -> Result<bool, KvError> {
        let note = note.map(|note| self.with_begun(note));
        let sorted = sort(lines);
        let put = self.store.heap().run(|tx| {
            let replaced = tree.insert_sorted_in(tx, &sorted)?;
            if let Some(load) = &note {
                self.store.store_load_progress(tx, load)?;
            }
            Ok::<_, IndexError>(replaced)
        });
        match put {
            Ok(replaced) => {
                self.note_is_stored(note);
                self.put.add(lines.len() as u64);
                self.replaced.add(replaced);
                lines.iter().try_for_each(|numbered| self.acknowledge(numbered))?;
                Ok(true)
            }
            Err(error @ IndexError::Heap(HeapError::InDoubt(_) | HeapError::Poisoned)) => {
                Err(KvError::Refused { line: lines[0].line, error })
            }
            Err(_) => Ok(false),
        }
    }

    fn put(
        &self,
        tree: &Tree<'_, M>,
        numbered: &NumberedPair,
        progress: Option<&KvLoad>,
    ) -> Result<(), KvError> {
        let Pair { key, value } = &numbered.pair;
        let put = self.store.heap().run(|tx| {
            let replaced = tree.insert_in(tx, key, value)?;
            if let Some(load) = progress {
                self.store.store_load_progress(tx, load)?;
            }
            Ok::<_, IndexError>(replaced)
        });
        let replaced = put.map_err(|error| KvError::Refused { line: numbered.line, error })?;
        self.note_is_stored(progress.copied());
        self.put.add(1);
        self.replaced.add(replaced.into());
        self.acknowledge(numbered)
    }

    fn acknowledge(&self, numbered: &NumberedPair) -> Result<(), KvError> {
        self.events.durable(numbered.line, &numbered.pair.key).map_err(KvError::Acknowledge)
    }

    /// Puts the last pair or, without one, notes the progress of the load. Returns that progress.
    fn finish(&self, ending: Ending, input: &Input<'_>) -> Result<KvLoad, KvError> {
        let ending = match ending {
            Ending::Complete(Some(last)) => {
                let all = input.progress(self.options.mode());
                match self
                    .store
                    .tree()
                    .map_err(KvError::from)
                    .and_then(|tree| self.put(&tree, &last, Some(&all)))
                {
                    Ok(()) => return Ok(all),
                    Err(error) => Ending::Failed(error),
                }
            }
            other => other,
        };
        let reached = self.store_progress(input, 0);
        match ending {
            // The first error is returned. Without the note the next load only repeats more lines.
            Ending::Failed(error) => Err(error),
            _ => reached,
        }
    }

    /// Notes the progress of the load, and that lines before `begun` may have been begun, in a transaction of its
    /// own. Returns the progress.
    fn store_progress(&self, input: &Input<'_>, begun: u64) -> Result<KvLoad, KvError> {
        let reached = self.progress.reached();
        let hash = input.hash_of(&reached);
        self.store_note(&KvLoad { begun: begun.max(reached.begun), hash, ..reached })?;
        Ok(reached)
    }

    /// Stores a note in a transaction of its own, unless the pool has it, or one of later lines.
    fn store_note(&self, note: &KvLoad) -> Result<(), KvError> {
        let note = self.with_begun(note);
        let stored = *self.lock_stored();
        if stored != note && stored.offset <= note.offset {
            self.store.heap().run(|tx| self.store.store_load_progress(tx, &note))?;
            self.note_is_stored(Some(note));
        }
        Ok(())
    }

    /// Returns the note, which covers all lines that the note in the pool covers: some of them may have been begun.
    fn with_begun(&self, note: &KvLoad) -> KvLoad {
        KvLoad { begun: note.begun.max(self.lock_stored().begun), ..*note }
    }

    fn note_is_stored(&self, note: Option<KvLoad>) {
        if let Some(note) = note {
            *self.lock_stored() = note;
        }
    }

    fn lock_stored(&self) -> MutexGuard<'_, KvLoad> {
        // Nothing panics while it is held.
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn must_stop(&self) -> bool {
        // ORDER: none: a thread that sees it late does one line more.
        self.failed.load(Ordering::Relaxed) || self.events.stopped()
    }

    fn fail(&self, error: KvError) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.as_ref().is_none_or(is_secondary) {
            *failure = Some(error);
        }
        drop(failure);
        // ORDER: as in `is_over`.
        self.failed.store(true, Ordering::Relaxed);
    }
}

/// Returns the pairs of the lines by key, and those of one key in the order of their lines.
fn sort<'a>(lines: &[&'a NumberedPair]) -> Vec<(&'a [u8], &'a [u8])> {
    // Most keys differ in their first bytes, which are compared without a look at the key.
    let first_bytes = |key: &[u8]| {
        let mut bytes = [0; 8];
        let len = key.len().min(bytes.len());
        bytes[..len].copy_from_slice(&key[..len]);
        u64::from_be_bytes(bytes)
    };
    let mut pairs: Vec<(u64, &Pair)> =
        lines.iter().map(|NumberedPair { pair, .. }| (first_bytes(&pair.key), pair)).collect();
    pairs.sort_by(|(one, one_pair), (other, other_pair)| {
        one.cmp(other).then_with(|| one_pair.key.cmp(&other_pair.key))
    });
    pairs.into_iter().map(|(_, pair)| (pair.key.as_slice(), pair.value.as_slice())).collect()
}

/// Returns true for each line to be passed over, among lines that an earlier load may have done: for each key, the
/// last line whose value the key has, and the key's lines before it.
fn find_loaded<M: Medium>(tree: &Tree<'_, M>, lines: &[NumberedPair]) -> Result<Vec<bool>, IndexError> {
    let mut settled: HashSet<&[u8]> = HashSet::new();
    let mut already_loaded = vec![false; lines.len()];
    for (is_loaded, NumberedPair { pair: Pair { key, value }, .. }) in
        already_loaded.iter_mut().zip(lines).rev()
    {
        *is_loaded = settled.contains(key.as_slice()) || tree.get(key)?.as_ref() == Some(value);
        if *is_loaded {
            settled.insert(key);
        }
    }
    Ok(already_loaded)
}

/// Returns true if the error follows from that of another thread, and tells less than that one.
fn is_secondary(error: &KvError) -> bool {
    let (KvError::Index(error) | KvError::Refused { error, .. }) = error else { return false };
    matches!(error, IndexError::Heap(HeapError::Poisoned))
}
