//! Loading a text: one durable transaction a line, by threads that share group commits.
//!
//! The lines are divided by a hash of the key, so that of two lines with one key the later one counts. They go
//! out in blocks. How much of the input is in the tree with nothing missing before it rides in transactions of
//! one of the threads, and at the end in that of the last key. So a load that was killed goes on at most a few
//! blocks before where it was, and putting those lines again changes nothing.

use crate::kv::input::Line;
use crate::kv::progress::{Block, Progress};
use crate::kv::{Format, Input, KvError, LineError, Pair, Store};
use crate::{IndexError, Tree};
use lode_layout::KvLoad;
use lode_pmem::Medium;
use std::io;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use xxhash_rust::xxh3::xxh3_64;

/// Lines that go out together, for each thread.
const PART_LINES: usize = 16;
/// Bytes of lines after which a block goes out though it has fewer lines.
const BLOCK_LEN: usize = 1 << 20;
/// Blocks that wait for a thread.
const BLOCKS_WAITING: usize = 2;
/// Bytes that a byte of a pair takes in a line at most, as `\xHH`.
const ESCAPE_LEN: u64 = 4;

/// What to do about a line that can't be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// End the load; the lines before it are loaded.
    Stop,
    /// Pass over it.
    Skip,
}

/// How to load.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// How a line holds a pair.
    pub format: Format,
    /// What to do about a line that can't be loaded.
    pub on_error: OnError,
    /// Threads that load; one more reads.
    pub threads: NonZeroUsize,
}

/// Whoever wants to hear of a load, from any of its threads.
pub trait LoadEvents: Sync {
    /// The key is durable with its value.
    ///
    /// # Errors
    /// When nobody can be told: the load ends.
    fn durable(&self, key: &[u8]) -> io::Result<()>;

    /// The line with that number, from 1, was passed over.
    fn skipped(&self, line: u64, error: &LineError);

    /// Whether the load is to end early. What was begun is finished.
    fn stopped(&self) -> bool;
}

/// What a load did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Lines that an earlier load of the same input had done.
    pub lines_before: u64,
    /// Lines of the input that are done now.
    pub lines: u64,
    /// Bytes of the input that are done now.
    pub offset: u64,
    /// Keys that were put, now.
    pub put: u64,
    /// Those of them that had been there.
    pub replaced: u64,
    /// Lines that were passed over, now.
    pub skipped: u64,
    /// Whether all of the input is in the tree; otherwise the load was stopped.
    pub complete: bool,
}

/// A load that runs.
struct Loader<'s, M: Medium, E> {
    store: &'s Store<M>,
    events: &'s E,
    options: LoadOptions,
    progress: Progress,
    put: AtomicU64,
    replaced: AtomicU64,
    failed: AtomicBool,
    failure: Mutex<Option<KvError>>,
}

/// What one thread has to load of a block.
struct Part {
    block: Arc<Block>,
    lines: Vec<Numbered>,
}

/// A line's pair, and its number from 1.
struct Numbered {
    line: u64,
    pair: Pair,
}

/// How reading ended.
enum Ending {
    /// At the end of the input, with its last pair still to put, if its last line held one.
    Complete(Option<Numbered>),
    /// Early, because somebody wanted that or a thread failed.
    Stopped,
    /// At a line that can't be loaded, or bytes that can't be read.
    Bad(KvError),
}

impl<M: Medium> Store<M> {
    /// Puts every pair of `input`, each in a transaction of its own. If the tree holds the beginning of the
    /// same input, by an earlier load that was the last to change it, only the rest.
    ///
    /// # Errors
    /// [`KvError::Line`] and [`KvError::Input`]: everything before is loaded. [`KvError::Refused`],
    /// [`KvError::Acknowledge`]: so is everything that was told to `events`.
    ///
    /// # Durability
    /// Each key is durable before `events` hears of it; everything is, on return.
    ///
    /// # Cost
    /// One drain a key, shared by all threads on the rung `commit`.
    pub fn load<E: LoadEvents>(
        &mut self,
        mut input: Input,
        options: &LoadOptions,
        events: &E,
    ) -> Result<LoadReport, KvError> {
        let remembered = self.loaded()?.filter(|load| load.how == options.how());
        if let Some(load) = remembered {
            input.take_up(&load).map_err(KvError::Input)?;
        }
        let begin = input.mark(options.how());
        let loader = Loader {
            store: self,
            events,
            options: *options,
            progress: Progress::new(begin),
            put: AtomicU64::new(0),
            replaced: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
        };
        loader.run(&mut input, &begin)
    }
}

