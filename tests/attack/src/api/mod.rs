//! Random calls of the library, compared with a model after every one or every few steps.
//!
//! A step is a number. Together with the seed it decides what the step does, whatever steps came before. So any
//! subset of the steps of a sequence is a sequence. A sequence with a finding is made shorter by leaving steps out.

mod full;
mod heap;
mod objects;
mod pairs;
mod publish;
mod read_only;
mod store;
mod threads;
mod typed;

pub(crate) use heap::check;
pub(crate) use objects::{PoolHeap, content};
pub(crate) use publish::publish_with;

use crate::Finding;
use crate::panic_hook::catch_panic;
use crate::progress::Progress;
use crate::trial::HANG;
use anyhow::Result;
use fastrand::Rng;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The part of the library that a sequence calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Transactions and reservations over objects of a heap.
    Heap,
    /// The tree, and the store over it.
    Store,
    /// Pointers, cells, vectors, strings and locks.
    Typed,
    /// Threads, each with keys of its own, readers, and threads that end.
    Threads,
    /// A pool that is filled and emptied, over and over.
    Full,
}

/// All parts.
pub const PARTS: [Part; 5] = [Part::Heap, Part::Store, Part::Typed, Part::Threads, Part::Full];

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Part::Heap => "heap",
            Part::Store => "store",
            Part::Typed => "typed",
            Part::Threads => "threads",
            Part::Full => "full",
        })
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Part, String> {
        let part = PARTS.into_iter().find(|part| part.to_string() == text);
        part.ok_or_else(|| {
            format!("there is no part {text:?}; choose one of heap, store, typed, threads, full")
        })
    }
}

/// A sequence of steps.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// The part that it calls.
    pub part: Part,
    /// The seed from which everything follows.
    pub seed: u64,
    /// The numbers of its steps.
    pub steps: Vec<u64>,
}

impl Part {
    /// Returns the number of steps of a sequence, so that each part takes seconds.
    pub fn steps(self) -> u64 {
        match self {
            Part::Heap | Part::Store => 400,
            Part::Typed => 200,
            Part::Threads => 12,
            Part::Full => 16,
        }
    }
}

/// Function that runs a worker with these arguments, and treats it as hung if no step begins within this time.
pub type Supervise<'a> = dyn FnMut(&[String], Duration) -> Result<Vec<Finding>> + 'a;

/// Runs `sequence` in a worker. If the worker finds something, makes the sequence shorter. Returns the last finding,
/// and the arguments of `attack` that repeat it.
///
/// # Errors
/// A worker can't be started.
pub fn attack(
    sequence: &Sequence,
    limit: Duration,
    supervise: &mut Supervise<'_>,
) -> Result<Option<(Finding, String)>> {
    let Some(mut finding) = supervise(&sequence.arguments(&sequence.steps), limit)?.into_iter().next() else {
        return Ok(None);
    };
    let mut steps = sequence.steps.clone();
    // The schedule of threads varies from run to run, and each repeated hang would cost its full limit.
    if !matches!(sequence.part, Part::Threads | Part::Full) && finding.class != HANG {
        steps = shrink(&steps, |steps| {
            let found = supervise(&sequence.arguments(steps), SHRINK_STALL)
                .ok()
                .and_then(|found| found.into_iter().next());
            let same = found.filter(|found| found.class == finding.class);
            same.map(|same| finding = same).is_some()
        });
    }
    Ok(Some((finding, sequence.arguments(&steps).join(" "))))
}

/// The result of a step or a sequence: a finding is the error.
pub(crate) type Outcome = std::result::Result<(), Finding>;

impl Sequence {
    /// Runs the sequence up to its first finding.
    ///
    /// # Errors
    /// The finding.
    pub fn run(&self, progress: &Progress) -> std::result::Result<(), Finding> {
        let run = match self.part {
            Part::Heap => heap::run,
            Part::Store => store::run,
            Part::Typed => typed::run,
            Part::Threads => threads::run,
            Part::Full => full::run,
        };
        catch_panic(|| run(self, progress)).unwrap_or_else(|panic| Err(Finding::new("panic", panic)))
    }

