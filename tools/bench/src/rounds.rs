//! Taking turns, and what comes out of it.

use crate::clock::Lap;
use crate::contender::Who;
use crate::targets::{self, Unit};
use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};

/// All laps of one side on one work.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// The side that ran the laps.
    pub(crate) who: Who,
    /// Its laps, in order.
    pub(crate) laps: Vec<Lap>,
}

/// All sides on one work.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Contest {
    /// Its name.
    pub(crate) work: String,
    /// The sides.
    pub(crate) entries: Vec<Entry>,
    /// A digest of what the work left behind, the same for all sides.
    pub(crate) digest: u64,
}

impl Entry {
    /// Each lap in `unit`, in order.
    pub(crate) fn values(&self, unit: Unit) -> Vec<f64> {
        let value = |lap: &Lap| match unit {
            Unit::Micros => lap.ns as f64 / 1000.0 / lap.ops as f64,
            Unit::PutsPerSecond => lap.ops as f64 * 1e9 / lap.ns as f64,
            _ => lap.cycles as f64 / lap.ops as f64,
        };
        self.laps.iter().map(value).collect()
    }

    /// The median lap in `unit`.
    pub(crate) fn median(&self, unit: Unit) -> f64 {
        median(&self.values(unit))
    }

    /// Nanoseconds of one operation, in the median lap.
    pub(crate) fn median_ns(&self) -> f64 {
        self.median(Unit::Micros) * 1000.0
    }
}

impl Contest {
    /// The unit in which a work is reported.
    pub(crate) fn unit(&self) -> Unit {
        match self.work.as_str() {
            work if work.starts_with("file-put-16") => Unit::PutsPerSecond,
            work if work.starts_with("file-") => Unit::Micros,
            _ => Unit::Cycles,
        }
    }

    /// Our laps, if our side ran.
    pub(crate) fn ours(&self) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.who == Who::Ours)
    }

    /// The laps of each peer that this work is compared with; where two rivals share a peer's name, those of the
    /// better one.
    pub(crate) fn peers(&self) -> Vec<&Entry> {
        let unit = self.unit();
        let mut best: Vec<&Entry> = Vec::new();
        let is_compared = |entry: &&Entry| targets::is_compared(&self.work, entry.who.peer());
        for entry in self.entries.iter().filter(is_compared) {
            match best.iter_mut().find(|other| other.who.peer() == entry.who.peer()) {
                Some(rival) if entry.median(unit) < rival.median(unit) => *rival = entry,
                Some(_) => {}
                None => best.push(entry),
            }
        }
        best
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

/// Runs the sides in turn, `rounds` times around. Another side begins each round, so that no side always finds the
/// caches cold or the disk busy. `turn` runs one lap of every work in `works` and returns them.
///
/// The laps of round 0 are thrown away if `warm_up` says so.
pub(crate) fn take_turns<S>(
    works: &[&str],
    rounds: usize,
    warm_up: bool,
    sides: &mut [(Who, S)],
    mut turn: impl FnMut(usize, Who, &mut S) -> Result<Vec<Lap>>,
) -> Result<Vec<Contest>> {
    let mut contests: Vec<Contest> = works
        .iter()
        .map(|work| Contest {
            work: (*work).to_owned(),
            entries: sides.iter().map(|(who, _)| Entry { who: *who, laps: Vec::new() }).collect(),
            digest: 0,
        })
        .collect();
    let first = usize::from(!warm_up);
    let bar = progress(works, (rounds + 1 - first) * sides.len());
    for round in first..=rounds {
        for step in 0..sides.len() {
            let index = (round + step) % sides.len();
            let (who, side) = &mut sides[index];
            let laps = turn(round, *who, side).with_context(|| format!("{who} in {}", works.join(", ")))?;
            ensure!(laps.len() == works.len());
            if round > 0 {
                for (contest, lap) in contests.iter_mut().zip(laps) {
                    contest.entries[index].laps.push(lap);
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(contests)
}

fn progress(works: &[&str], laps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:<30} {wide_bar} {pos}/{len} laps {eta}");
    let name = if let [only] = works { (*only).to_owned() } else { format!("{} ...", works[0]) };
    let bar = ProgressBar::new(laps as u64).with_prefix(name);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Asserts that all sides came to the same result, and returns its digest.
pub(crate) fn same_digest(work: &str, digests: &[(Who, u64)]) -> Result<u64> {
    let (first, digest) = *digests.first().context("no side ran")?;
    for (who, other) in digests {
        ensure!(*other == digest, "{work}: {first} ends with {digest:016x}, {who} with {other:016x}");
    }
    Ok(digest)
}

#[cfg(test)]
mod test {
    use super::*;

    fn entry(who: Who, cycles: &[u64]) -> Entry {
        Entry { who, laps: cycles.iter().map(|c| Lap { ops: 2, cycles: *c, ns: *c }).collect() }
    }

    #[test]
    fn medians_of_odd_and_even_numbers() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
    }

    #[test]
    fn the_better_rival_stands_for_both() {
        let entries = vec![
            entry(Who::Blart, &[20, 40, 60]),
            entry(Who::Congee, &[10, 20, 30]),
            entry(Who::Libpmemobj, &[100, 100, 100]),
        ];
        let contest = Contest { work: "art-lookup-random".to_owned(), entries, digest: 0 };
        let peers: Vec<Who> = contest.peers().iter().map(|entry| entry.who).collect();
        assert_eq!(peers, [Who::Congee, Who::Libpmemobj]);
        assert_eq!(contest.peers()[0].median(Unit::Cycles), 10.0);
    }

    #[test]
    fn a_ratio_above_one_means_that_ours_is_better() {
        assert_eq!(ratio(Unit::Cycles, 10.0, 50.0), 5.0);
        assert_eq!(ratio(Unit::PutsPerSecond, 50.0, 10.0), 5.0);
    }

    #[test]
    fn every_side_runs_every_round_and_begins_in_turn() {
        let mut sides = [(Who::Ours, ()), (Who::Redb, ()), (Who::Lmdb, ())];
        let mut order = Vec::new();
        let contests = take_turns(&["file-put"], 3, true, &mut sides, |round, who, ()| {
            order.push((round, who));
            Ok(vec![Lap { ops: 1, cycles: round as u64, ns: 1 }])
        })
        .unwrap();
        let firsts: Vec<Who> = order.chunks(3).map(|round| round[0].1).collect();
        assert_eq!(firsts, [Who::Ours, Who::Redb, Who::Lmdb, Who::Ours]);
        for entry in &contests[0].entries {
            assert_eq!(entry.laps.iter().map(|lap| lap.cycles).collect::<Vec<_>>(), [1, 2, 3]);
        }
    }

    #[test]
    fn different_results_are_refused() {
        assert!(same_digest("tx-1", &[(Who::Ours, 1), (Who::Libpmemobj, 2)]).is_err());
        assert_eq!(same_digest("tx-1", &[(Who::Ours, 1), (Who::Libpmemobj, 1)]).unwrap(), 1);
    }
}
