//! Taking turns, and what comes out of it.

use crate::clock::Lap;
use crate::engine::{Engine, NoFigure};
use crate::targets;
use crate::unit::Unit;
use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};

/// All laps of one engine on one workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EngineLaps {
    /// The engine that ran the laps.
    #[serde(rename = "who")]
    pub(crate) engine: Engine,
    /// Its laps, in order.
    pub(crate) laps: Vec<Lap>,
}

/// An engine without figures in a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Absent {
    /// The engine.
    pub(crate) engine: Engine,
    /// The reason.
    pub(crate) reason: String,
}

/// The result of one engine's turn in one workload.
pub(crate) enum Measured {
    /// It ran.
    Lap(Lap),
    /// It has no such operation, or was too slow; the reason.
    Absent(String),
}

impl Measured {
    /// The lap, or the reason of an [`NoFigure`] error. Any other error is passed on.
    pub(crate) fn of<T>(lap: Lap, done: Result<T>) -> Result<Measured> {
        match done {
            Ok(_) => Ok(Measured::Lap(lap)),
            Err(error) => error.downcast().map(|NoFigure(reason)| Measured::Absent(reason)),
        }
    }
}

impl From<Lap> for Measured {
    fn from(lap: Lap) -> Measured {
        Measured::Lap(lap)
    }
}

/// All engines on one workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Comparison {
    /// Its name.
    #[serde(rename = "work")]
    pub(crate) workload: String,
    /// The engines.
    pub(crate) entries: Vec<EngineLaps>,
    /// The engines that have no figure, which reports show as N/A.
    #[serde(default)]
    pub(crate) absent: Vec<Absent>,
    /// A digest of what the workload left behind, the same for all engines.
    pub(crate) digest: u64,
}

impl EngineLaps {
    /// Each lap in `unit`, in order.
    pub(crate) fn values(&self, unit: Unit) -> Vec<f64> {
        let value = |lap: &Lap| match unit {
            Unit::Micros => lap.ns as f64 / 1000.0 / lap.ops as f64,
            Unit::Millis => lap.ns as f64 / 1e6 / lap.ops as f64,
            Unit::Bytes => lap.bytes as f64 / lap.ops as f64,
            Unit::PutsPerSecond | Unit::CommitsPerSecond | Unit::GetsPerSecond | Unit::Iops => {
                lap.ops as f64 * 1e9 / lap.ns as f64
            }
            _ => lap.cycles as f64 / lap.ops as f64,
        };
        self.laps.iter().map(value).collect()
    }

    /// The median lap in `unit`.
    pub(crate) fn median(&self, unit: Unit) -> f64 {
        median(&self.values(unit))
    }

    /// The mean of all laps in `unit`.
    fn mean(&self, unit: Unit) -> f64 {
        self.values(unit).iter().sum::<f64>() / self.laps.len() as f64
    }

    /// Nanoseconds of one operation, in the median lap; `None` if the laps have bytes instead.
    pub(crate) fn median_ns(&self) -> Option<f64> {
        let ns = self.median(Unit::Micros) * 1000.0;
        (ns > 0.0).then_some(ns)
    }
}

/// The beginnings of the names of all workloads whose laps are long enough for the clock of the kernel.
const MICROS: &[&str] = &["file-", "later-", "tx-puts-", "load-", "read-while-", "read-past-", "store-"];

impl Comparison {
    /// The unit in which a workload is reported.
    pub(crate) fn unit(&self) -> Unit {
        match self.workload.as_str() {
            "read-while-writing" => Unit::GetsPerSecond,
            "reopen-kill" | "store-compaction" => Unit::Millis,
            "store-size" | "store-compacted-size" => Unit::Bytes,
            "file-counter-16" => Unit::PutsPerSecond,
            "file-obj-16" => Unit::CommitsPerSecond,
            workload if workload.starts_with("file-put-16") => Unit::PutsPerSecond,
            workload if workload.starts_with("nbd-") || workload.starts_with("fio-") => Unit::Iops,
            workload if MICROS.iter().any(|begin| workload.starts_with(begin)) => Unit::Micros,
            _ => Unit::Cycles,
        }
    }

    /// Returns true if an engine has no figure.
    fn is_absent(&self, engine: Engine) -> bool {
        self.absent.iter().any(|absent| absent.engine == engine)
    }

    /// Returns the median of an engine in milliseconds.
    ///
    /// # Errors
    /// The engine did not run.
    pub(crate) fn millis(&self, engine: Engine) -> Result<f64> {
        let laps = self.entries.iter().find(|entry| entry.engine == engine);
        laps.map(|laps| laps.median(Unit::Millis)).with_context(|| format!("{engine} did not run"))
    }

    /// Our laps, if Lodestone ran.
    pub(crate) fn ours(&self) -> Option<&EngineLaps> {
        self.entries.iter().find(|entry| entry.engine == Engine::Ours)
    }

