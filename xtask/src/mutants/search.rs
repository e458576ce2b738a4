//! Looking for a killer: the cheapest exploration that tells a mutant from sound code.

use super::list::{Killer, Mutant};
use super::trial::{Trials, for_each};
use anyhow::Result;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Explorations that are tried one after the other on all mutants that none before has killed, the cheapest first.
const LEVELS: [Level; 5] = [
    Level { images: 3_000, seeds: &[1000], engines: 1, machines: &["x86-line", "commit"], threads: &[3] },
    Level { images: 3_000, seeds: &[1000], engines: 1, machines: &["x86-line", "commit"], threads: &[1] },
    Level { images: 1_000, seeds: &[1, 2, 3, 4], engines: 2, machines: &["x86-line", "commit"], threads: &[3] },
    Level { images: 6_000, seeds: &[2000], engines: 3, machines: &["x86-line", "commit"], threads: &[3] },
    Level { images: 20_000, seeds: &[3000, 4000], engines: 2, machines: &["x86-line", "commit"], threads: &[3, 2] },
];
/// How many fewer images an exploration of pools has, whose recovery is slow.
const POOL_DIVISOR: u64 = 5;

/// Explorations of one size.
struct Level {
    images: u64,
    seeds: &'static [u64],
    /// How many of the engines that run the mutant, and their workloads.
    engines: usize,
    machines: &'static [&'static str],
    threads: &'static [u8],
}

impl Level {
    /// Its explorations for a mutant of `file`.
    fn killers(&self, file: &str) -> Vec<Killer> {
        let mut killers = Vec::new();
        for (engine, workload) in engines(file).iter().take(self.engines) {
            let images = if *engine == "pool" { self.images / POOL_DIVISOR } else { self.images };
            for (seed, machine, threads) in self.choices() {
                killers.push(Killer::Crash(format!(
                    "crash {engine} --workload {workload} --machine {machine} --threads {threads} \
                     --seed {seed} --images {images}"
                )));
            }
        }
        killers
    }

    fn choices(&self) -> impl Iterator<Item = (u64, &'static str, u8)> {
        let Level { seeds, machines, threads, .. } = *self;
        seeds.iter().flat_map(move |seed| {
            machines.iter().flat_map(move |machine| threads.iter().map(move |threads| (*seed, *machine, *threads)))
        })
    }
}

/// The engines that run `file`, and their workloads, the most promising first.
fn engines(file: &str) -> &'static [(&'static str, u8)] {
    if file.starts_with("heap/src/log/") {
        &[("log", 1), ("heap", 2)]
    } else if file.starts_with("heap/") {
        &[("heap", 1), ("heap", 2), ("tree", 1)]
    } else if file.starts_with("pool/") {
        &[("pool", 2), ("pool", 1)]
    } else {
        &[("tree", 1)]
    }
}

/// Tries killers on each mutant and prints the first that works as a line for the list; whether all were found.
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

/// Whether `killer` tells the mutant from sound code; prints it then.
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
