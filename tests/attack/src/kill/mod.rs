//! SIGKILL at random moments: an acknowledged transaction must be there, and one in flight must be there whole or not
//! at all.
//!
//! ```text
//!   attack kill        starts a child, kills it, opens the pool, compares; again and again on one pool
//!      |  journal: a file with a word for each thread, the number of its last acknowledged transaction
//!   attack child       threads that run transactions until they are killed
//! ```
//!
//! Seed, thread and `n` decide everything that transaction `n` of a thread does. The transaction also stores `n` to
//! the pool. So the pool tells the number of transactions of each thread, and the parent knows their content. The
//! journal is written after a transaction has returned, so the pool has at most one transaction more than the
//! journal, and never fewer.

mod later;
mod ledger;
mod migration;
mod pairs;
mod trees;

use crate::api::Outcome;
use crate::{Finding, scratch_folder};
use anyhow::{Context, Result, bail};
use fastrand::Rng;
use lode_heap::Durability;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::Duration;

/// Number of threads of a child.
pub(crate) const THREADS: u64 = 4;
/// Greatest time in milliseconds that a child runs before it is killed. The promises hold at each of these moments.
const RUN_MS_MAX: u64 = 60;
/// Number of kills after which a new pool is made.
const KILLS_PER_POOL: u64 = 10;

/// The work of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Keys and values of a store.
    Pairs,
    /// Objects of a heap, reserved, published and freed.
    Ledger,
    /// Named trees of a store, through the library `lodestone`.
    Trees,
    /// Transactions of a store that return before they are durable, among others.
    Later,
    /// Migrations of typed data, in steps.
    Migration,
}

impl Work {
    /// All works.
    pub const ALL: [Work; 5] = [Work::Pairs, Work::Ledger, Work::Trees, Work::Later, Work::Migration];
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Work::Pairs => "pairs",
            Work::Ledger => "ledger",
            Work::Trees => "trees",
            Work::Later => "later",
            Work::Migration => "migration",
        })
    }
}

impl FromStr for Work {
    type Err = String;

    fn from_str(text: &str) -> Result<Work, String> {
        let work = Work::ALL.into_iter().find(|work| work.to_string() == text);
        work.ok_or_else(|| {
            format!("there is no work {text:?}; choose pairs, ledger, trees, later or migration")
        })
    }
}

/// Kills of one seed.
#[derive(Clone, Copy, Debug)]
pub struct Kills {
    /// The work of the child.
    pub work: Work,
    /// The durability of the pool: line or commit.
    pub durability: Durability,
    /// The seed from which everything follows, except the moments of the kills.
    pub seed: u64,
    /// Number of kills.
    pub count: u64,
}

/// Compares the pool that a kill has left with the journal.
pub(crate) type ComparePool = dyn FnMut(&Path, &Journal) -> Outcome;

/// Number of the last acknowledged transaction of each thread.
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

    pub(crate) fn acknowledged(&self, thread: u64) -> Result<u64> {
        let mut word = [0; 8];
        self.0.read_exact_at(&mut word, thread * 8)?;
        Ok(u64::from_le_bytes(word))
    }
}

/// Returns the generator for the choices of a transaction.
pub(crate) fn transaction_rng(seed: u64, thread: u64, number: u64) -> Rng {
    Rng::with_seed(
        seed ^ thread.wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15),
    )
}

/// Returns a finding if the pool is not at the acknowledged transaction of the thread, or one ahead of it.
pub(crate) fn check_number(journal: &Journal, thread: u64, found: u64) -> Outcome {
    let acknowledged = journal.acknowledged(thread).map_err(|error| Finding::new("journal", error))?;
    if found == acknowledged || found == acknowledged + 1 {
        return Ok(());
    }
    let class = if found < acknowledged { "acknowledged-lost" } else { "besides" };
    Err(Finding::new(
        class,
        format_args!("thread {thread}: {acknowledged} are acknowledged, and the pool is at {found}"),
    ))
}

/// Runs the transactions of `kills` on the pool at `pool` until the process is killed.
///
/// # Errors
/// The pool refuses a call.
pub fn child(kills: &Kills, pool: &Path, journal: &Path) -> Result<()> {
    let journal = Journal::open(journal)?;
    match kills.work {
        Work::Pairs => pairs::child(kills, pool, &journal),
        Work::Ledger => ledger::child(kills, pool, &journal),
        Work::Trees => trees::child(kills, pool, &journal),
        Work::Later => later::child(kills, pool, &journal),
        Work::Migration => migration::child(kills, pool, &journal),
    }
}

/// Calls `work` with the number of each thread, in that thread.
fn on_all_threads(work: impl Fn(u64) -> Result<()> + Sync) -> Result<()> {
    let work = &work;
    thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(done) => done,
            Err(_) => bail!("a thread panicked"),
        })
    })
}

/// Kills children of `program` again and again, and compares the pools that they leave. Returns the number of
/// acknowledged transactions.
///
/// # Errors
/// A child can't be started.
pub fn attack(kills: &Kills, program: &Path, found: &mut dyn FnMut(Finding)) -> Result<u64> {
    let create = match kills.work {
        Work::Pairs => pairs::create,
        Work::Ledger => ledger::create,
        Work::Trees => trees::create,
        Work::Later => later::create,
        Work::Migration => return migration::attack(kills, program, found),
    };
    let mut rng = Rng::with_seed(kills.seed);
    let (mut killed, mut acknowledged) = (0, 0);
    while killed < kills.count {
        // At durability `commit`, writes wait for a disk that makes them durable.
        let folder =
            if kills.durability == Durability::Commit { tempfile::tempdir()? } else { scratch_folder()? };
        let (pool, journal) = (folder.path().join("killed.pool"), folder.path().join("journal"));
        let mut compare = create(kills, &pool)?;
        for _ in 0..KILLS_PER_POOL.min(kills.count - killed) {
            let mut child = start(kills, program, &pool, &journal)?;
            let log = Journal::open(&journal)?;
            wait_for_acknowledgement(&mut child, &log)?;
            thread::sleep(Duration::from_micros(rng.u64(..RUN_MS_MAX * 1000)));
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
    command.args(["--durability", if kills.durability == Durability::Commit { "commit" } else { "line" }]);
    command.arg("--pool").arg(pool).arg("--journal").arg(journal);
    Ok(command.stdin(Stdio::null()).spawn()?)
}

/// Waits until the child has acknowledged a new transaction, because the time it takes to start depends on the
/// machine.
fn wait_for_acknowledgement(child: &mut Child, journal: &Journal) -> Result<()> {
    let sum = || (0..THREADS).map(|thread| journal.acknowledged(thread)).sum::<Result<u64>>();
    let before = sum()?;
    while sum()? == before && child.try_wait()?.is_none() {
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