    /// Returns true if Lodestone ran, or has no figure for a reason that is known.
    pub(crate) fn has_ours(&self) -> bool {
        self.ours().is_some() || self.is_absent(Engine::Ours)
    }

    /// Lodestone and each peer that counts in this workload. Those without figures come last.
    pub(crate) fn pairs(&self) -> Vec<Pair> {
        let unit = self.unit();
        let ours = self.ours();
        let pair = |peer: Engine, theirs: Option<&EngineLaps>| Pair {
            peer,
            ours: ours.map(|ours| ours.median(unit)),
            theirs: theirs.map(|theirs| theirs.median(unit)),
            ns: (ours.and_then(EngineLaps::median_ns), theirs.and_then(EngineLaps::median_ns)),
            ratio: ours.zip(theirs).map(|(ours, theirs)| ratio(unit, ours.median(unit), theirs.median(unit))),
            mean_ratio: ours
                .zip(theirs)
                .map(|(ours, theirs)| ratio(unit, ours.mean(unit), theirs.mean(unit))),
            goal: targets::ratio(&self.workload, peer.peer()),
        };
        let ran = self.peers().into_iter().map(|theirs| pair(theirs.engine, Some(theirs)));
        let absent = self.absent.iter().filter(|absent| absent.engine != Engine::Ours);
        ran.chain(absent.map(|absent| pair(absent.engine, None))).collect()
    }

    /// The laps of each peer that this workload is compared with; where two engines share a peer's name, those of the
    /// better one.
    pub(crate) fn peers(&self) -> Vec<&EngineLaps> {
        let unit = self.unit();
        let mut best: Vec<&EngineLaps> = Vec::new();
        let is_compared = |entry: &&EngineLaps| targets::is_compared(&self.workload, entry.engine.peer());
        for entry in self.entries.iter().filter(is_compared) {
            match best.iter_mut().find(|other| other.engine.peer() == entry.engine.peer()) {
                Some(rival) if entry.median(unit) < rival.median(unit) => *rival = entry,
                Some(_) => {}
                None => best.push(entry),
            }
        }
        best
    }
}

/// Lodestone and one peer in a workload.
pub(crate) struct Pair {
    /// The peer.
    pub(crate) peer: Engine,
    /// Our median; `None` if there is none.
    pub(crate) ours: Option<f64>,
    /// That of the peer.
    pub(crate) theirs: Option<f64>,
    /// Nanoseconds of one operation, in our median lap, and in that of the peer.
    pub(crate) ns: (Option<f64>, Option<f64>),
    /// The ratio of Lodestone to the peer; above 1, Lodestone is better.
    pub(crate) ratio: Option<f64>,
    /// The same of means in place of medians: slow laps count in it.
    pub(crate) mean_ratio: Option<f64>,
    /// The ratio to reach, if one is set.
    pub(crate) goal: Option<f64>,
}

impl Pair {
    /// Returns true if the goal is reached, or `None` where there is no goal or no figure.
    pub(crate) fn met(&self) -> Option<bool> {
        Some(self.ratio? >= self.goal?)
    }
}

/// Returns the ratio of `ours` to `theirs`, inverted for costs: above 1, `ours` is better.
pub(crate) fn ratio(unit: Unit, ours: f64, theirs: f64) -> f64 {
    if unit.is_rate() { ours / theirs } else { theirs / ours }
}

/// The median: of an even number, the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

/// Runs the engines in turn, `rounds` times. Another engine begins each round, so that no engine always finds the
/// caches cold or the disk busy. `turn` runs one lap of every workload in `workloads` and returns them.
///
/// The laps of round 0 are thrown away if `warm_up` says so. An engine that was absent in any round has no laps. One
/// that is absent in all workloads takes no more turns.
pub(crate) fn run_interleaved<S, T: Into<Measured>>(
    workloads: &[&str],
    rounds: usize,
    warm_up: bool,
    engines: &mut [(Engine, S)],
    mut turn: impl FnMut(usize, Engine, &mut S) -> Result<Vec<T>>,
) -> Result<Vec<Comparison>> {
    let mut comparisons: Vec<Comparison> = workloads
        .iter()
        .map(|workload| Comparison {
            workload: (*workload).to_owned(),
            entries: engines
                .iter()
                .map(|(engine, _)| EngineLaps { engine: *engine, laps: Vec::new() })
                .collect(),
            absent: Vec::new(),
            digest: 0,
        })
        .collect();
    let first = usize::from(!warm_up);
    let bar = progress(workloads, (rounds + 1 - first) * engines.len());
    for round in first..=rounds {
        for step in 0..engines.len() {
            let index = (round + step) % engines.len();
            let (engine, side) = &mut engines[index];
            bar.inc(1);
            if comparisons.iter().all(|comparison| comparison.is_absent(*engine)) {
                continue;
            }
            let laps = turn(round, *engine, side)
                .with_context(|| format!("{engine} in {}", workloads.join(", ")))?;
            ensure!(laps.len() == workloads.len());
            for (comparison, measured) in comparisons.iter_mut().zip(laps) {
                match measured.into() {
                    Measured::Lap(lap) if round > 0 => comparison.entries[index].laps.push(lap),
                    Measured::Lap(_) => {}
                    Measured::Absent(_) if comparison.is_absent(*engine) => {}
                    Measured::Absent(reason) => comparison.absent.push(Absent { engine: *engine, reason }),
                }
            }
        }
    }
    bar.finish_and_clear();
    for comparison in &mut comparisons {
        let absent: Vec<Engine> = comparison.absent.iter().map(|absent| absent.engine).collect();
        comparison.entries.retain(|entry| !absent.contains(&entry.engine));
    }
    Ok(comparisons)
}

