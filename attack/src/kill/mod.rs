//! SIGKILL at random moments: what was acknowledged is there, and what was in flight is whole or not there at all.
//!
//! ```text
//!   attack kill        starts a child, kills it, opens the pool, compares; again and again on one pool
//!      |  journal: a file with a word for each thread, the number of its last acknowledged transaction
//!   attack child       threads that run transactions until they are killed
//! ```
//!
//! What the transaction `n` of a thread does follows from seed, thread and `n`, and it stores `n` to the pool itself. So
//! the pool says how far each thread has come, and the parent knows what must be there then. The journal is written after
//! a transaction has returned: the pool may be one ahead of it, and never behind.

mod ledger;
mod pairs;

use crate::api::Done;
use crate::{Finding, scratch};
use anyhow::{Context, Result};
use fastrand::Rng;
use lode_heap::Rung;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::Duration;

/// Threads of a child.
pub(crate) const THREADS: u64 = 4;
/// Milliseconds up to which a child may run before it is killed. None of them decides what must be found.
const LIFE_MS_MAX: u64 = 60;
/// Lives of one pool; then a new one begins.
const LIVES: u64 = 10;

/// What a child does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Keys and values of a store.
    Pairs,
    /// Objects of a heap, reserved, published and freed.
    Ledger,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(if *self == Work::Pairs { "pairs" } else { "ledger" })
    }
}

impl FromStr for Work {
    type Err = String;

    fn from_str(text: &str) -> Result<Work, String> {
        let work = [Work::Pairs, Work::Ledger].into_iter().find(|work| work.to_string() == text);
        work.ok_or_else(|| format!("there is no work {text:?}; choose pairs or ledger"))
    }
}

/// Kills of one seed.
#[derive(Clone, Copy, Debug)]
pub struct Kills {
    /// What the child does.
    pub work: Work,
    /// On which rung: line or commit.
    pub rung: Rung,
    /// From which all follows but the moments.
    pub seed: u64,
    /// How many.
    pub count: u64,
}

/// Compares the pool that a kill has left with the journal.
pub(crate) type Compare = dyn FnMut(&Path, &Journal) -> Done;

/// The acknowledged transactions of each thread.
#[derive(Debug)]
pub(crate) struct Journal(File);

impl Journal {
    fn open(path: &Path) -> Result<Journal> {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path);
        let file = file.with_context(|| path.display().to_string())?;
        file.set_len(THREADS * 8)?;
        Ok(Journal(file))
    }

    /// Notes that the transaction `number` of `thread` has returned.
    pub(crate) fn acknowledge(&self, thread: u64, number: u64) -> Result<()> {
        Ok(self.0.write_all_at(&number.to_le_bytes(), thread * 8)?)
    }

    fn acknowledged(&self, thread: u64) -> Result<u64> {
        let mut word = [0; 8];
        self.0.read_exact_at(&mut word, thread * 8)?;
        Ok(u64::from_le_bytes(word))
    }
}

/// The choices of a transaction.
pub(crate) fn choices(seed: u64, thread: u64, number: u64) -> Rng {
    Rng::with_seed(
        seed ^ thread.wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15),
    )
}

/// A finding when a thread has not come as far in the pool as was acknowledged, or further than by one.
pub(crate) fn judge_number(journal: &Journal, thread: u64, found: u64) -> Done {
    let told = journal.acknowledged(thread).map_err(|error| Finding::new("journal", error))?;
    if found == told || found == told + 1 {
        return Ok(());
    }
    let class = if found < told { "acknowledged-lost" } else { "besides" };
    Err(Finding::new(
        class,
        format_args!("thread {thread}: {told} are acknowledged, and the pool is at {found}"),
    ))
}

/// Runs the transactions of `kills` on the pool at `pool` until the process is killed.
///
/// # Errors
/// The pool refuses something.
pub fn child(kills: &Kills, pool: &Path, journal: &Path) -> Result<()> {
    let journal = Journal::open(journal)?;
    match kills.work {
        Work::Pairs => pairs::child(kills, pool, &journal),
        Work::Ledger => ledger::child(kills, pool, &journal),
    }
}

/// Kills children of `program`, again and again, and compares what they leave. Returns the acknowledged transactions.
///
/// # Errors
/// A child can't be started.
pub fn attack(kills: &Kills, program: &Path, found: &mut dyn FnMut(Finding)) -> Result<u64> {
    let mut rng = Rng::with_seed(kills.seed);
    let (mut killed, mut acknowledged) = (0, 0);
    while killed < kills.count {
        // A disk that makes writes durable, for the rung on which they wait for that.
        let folder = if kills.rung == Rung::Commit { tempfile::tempdir()? } else { scratch()? };
        let (pool, journal) = (folder.path().join("killed.pool"), folder.path().join("journal"));
        let mut compare = match kills.work {
            Work::Pairs => pairs::create(kills, &pool)?,
            Work::Ledger => ledger::create(kills, &pool)?,
        };
        for _ in 0..LIVES.min(kills.count - killed) {
            let mut child = start(kills, program, &pool, &journal)?;
            let log = Journal::open(&journal)?;
            wait_for_one(&mut child, &log)?;
            thread::sleep(Duration::from_micros(rng.u64(..LIFE_MS_MAX * 1000)));
            child.kill()?;
            let status = child.wait()?;
            killed += 1;
            let done = match status.code() {
                None => compare(&pool, &log),
                Some(code) => {
                    Err(Finding::new("death", format_args!("the child ended with the code {code}")))
                }
            };
            if let Err(finding) = done {
                found(Finding { what: format!("kill {killed}: {}", finding.what), ..finding });
                break;
            }
        }
        let log = Journal::open(&journal)?;
        for thread in 0..THREADS {
            acknowledged += log.acknowledged(thread)?;
        }
    }
    Ok(acknowledged)
}

fn start(kills: &Kills, program: &Path, pool: &Path, journal: &Path) -> Result<Child> {
    let mut command = Command::new(program);
    command.args(["child", "--work", &kills.work.to_string(), "--seed", &kills.seed.to_string()]);
    command.args(["--rung", if kills.rung == Rung::Commit { "commit" } else { "line" }]);
    command.arg("--pool").arg(pool).arg("--journal").arg(journal);
    Ok(command.stdin(Stdio::null()).spawn()?)
}

/// Waits until the child has acknowledged something new: how long it takes to start depends on the machine.
fn wait_for_one(child: &mut Child, journal: &Journal) -> Result<()> {
    let sum = || (0..THREADS).map(|thread| journal.acknowledged(thread)).sum::<Result<u64>>();
    let before = sum()?;
    while sum()? == before && child.try_wait()?.is_none() {
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
