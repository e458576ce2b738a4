//! Loading in a process that is killed at random moments. Another process records its acknowledgements.

use crate::demo::word_list::WordList;
use crate::demo::{DemoContext, of_pool};
use crate::failure::Failure;
use crate::progress::Progress;
use lode_kv::{KvError, Store, unescape};
use lode_pool::{Access, OpenOptions};
use rustix::pipe::fcntl_setpipe_size;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::env;
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter};
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Threads of the loader. At most this many words can be durable but not acknowledged.
const THREADS: usize = 16;
/// Longest delay between the word that triggers a kill and the kill.
const DELAY_MAX: Duration = Duration::from_millis(4);
/// The pipe from the loader holds one part in this many of all words, in bytes. It keeps the loader close to the
/// reader: a loader that is far ahead would have few words left, or none, when it is killed.
const PIPE_SHARE: usize = 64;
/// Smallest and default capacity of a pipe, in bytes.
const PIPE_LEN_RANGE: RangeInclusive<usize> = 4096..=65536;

/// The result of all loads.
pub(super) struct LoadResult {
    pub(super) acknowledged: u64,
    pub(super) complete: bool,
    pub(super) kills: Vec<Kill>,
}

/// The state of the pool after a kill.
pub(super) struct Kill {
    /// Words that the loader had acknowledged as durable. All of them were in the pool.
    acknowledged: u64,
    /// Words in the pool that the loader had not acknowledged.
    in_flight: u64,
    /// Records of the log that opening the pool replayed.
    replayed: u64,
    /// Time that opening the pool took.
    reopen: Duration,
}

impl Kill {
    pub(super) fn to_json(&self) -> Value {
        json!({
            "acknowledged": self.acknowledged,
            "in_flight": self.in_flight,
            "replayed": self.replayed,
            "reopen_us": self.reopen.as_micros() as u64,
        })
    }
}

/// The end of a loader.
#[derive(Clone, Copy, PartialEq)]
enum LoaderEnd {
    Finished,
    Killed,
    OutOfTime,
}

/// The words that a loader acknowledged as durable, kept in this process, which is not killed.
struct AcknowledgedWords<'a> {
    words: &'a WordList,
    acknowledged: HashSet<Vec<u8>>,
}

/// Runs loaders until all words are loaded or time is up, and kills the first `kills` of them.
pub(super) fn load(
    context: &DemoContext,
    pool: &Path,
    input: &Path,
    words: &WordList,
    kills: u32,
    until: Instant,
    rng: &mut fastrand::Rng,
) -> Result<LoadResult, Failure> {
    let mut acked = AcknowledgedWords { words, acknowledged: HashSet::new() };
    let mut seen = Vec::new();
    context.print(format!("{} words, {THREADS} threads that share syncs, {kills} kills", words.len()));
    let progress = Progress::of_items("words acknowledged", words.len() as u64);
    let text_len = words.all().iter().map(|word| word.len() + 1).sum();
    let begin = Instant::now();
    let mut checking = Duration::ZERO;
    let complete = loop {
        let left = (words.len() - acked.acknowledged.len()) as u64;
        let kills_left = u64::from(kills) - seen.len() as u64;
        // A random number that leaves some words for the loaders that follow.
        let kill_after = (kills_left > 0).then(|| 1 + rng.u64(0..(left * 2 / (kills_left * 2 + 1)).max(1)));
        let delay = DELAY_MAX.mul_f64(rng.f64());
        let (lines, output) = pipe(text_len)?;
        let loader = spawn(pool, input, output)?;
        let end = acked.follow(loader, lines, kill_after, delay, until, &progress)?;
        context.check_interrupt()?;
        if end == LoaderEnd::Finished {
            break true;
        }
        let since = Instant::now();
        let kill = acked.verify(pool)?;
        checking += since.elapsed();
        if !context.json {
            progress.println(&describe(seen.len() + 1, &kill));
        }
        if end == LoaderEnd::OutOfTime {
            break false;
        }
        seen.push(kill);
    };
    let took = begin.elapsed() - checking;
    let whole = acked.verify(pool)?;
    drop(progress);
    let acknowledged = acked.acknowledged.len() as u64;
    let rate = acknowledged as f64 / took.as_secs_f64();
    let status = if complete { "all loaded" } else { "syncs are slow here, so loading stops" };
    context.print(format!(
        "{status}: {acknowledged} words in {:.1} s, {rate:.0} durable transactions a second; every one is there, \
         unchanged, and {} besides",
        took.as_secs_f64(),
        whole.in_flight,
    ));
    Ok(LoadResult { acknowledged, complete, kills: seen })
}

fn describe(number: usize, kill: &Kill) -> String {
    format!(
        "   kill {number}: {:>6} words acknowledged, all there, unchanged; {:>2} in flight besides; reopened in \
         {:.1} ms, {} records replayed",
        kill.acknowledged,
        kill.in_flight,
        kill.reopen.as_secs_f64() * 1e3,
        kill.replayed,
    )
}