fn progress(workloads: &[&str], laps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:<30} {wide_bar} {pos}/{len} laps {eta}");
    let name = if let [only] = workloads { (*only).to_owned() } else { format!("{} ...", workloads[0]) };
    let bar = ProgressBar::new(laps as u64).with_prefix(name);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Asserts that all engines came to the same result, and returns its digest.
pub(crate) fn common_digest(workload: &str, digests: &[(Engine, u64)]) -> Result<u64> {
    let (first, digest) = *digests.first().context("no engine ran")?;
    for (engine, other) in digests {
        ensure!(*other == digest, "{workload}: {first} ends with {digest:016x}, {engine} with {other:016x}");
    }
    Ok(digest)
}

#[cfg(test)]
mod test {
    use super::*;

    fn entry(engine: Engine, cycles: &[u64]) -> EngineLaps {
        EngineLaps {
            engine,
            laps: cycles.iter().map(|c| Lap { ops: 2, cycles: *c, ns: *c, ..Lap::default() }).collect(),
        }
    }

    #[test]
    fn median_of_odd_and_even_counts() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
    }

    #[test]
    fn best_volatile_art_is_compared() {
        let entries = vec![
            entry(Engine::Blart, &[20, 40, 60]),
            entry(Engine::Congee, &[10, 20, 30]),
            entry(Engine::Libpmemobj, &[100, 100, 100]),
        ];
        let comparison =
            Comparison { workload: "art-lookup-random".to_owned(), entries, absent: Vec::new(), digest: 0 };
        let peers: Vec<Engine> = comparison.peers().iter().map(|entry| entry.engine).collect();
        assert_eq!(peers, [Engine::Congee, Engine::Libpmemobj]);
        assert_eq!(comparison.peers()[0].median(Unit::Cycles), 10.0);
    }

    #[test]
    fn ratio_above_one_favours_lodestone() {
        assert_eq!(ratio(Unit::Cycles, 10.0, 50.0), 5.0);
        assert_eq!(ratio(Unit::PutsPerSecond, 50.0, 10.0), 5.0);
    }

    #[test]
    fn engines_rotate_start_each_round() {
        let mut engines = [(Engine::Ours, ()), (Engine::Redb, ()), (Engine::Lmdb, ())];
        let mut order = Vec::new();
        let comparisons = run_interleaved(&["file-put"], 3, true, &mut engines, |round, engine, ()| {
            order.push((round, engine));
            Ok(vec![Lap { ops: 1, cycles: round as u64, ns: 1, ..Lap::default() }])
        })
        .unwrap();
        let firsts: Vec<Engine> = order.chunks(3).map(|round| round[0].1).collect();
        assert_eq!(firsts, [Engine::Ours, Engine::Redb, Engine::Lmdb, Engine::Ours]);
        for entry in &comparisons[0].entries {
            assert_eq!(entry.laps.iter().map(|lap| lap.cycles).collect::<Vec<_>>(), [1, 2, 3]);
        }
    }

    #[test]
    fn absent_engine_takes_no_more_turns_and_has_no_laps() {
        let mut engines = [(Engine::Ours, ()), (Engine::Redb, ())];
        let lap = || Measured::Lap(Lap { ops: 1, cycles: 1, ns: 1, ..Lap::default() });
        let mut turns = 0;
        let comparisons = run_interleaved(&["tx-puts-1m"], 3, false, &mut engines, |round, engine, ()| {
            if engine == Engine::Redb {
                return Ok(vec![lap()]);
            }
            turns += 1;
            Ok(vec![if round < 2 { lap() } else { Measured::Absent("too slow".to_owned()) }])
        })
        .unwrap();
        assert_eq!(turns, 2);
        let [only] = comparisons.as_slice() else { panic!("one workload") };
        assert_eq!(only.absent, [Absent { engine: Engine::Ours, reason: "too slow".to_owned() }]);
        assert!(only.ours().is_none());
        assert_eq!(only.entries[0].laps.len(), 3);
    }

    #[test]
    fn differing_digests_are_rejected() {
        assert!(common_digest("tx-1", &[(Engine::Ours, 1), (Engine::Libpmemobj, 2)]).is_err());
        assert_eq!(common_digest("tx-1", &[(Engine::Ours, 1), (Engine::Libpmemobj, 1)]).unwrap(), 1);
    }
}
