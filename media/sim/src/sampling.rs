//! The choice of the states to try, among all that a power cut may leave.

use std::ops::ControlFlow;

/// The properties of a dirty unit that the choice depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirtyUnit {
    /// Number of contents that the unit may have; content 0 is the oldest.
    pub(crate) count: u16,
    /// Index of the newest content.
    pub(crate) newest: u16,
    /// True if the unit was stored to since the last drain.
    pub(crate) is_undrained: bool,
    /// The threads that copied to the unit since their own last drain, a bit each.
    pub(crate) writers: u8,
}

/// Number of states for each thread that copied to any unit, in which all units that it copied to are torn at once.
const TORN_STATES: u64 = 3;

/// Limits of the number of states to try.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// All states are tried if they are no more than this.
    pub(crate) exhaustive: u64,
    /// Otherwise, number of states drawn by seed.
    pub(crate) samples: u64,
    /// Otherwise, number of units to try alone.
    pub(crate) singles: usize,
}

/// Returns the number of states, at most `u64::MAX`.
fn states(units: &[DirtyUnit]) -> u64 {
    units.iter().fold(1u64, |states, unit| states.saturating_mul(u64::from(unit.count)))
}

/// Returns the binary logarithm of the number of states.
pub(crate) fn states_log2(units: &[DirtyUnit]) -> f64 {
    units.iter().map(|unit| f64::from(unit.count).log2()).sum()
}

/// Estimates the number of states that [`visit_states`] visits.
pub(crate) fn visits(units: &[DirtyUnit], limits: Limits) -> u64 {
    let states = states(units);
    let torn = TORN_STATES * writers(units).count() as u64;
    let singles = units.len().min(limits.singles);
    if states <= limits.exhaustive { states } else { 2 + 2 * singles as u64 + torn + limits.samples }
}

/// Returns the threads that copied to any unit, a bit each.
fn writers(units: &[DirtyUnit]) -> impl Iterator<Item = u8> + use<> {
    let all = units.iter().fold(0, |all, unit| all | unit.writers);
    (0..u8::BITS).map(|thread| 1 << thread).filter(move |writer| all & writer != 0)
}

impl DirtyUnit {
    /// Returns true if a thread may still be storing to the unit.
    fn is_recent(&self) -> bool {
        self.is_undrained || self.writers != 0
    }
}

/// Chooses units. Each will be tried alone in its oldest or newest content; recently stored ones come first.
fn singles(units: &[DirtyUnit], count: usize, rng: &mut fastrand::Rng) -> Vec<usize> {
    let (recent, rest): (Vec<usize>, Vec<usize>) =
        (0..units.len()).partition(|unit| units[*unit].is_recent());
    let mut chosen = rng.choose_multiple(recent, count);
    let more = count - chosen.len();
    chosen.extend(rng.choose_multiple(rest, more));
    chosen
}

/// Returns true if all states are visited.
pub(crate) fn is_exhaustive(units: &[DirtyUnit], limits: Limits) -> bool {
    states(units) <= limits.exhaustive
}

/// Visits states, each as the index of the content of each unit, until `visit` breaks off.
pub(crate) fn visit_states<B>(
    units: &[DirtyUnit],
    limits: Limits,
    rng: &mut fastrand::Rng,
    mut visit: impl FnMut(&[u16]) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let mut state = vec![0; units.len()];
    if is_exhaustive(units, limits) {
        loop {
            visit(&state)?;
            if !advance(&mut state, units) {
                return ControlFlow::Continue(());
            }
        }
    }
    let newest: Vec<u16> = units.iter().map(|unit| unit.newest).collect();
    visit(&state)?;
    visit(&newest)?;
    let singles = singles(units, limits.singles, rng);
    for unit in singles.iter().copied() {
        state[unit] = newest[unit];
        visit(&state)?;
        state[unit] = 0;
    }
    state.clone_from(&newest);
    for unit in singles {
        state[unit] = 0;
        visit(&state)?;
        state[unit] = newest[unit];
    }
    for writer in writers(units) {
        for rest in 0..TORN_STATES {
            tear(&mut state, units, writer, rest, rng);
            visit(&state)?;
        }
    }
    for _ in 0..limits.samples {
        draw(&mut state, units, rng);
        visit(&state)?;
    }
    ControlFlow::Continue(())
}

