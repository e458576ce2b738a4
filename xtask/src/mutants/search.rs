//! Looking for a killer: the cheapest exploration that tells a mutant from sound code.

use super::list::{Killer, Mutant};
use super::trial::{Trials, for_each};
use anyhow::Result;

/// Images of an exploration, the cheapest first.
const IMAGES: [u64; 3] = [4_000, 20_000, 80_000];
/// Seeds that are tried for each.
const SEEDS: [u64; 3] = [1000, 2000, 3000];

/// Tries killers on each mutant and prints the first that works as a line for the list; whether all were found.
pub(super) fn run(mutants: &[&Mutant], trials: &Trials<'_>) -> Result<bool> {
    let missing = std::sync::atomic::AtomicUsize::new(0);
    for_each(mutants.to_vec(), |mutant| {
        let mine = mutant.killer().into_iter().filter(|killer| matches!(killer, Killer::Crash(_)));
        for killer in mine.chain(candidates(&mutant.file)) {
            if !trials.on_sound(&killer)?.0.survived() {
                println!("{killer} fails on sound code");
                continue;
            }
            let (end, time) = trials.on_mutant(&killer, &mutant.name)?;
            if !end.survived() {
                println!("found {}: {:.1} s, {end:?}\nkills = \"{killer}\"", mutant.name, time.as_secs_f64());
                return Ok(());
            }
        }
        println!("not found {}: {}, `{}`", mutant.name, mutant.file, mutant.mutated);
        // ORDER: none: it is read after the threads have ended.
        missing.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    })?;
    Ok(missing.into_inner() == 0)
}

/// Explorations that may find a mutant of `file`, the most promising first.
fn candidates(file: &str) -> impl Iterator<Item = Killer> {
    let engines: &[(&str, u8)] = if file.starts_with("heap/src/log/") {
        &[("log", 1), ("log", 2), ("heap", 1), ("heap", 2)]
    } else if file.starts_with("heap/") {
        &[("heap", 1), ("heap", 2), ("tree", 1)]
    } else if file.starts_with("pool/") {
        &[("pool", 1), ("pool", 2)]
    } else {
        &[("tree", 1)]
    };
    IMAGES.into_iter().flat_map(move |images| {
        SEEDS.into_iter().flat_map(move |seed| {
            ["x86-line", "commit", "arm-line", "x86-byte"].into_iter().flat_map(move |machine| {
                engines.iter().flat_map(move |(engine, workload)| {
                    [3, 1].into_iter().map(move |threads| {
                        Killer::Crash(format!(
                            "crash {engine} --workload {workload} --machine {machine} --threads {threads} \
                             --seed {seed} --images {images} --no-shrink"
                        ))
                    })
                })
            })
        })
    })
}