    /// Returns the arguments with which a worker takes these steps of the sequence.
    fn arguments(&self, steps: &[u64]) -> Vec<String> {
        let mut arguments: Vec<String> =
            ["api", "--part", &self.part.to_string(), "--seed", &self.seed.to_string()]
                .map(str::to_owned)
                .into();
        let is_whole = steps.iter().copied().eq(0..steps.len() as u64);
        if is_whole {
            arguments.extend(["--steps".to_owned(), steps.len().to_string()]);
        } else {
            let list: Vec<String> = steps.iter().map(u64::to_string).collect();
            arguments.extend(["--only".to_owned(), list.join(",")]);
        }
        arguments
    }

    /// Returns the generator for the choices of step `number`.
    fn rng(&self, number: u64) -> Rng {
        Rng::with_seed(self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ number)
    }
}

/// Longest time without a new step while a sequence is made shorter. A run that exceeds it only changes the steps
/// that are left out, and is not reported.
const SHRINK_STALL: Duration = Duration::from_secs(5);
/// Greatest number of runs of [`shrink`].
const SHRINK_RUNS: u32 = 100;

/// Leaves out steps for as long as the rest still `fails`.
pub fn shrink(steps: &[u64], mut fails: impl FnMut(&[u64]) -> bool) -> Vec<u64> {
    let (mut steps, mut runs) = (steps.to_vec(), 0);
    let mut part = steps.len().div_ceil(2);
    while part > 0 && steps.len() > 1 {
        let (mut at, before) = (0, steps.len());
        while at < steps.len() && runs < SHRINK_RUNS {
            let end = steps.len().min(at + part);
            let rest = [&steps[..at], &steps[end..]].concat();
            runs += 1;
            if fails(&rest) {
                steps = rest;
            } else {
                at = end;
            }
        }
        if part > 1 {
            part = part.div_ceil(2);
        } else if steps.len() == before || runs >= SHRINK_RUNS {
            break;
        }
    }
    steps
}

/// The end of a closure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The closure returns `Ok`.
    Commit,
    /// The closure returns an error.
    Error,
    /// The closure panics.
    Panic,
    /// The closure asks once to be restarted, and then returns `Ok`.
    Restart,
    /// The closure runs its second half as a transaction inside of the first.
    Nested,
    /// As `Nested`, but the inner transaction fails, and its error is dropped.
    NestedError,
}

impl Ending {
    fn draw(rng: &mut Rng) -> Ending {
        use Ending::{Commit, Error, Nested, NestedError, Panic, Restart};
        [Commit, Commit, Commit, Commit, Error, Panic, Restart, Nested, NestedError][rng.usize(..9)]
    }

    /// Returns true if the transaction must be there afterwards, provided that there is room for it.
    fn commits(self) -> bool {
        matches!(self, Ending::Commit | Ending::Restart | Ending::Nested)
    }
}

/// The error of a closure that ends early on purpose.
pub(crate) const DELIBERATE_ERROR: lode_heap::HeapError = lode_heap::HeapError::InTransaction;

/// Returns a finding if `holds` is false.
pub(crate) fn ensure(holds: bool, class: &str, what: impl fmt::Display) -> Outcome {
    if holds { Ok(()) } else { Err(Finding::new(class, what)) }
}

/// Turns the error of a call that must succeed into a finding.
pub(crate) fn expect_ok<T, E: fmt::Display>(
    call: &str,
    result: std::result::Result<T, E>,
) -> std::result::Result<T, Finding> {
    result.map_err(|error| Finding::new("refused", format_args!("{call}: {error}")))
}

/// Draws a length from 0 to `max`, each magnitude equally likely.
fn log_uniform(rng: &mut Rng, max: usize) -> usize {
    let bits = rng.u32(..=max.ilog2());
    rng.usize(..(2usize << bits)).min(max)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn shrink_keeps_failing_steps() {
        let all: Vec<u64> = (0..300).collect();
        let few = shrink(&all, |steps| steps.contains(&7) && steps.contains(&290));
        assert_eq!(few, [7, 290]);
        assert_eq!(shrink(&all, |_| false), all);
        assert!(shrink(&all, |steps| !steps.is_empty()).len() == 1);
    }
}