/// Draws a state. Units stored to since the last drain are random; the others are all old, all new, or random too.
fn draw(state: &mut [u16], units: &[DirtyUnit], rng: &mut fastrand::Rng) {
    let rest = rng.u8(0..4);
    let torn_only = rng.bool();
    for (choice, unit) in state.iter_mut().zip(units) {
        let drawn = if torn_only { rng.u16(0..unit.count) } else { rng.u16(0..2) * unit.newest };
        *choice = match rest {
            0 if !unit.is_undrained => 0,
            1 if !unit.is_undrained => unit.newest,
            _ => drawn,
        };
    }
}

/// Draws a state in which each unit that `writer` copied to is torn, if it can be, because a write that is cut short
/// tears all of its copies. The other units are all old, all new, or either.
fn tear(state: &mut [u16], units: &[DirtyUnit], writer: u8, rest: u64, rng: &mut fastrand::Rng) {
    for (choice, unit) in state.iter_mut().zip(units) {
        *choice = match rest {
            // The contents that are neither the oldest nor the newest come after these two.
            _ if unit.writers & writer != 0 && unit.count > 2 => rng.u16(2..unit.count),
            0 => 0,
            1 => unit.newest,
            _ => rng.u16(0..2) * unit.newest,
        };
    }
}

fn advance(state: &mut [u16], units: &[DirtyUnit]) -> bool {
    for (choice, unit) in state.iter_mut().zip(units) {
        if *choice + 1 < unit.count {
            *choice += 1;
            return true;
        }
        *choice = 0;
    }
    false
}

#[cfg(test)]
mod test {
    use super::*;
    use std::collections::HashSet;

    fn visited(units: &[DirtyUnit], limits: Limits) -> Vec<Vec<u16>> {
        let mut list = Vec::new();
        let mut rng = fastrand::Rng::with_seed(1);
        let end: ControlFlow<()> = visit_states(units, limits, &mut rng, |state| {
            list.push(state.to_vec());
            ControlFlow::Continue(())
        });
        assert!(end.is_continue());
        list
    }

    #[test]
    fn few_states_are_visited_exhaustively() {
        let units =
            [3, 1, 4].map(|count| DirtyUnit { count, newest: count - 1, is_undrained: true, writers: 0 });
        let list = visited(&units, Limits { exhaustive: 12, samples: 0, singles: 12 });
        assert_eq!((list.len(), list.iter().collect::<HashSet<_>>().len()), (12, 12));
    }

    #[test]
    fn many_states_are_sampled() {
        let units = [DirtyUnit { count: 3, newest: 1, is_undrained: true, writers: 0 }; 20];
        let limits = Limits { exhaustive: 2048, samples: 7, singles: 20 };
        let list = visited(&units, limits);
        assert_eq!(list.len() as u64, visits(&units, limits));
        let new_ones = |state: &Vec<u16>| state.iter().filter(|choice| **choice == 1).count();
        for (count, times) in [(0, 1), (20, 1), (1, 20), (19, 20)] {
            assert!(list.iter().filter(|state| new_ones(state) == count).count() >= times);
        }
        assert!(list.iter().flatten().all(|choice| *choice < 3));
        assert!(list.iter().flatten().any(|choice| *choice == 2), "samples draw every version");
    }
    #[test]
    fn copies_of_one_thread_are_torn_together() {
        let unit = |writers| DirtyUnit { count: 9, newest: 1, is_undrained: false, writers };
        let units: Vec<DirtyUnit> = (0..60).map(|index| unit(if index % 20 == 7 { 2 } else { 0 })).collect();
        let limits = Limits { exhaustive: 2048, samples: 0, singles: 5 };
        let list = visited(&units, limits);
        assert_eq!(list.len() as u64, visits(&units, limits));
        let is_torn = |state: &Vec<u16>| [7, 27, 47].iter().all(|unit| state[*unit] >= 2);
        let torn: Vec<_> = list.iter().filter(|state| is_torn(state)).collect();
        assert_eq!(torn.len() as u64, TORN_STATES);
        assert!([0, 1].iter().all(|rest| torn.iter().any(|state| state[0] == *rest && state[59] == *rest)));
    }
}
