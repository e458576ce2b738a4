//! Searching a killer: the cheapest exploration that distinguishes a mutant from sound code.

use super::list::{Killer, Mutant};
use super::trial::{Trials, for_each};
use anyhow::Result;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Explorations to try in order, the cheapest first, on all mutants that no earlier one has killed.
const LEVELS: [Level; 5] = [
    Level { images: 3_000, seed: 1000, engines: 1, machines: &["x86-line", "commit"], threads: &[3] },
    Level { images: 3_000, seed: 1000, engines: 1, machines: &["x86-line", "commit"], threads: &[1] },
    Level { images: 6_000, seed: 2000, engines: 3, machines: &["x86-line", "commit"], threads: &[3] },
    Level { images: 20_000, seed: 3000, engines: 2, machines: &["x86-line", "commit"], threads: &[3] },
    Level { images: 20_000, seed: 3000, engines: 2, machines: &["x86-line", "arm-line"], threads: &[2, 1] },
];

/// Explorations of one size.
struct Level {
    images: u64,
    seed: u64,
    /// Number of pairs of engine and workload to try, among those that run the mutant.
    engines: usize,
    machines: &'static [&'static str],
    threads: &'static [u8],
}

impl Level {
    /// Returns the explorations for a mutant of `file`.
    fn killers(&self, file: &str) -> impl Iterator<Item = Killer> {
        let Level { images, seed, machines, threads, .. } = *self;
        engines(file).iter().take(self.engines).flat_map(move |(engine, workload)| {
            machines.iter().flat_map(move |machine| {
                threads.iter().map(move |threads| {
                    Killer::Crash(format!(
                        "crash {engine} --workload {workload} --machine {machine} --threads {threads} \
                         --seed {seed} --images {images} --no-shrink"
                    ))
                })
            })
        })
    }
}

/// Returns the engines that run `file`, each with a workload, the most promising first.
fn engines(file: &str) -> &'static [(&'static str, u8)] {
    if file.starts_with("engines/redo/src/") {
        &[("log", 1), ("heap", 2)]
    } else if file.starts_with("engines/heap/") {
        &[("heap", 1), ("heap", 2), ("tree", 1)]
    } else if file.starts_with("engines/pool/") {
        &[("pool", 2), ("pool", 1)]
    } else {
        &[("tree", 1)]
    }
}

/// Tries killers on each mutant, and prints the first that works as a line for the list. Returns true if all mutants
/// have one.
pub(super) fn run(mutants: &[&Mutant], trials: &Trials<'_>) -> Result<bool> {
    let mut left = mutants.to_vec();
    for level in &LEVELS {
        let found = Mutex::new(BTreeSet::new());
        for_each(left.clone(), |mutant| {
            let known = mutant.killer().filter(|killer| matches!(killer, Killer::Crash(_)));
            for killer in known.into_iter().chain(level.killers(&mutant.file)) {
                if try_killer(trials, mutant, &killer)? {
                    found.lock().unwrap_or_else(PoisonError::into_inner).insert(&mutant.name);
                    break;
                }
            }
            Ok(())
        })?;
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        left.retain(|mutant| !found.contains(&mutant.name));
    }
    for mutant in &left {
        println!("not found {}: {}, `{}`", mutant.name, mutant.file, mutant.mutated);
    }
    Ok(left.is_empty())
}

/// Returns true if `killer` distinguishes the mutant from sound code, and prints it then.
fn try_killer(trials: &Trials<'_>, mutant: &Mutant, killer: &Killer) -> Result<bool> {
    if !trials.on_sound(killer)?.0.survived() {
        println!("{killer} fails on sound code");
        return Ok(false);
    }
    let (end, time) = trials.on_mutant(killer, &mutant.name)?;
    if end.survived() {
        return Ok(false);
    }
    println!("found {} in {:.1} s: kills = \"{killer}\"", mutant.name, time.as_secs_f64());
    Ok(true)
}