impl LoadOptions {
    /// Tells on media how an input is read: what was passed over once is not missing from another reading.
    fn how(&self) -> u32 {
        self.format.code() | u32::from(self.on_error == OnError::Skip) << 8
    }
}

impl<M: Medium, E: LoadEvents> Loader<'_, M, E> {
    fn run(self, input: &mut Input, begin: &KvLoad) -> Result<LoadReport, KvError> {
        let mut skipped = 0;
        let ending = thread::scope(|scope| {
            let threads = 0..self.options.threads.get();
            let senders: Vec<SyncSender<Part>> = threads
                .map(|thread| {
                    let (sender, parts) = sync_channel(BLOCKS_WAITING);
                    let loader = &self;
                    scope.spawn(move || loader.work(&parts, thread == 0));
                    sender
                })
                .collect();
            self.distribute(input, &senders, &mut skipped)
        });
        let ending = match self.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(failure) => Ending::Bad(failure),
            None => ending,
        };
        let complete = matches!(ending, Ending::Complete(_));
        let reached = self.finish(ending, input)?;
        Ok(LoadReport {
            lines_before: begin.lines,
            lines: reached.lines,
            offset: reached.offset,
            put: count(&self.put),
            replaced: count(&self.replaced),
            skipped,
            complete,
        })
    }

    /// Reads block after block and sends each part to its thread.
    fn distribute(&self, input: &mut Input, senders: &[SyncSender<Part>], skipped: &mut u64) -> Ending {
        for number in 0.. {
            let mut parts: Vec<Vec<Numbered>> = senders.iter().map(|_| Vec::new()).collect();
            let (end, ending) = self.fill(input, &mut parts, skipped);
            let taken = parts.iter().filter(|lines| !lines.is_empty()).count();
            let block = Arc::new(Block::new(number, end, taken));
            if taken == 0 {
                self.progress.block_done(&block);
            }
            for (sender, lines) in senders.iter().zip(parts).filter(|(_, lines)| !lines.is_empty()) {
                if sender.send(Part { block: Arc::clone(&block), lines }).is_err() {
                    // The thread failed, and has said why.
                    return Ending::Stopped;
                }
            }
            if let Some(ending) = ending {
                return ending;
            }
        }
        unreachable!("the loop ends with the input")
    }

    /// Reads the lines of one block, but not the last one of the input if that holds a pair. Returns what is
    /// loaded when they are, and how reading ended, if it did.
    fn fill(
        &self,
        input: &mut Input,
        parts: &mut [Vec<Numbered>],
        skipped: &mut u64,
    ) -> (KvLoad, Option<Ending>) {
        let (how, lines_max) = (self.options.how(), PART_LINES * parts.len());
        let max = self.store.heap().memory().len().saturating_mul(ESCAPE_LEN);
        let (mut line, mut lines, mut len) = (Vec::new(), 0, 0);
        while lines < lines_max && len < BLOCK_LEN {
            if self.is_over() {
                return (input.mark(how), Some(Ending::Stopped));
            }
            let before = |input: &Input, ending| (input.mark(how), Some(ending));
            let read = match input.read_line(&mut line, max) {
                Ok(Line::End) => return before(input, Ending::Complete(None)),
                Ok(read) => read,
                Err(error) => return before(input, Ending::Bad(KvError::Input(error))),
            };
            let number = input.lines() + 1;
            let parsed = match read {
                Line::TooLong => Err(LineError::TooLong { max }),
                _ => self.options.format.parse(line.strip_suffix(b"\n").unwrap_or(&line)),
            };
            let pair = match parsed {
                Ok(pair) => Some(pair),
                Err(error) if self.options.on_error == OnError::Stop => {
                    return before(input, Ending::Bad(KvError::Line { line: number, error }));
                }
                Err(error) => {
                    self.events.skipped(number, &error);
                    *skipped += 1;
                    None
                }
            };
            let idle = input.is_idle();
            if let Some(pair) = pair {
                let numbered = Numbered { line: number, pair };
                match if idle { Ok(false) } else { input.is_at_end() } {
                    Err(error) => return before(input, Ending::Bad(KvError::Input(error))),
                    Ok(true) => {
                        let end = input.mark(how);
                        let ending = input.advance(&line, read).map_err(KvError::Input);
                        let complete = |()| Ending::Complete(Some(numbered));
                        return (end, Some(ending.map_or_else(Ending::Bad, complete)));
                    }
                    Ok(false) => {
                        let part = xxh3_64(&numbered.pair.key) % parts.len() as u64;
                        parts[part as usize].push(numbered);
                    }
                }
            }
            if let Err(error) = input.advance(&line, read) {
                return before(input, Ending::Bad(KvError::Input(error)));
            }
            (lines, len) = (lines + 1, len + line.len());
            if idle {
                break;
            }
        }
        (input.mark(how), None)
    }

    /// Puts the lines that one thread gets. One of the threads, which then never waits for another to do so,
    /// notes how far the load has come.
    fn work(&self, parts: &Receiver<Part>, notes: bool) {
        let tree = match self.store.tree() {
            Ok(tree) => tree,
            Err(error) => return self.fail(error.into()),
        };
        for Part { block, lines } in parts {
            let last = lines.len() - 1;
            for (index, numbered) in lines.iter().enumerate() {
                if self.is_over() {
                    return;
                }
                let note = (notes && index == last).then(|| self.progress.reached_with(&block));
                if let Err(error) = self.put(&tree, numbered, note.as_ref()) {
                    return self.fail(error);
                }
            }
            self.progress.part_done(&block);
        }
    }

    fn put(&self, tree: &Tree<'_, M>, numbered: &Numbered, note: Option<&KvLoad>) -> Result<(), KvError> {
        let Pair { key, value } = &numbered.pair;
        let put = self.store.heap().run(|tx| {
            let replaced = tree.insert_in(tx, key, value)?;
            if let Some(load) = note {
                self.store.note_load(tx, load)?;
            }
            Ok::<_, IndexError>(replaced)
        });
        let replaced = put.map_err(|error| KvError::Refused { line: numbered.line, error })?;
        // ORDER: none: they are read when the threads have ended.
        self.put.fetch_add(1, Ordering::Relaxed);
        // ORDER: as above.
        self.replaced.fetch_add(u64::from(replaced), Ordering::Relaxed);
        self.events.durable(key).map_err(KvError::Acknowledge)
    }

    /// Puts the last pair, or notes how far the load came without one. Returns that.
    fn finish(&self, ending: Ending, input: &Input) -> Result<KvLoad, KvError> {
        let ending = match ending {
            Ending::Complete(Some(last)) => {
                let all = input.mark(self.options.how());
                match self
                    .store
                    .tree()
                    .map_err(KvError::from)
                    .and_then(|tree| self.put(&tree, &last, Some(&all)))
                {
                    Ok(()) => return Ok(all),
                    Err(error) => Ending::Bad(error),
                }
            }
            other => other,
        };
        let noted = self.note_reached();
        match ending {
            // The first error is the one to tell; without the note the next load only does more.
            Ending::Bad(error) => Err(error),
            _ => noted,
        }
    }

    /// Notes how far the load came, in a transaction of its own.
    fn note_reached(&self) -> Result<KvLoad, KvError> {
        let reached = self.progress.reached();
        if reached.lines > 0 && self.store.loaded()? != Some(reached) {
            self.store.heap().run(|tx| self.store.note_load(tx, &reached))?;
        }
        Ok(reached)
    }

    fn is_over(&self) -> bool {
        // ORDER: none: who sees it late does one line more.
        self.failed.load(Ordering::Relaxed) || self.events.stopped()
    }

    fn fail(&self, error: KvError) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        // ORDER: as in `is_over`.
        self.failed.store(true, Ordering::Relaxed);
    }
}

fn count(counter: &AtomicU64) -> u64 {
    // ORDER: the threads that counted were joined.
    counter.load(Ordering::Relaxed)
}
