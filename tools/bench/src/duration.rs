//! The duration of a run: an estimate before it begins, and of the rest before each group.

use crate::group::Group;
use crate::plan::Selection;
use std::fmt;
use std::time::Duration;

/// Rounds of the run whose times [`seconds`] has.
const ROUNDS: f64 = 15.0;

/// Returns the seconds that a group took on a machine with two cores and a disk of a cloud: in a full run of [`ROUNDS`], and
/// in a quick one.
fn seconds(group: Group) -> [u32; 2] {
    match group {
        Group::Transactions => [35, 1],
        Group::Floors => [10, 1],
        Group::Covered => [10, 1],
        Group::Random => [180, 1],
        Group::Words => [120, 1],
        Group::Containers => [60, 1],
        Group::File => [60, 5],
        Group::Put => [60, 2],
        Group::Later => [20, 1],
        Group::PutMany => [60, 6],
        Group::Counter => [30, 2],
        Group::TxPuts => [90, 2],
        Group::Load => [20, 1],
        Group::Reopen => [60, 2],
        Group::Store => [120, 3],
        Group::ReadWhileWriting => [15, 1],
        Group::PastRam => [60, 2],
        Group::Alone => [120, 16],
        Group::Platform => [120, 6],
        Group::Blocks => [30, 2],
        Group::Appends => [5, 1],
        Group::Libpmem => [20, 1],
        Group::Libpools => [20, 2],
        Group::FileLibpools => [60, 6],
        Group::Libpmemobj => [420, 30],
        Group::FileLibpmemobj => [80, 8],
        Group::PmemPrograms => [60, 2],
        Group::FileBlocks => [20, 6],
        Group::Opening => [10, 1],
        Group::Nbd => [100, 6],
    }
}

/// The groups of a run with the seconds that each is expected to take, and how long those that have ended took.
#[derive(Debug)]
pub(crate) struct Schedule {
    expected: Vec<f64>,
    ended: usize,
    took: f64,
}

impl Schedule {
    /// Returns the schedule of a run.
    pub(crate) fn new(selections: &[Selection], quick: bool, rounds: usize) -> Schedule {
        let of = |selection: &Selection| match seconds(selection.group) {
            [_, short] if quick => f64::from(short),
            [full, _] => f64::from(full) * rounds as f64 / ROUNDS,
        };
        Schedule { expected: selections.iter().map(of).collect(), ended: 0, took: 0.0 }
    }

    /// Notes that the next group has ended.
    pub(crate) fn end(&mut self, took: Duration) {
        self.ended += 1;
        self.took += took.as_secs_f64();
    }

    /// Returns the time that is left. A machine on which the groups before took longer than expected takes longer for the rest.
    pub(crate) fn left(&self) -> About {
        let (before, rest) = self.expected.split_at(self.ended);
        let pace = if before.is_empty() { 1.0 } else { self.took / before.iter().sum::<f64>() };
        About(rest.iter().sum::<f64>() * pace)
    }
}

/// About so many seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct About(f64);

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            seconds if seconds < 100.0 => write!(f, "about {:.0} s", seconds.max(1.0)),
            seconds => write!(f, "about {:.0} min", seconds / 60.0),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn schedule(names: &[&str], quick: bool, rounds: usize) -> Schedule {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        Schedule::new(&Selection::of_names(&names).unwrap(), quick, rounds)
    }

    #[test]
    fn estimate_follows_groups_rounds_and_pace() {
        let mut run = schedule(&["transactions", "nbd"], false, 15);
        assert_eq!(run.left().to_string(), "about 2 min");
        run.end(Duration::from_secs(70));
        assert_eq!(run.left(), About(200.0), "twice as slow as expected");
        run.end(Duration::from_secs(200));
        assert_eq!(run.left(), About(0.0));
        assert_eq!(schedule(&["nbd"], false, 30).left(), About(200.0));
        assert_eq!(schedule(&["nbd"], true, 3).left().to_string(), "about 6 s");
    }
}