/// Makes a pipe for a loader whose words are `text_len` bytes in all. The pipe holds a share of them, and the loader
/// waits while it is full.
fn pipe(text_len: usize) -> Result<(BufReader<PipeReader>, PipeWriter), Failure> {
    let (reader, writer) = io::pipe().map_err(|error| Failure::new("making a pipe for the loader", error))?;
    let len = (text_len / PIPE_SHARE).clamp(*PIPE_LEN_RANGE.start(), *PIPE_LEN_RANGE.end());
    // If the kernel refuses, the kills come later, and no other harm is done.
    let _ = fcntl_setpipe_size(&writer, len);
    Ok((BufReader::with_capacity(len / 4, reader), writer))
}

fn spawn(pool: &Path, input: &Path, output: PipeWriter) -> Result<Child, Failure> {
    let own = env::current_exe().map_err(|error| Failure::new("finding the program itself", error))?;
    let mut command = Command::new(&own);
    command.args(["kv", "load", "--ack", "--threads", &THREADS.to_string()]).arg(pool).arg(input);
    command.stdin(Stdio::null()).stdout(output);
    command.spawn().map_err(|error| Failure::io("starting the loader", &own, &error))
}

impl AcknowledgedWords<'_> {
    /// Records the words that the loader acknowledges, until it ends. Kills it `delay` after `kill_after` new words, or
    /// once `until` has passed.
    fn follow(
        &mut self,
        mut loader: Child,
        mut lines: BufReader<PipeReader>,
        kill_after: Option<u64>,
        delay: Duration,
        until: Instant,
        progress: &Progress,
    ) -> Result<LoaderEnd, Failure> {
        let lost = |error| Failure::new("following the loader", error);
        let (mut line, mut count, mut end) = (Vec::new(), 0, LoaderEnd::Finished);
        loop {
            line.clear();
            lines.read_until(b'\n', &mut line).map_err(lost)?;
            // A torn line acknowledges nothing.
            let Some(text) = line.strip_suffix(b"\n") else { break };
            let word = unescape(text).map_err(|error| Failure::new("following the loader", error))?;
            if self.acknowledged.insert(word) {
                count += 1;
                progress.add(1);
            }
            // The words that it acknowledged before it died are still in the pipe, and count: so reading goes on.
            if end == LoaderEnd::Finished && kill_after.is_some_and(|after| count >= after) {
                thread::sleep(delay);
                loader.kill().map_err(lost)?;
                end = LoaderEnd::Killed;
            } else if end == LoaderEnd::Finished && Instant::now() > until {
                loader.kill().map_err(lost)?;
                end = LoaderEnd::OutOfTime;
            }
        }
        let status = loader.wait().map_err(lost)?;
        if end == LoaderEnd::Finished && !status.success() && status.code() != Some(130) {
            return Err(Failure::new("loading", format!("the loader ended with {status}")));
        }
        Ok(if status.success() { LoaderEnd::Finished } else { end })
    }

    /// Reopens the pool and compares all of it with the acknowledgements.
    fn verify(&self, pool: &Path) -> Result<Kill, Failure> {
        let failure = of_pool(pool);
        let begin = Instant::now();
        let store = Store::open(pool, &OpenOptions::new(Access::ReadWrite)).map_err(&failure)?;
        let reopen = begin.elapsed();
        let replayed = store.pool().recovery().replayed;
        let (mut found, mut in_flight) = (0, 0);
        {
            let tree = store.tree().map_err(|error| failure(KvError::from(error)))?;
            let reader = tree.reader();
            for entry in reader.iter() {
                let entry = entry.map_err(|error| failure(error.into()))?;
                if self.words.value(&entry.key).as_deref() != Some(entry.value.as_bytes()) {
                    return Err(verify_failure(format!("{:?} is there and was never loaded so", entry.key)));
                }
                if self.acknowledged.contains(&entry.key) {
                    found += 1;
                } else {
                    in_flight += 1;
                }
            }
        }
        store.close().map_err(&failure)?;
        let acknowledged = self.acknowledged.len() as u64;
        if found != acknowledged {
            return Err(verify_failure(format!("{} acknowledged words are missing", acknowledged - found)));
        }
        if in_flight > THREADS as u64 {
            return Err(verify_failure(format!("{in_flight} words are there that were not acknowledged")));
        }
        Ok(Kill { acknowledged, in_flight, replayed, reopen })
    }
}

fn verify_failure(what: String) -> Failure {
    Failure::new("verifying the pool after a kill", what)
}

#[cfg(test)]
mod test {
    use super::*;
    use rustix::pipe::fcntl_getpipe_size;

    #[test]
    fn loader_pipe_capacity_is_bounded() -> Result<(), Failure> {
        for (text_len, want) in [(0, 4096), (40_000, 4096), (1 << 20, 16_384), (1 << 30, 65_536)] {
            let (reader, writer) = pipe(text_len)?;
            assert_eq!(fcntl_getpipe_size(&writer).ok(), Some(want), "{text_len} bytes of words");
            assert!(reader.capacity() <= want / 4, "{text_len} bytes of words");
        }
        Ok(())
    }
}
