//! What the kernel calls namespaces that are made.

use crate::ndctl::NdRegion;
use std::collections::BTreeSet;

/// The numbers that namespaces of a region have.
///
/// ndctl takes the namespace of number 0 if nothing is made of it, else the one that the kernel keeps for the next to be
/// made; then the kernel makes another, of the lowest number that none has. One that was destroyed stays, of no size.
#[derive(Clone, Debug)]
pub(super) struct Names {
    taken: BTreeSet<u32>,
    is_first_idle: bool,
    seed: u32,
}

impl Names {
    /// Those of a region that was just made, or found anew.
    pub(super) fn fresh() -> Names {
        Names { taken: BTreeSet::from([0]), is_first_idle: true, seed: 0 }
    }

    /// Those of a region as it is, or once all its namespaces are destroyed.
    pub(super) fn of(region: &NdRegion, emptied: bool) -> Names {
        let taken: BTreeSet<u32> = region.namespaces.iter().map(|one| one.number).collect();
        let is_active =
            |number| region.namespaces.iter().any(|one| one.number == number && one.span != Some(0));
        let seed = region.seed.unwrap_or_else(|| lowest_not_in(&taken));
        Names { is_first_idle: emptied || !is_active(0), seed, taken }
    }

    /// The number of the next namespace that is made.
    pub(super) fn next(&mut self) -> u32 {
        let number = if self.is_first_idle { 0 } else { self.seed };
        self.is_first_idle = false;
        self.taken.insert(number);
        if number == self.seed {
            self.seed = lowest_not_in(&self.taken);
            self.taken.insert(self.seed);
        }
        number
    }
}

fn lowest_not_in(taken: &BTreeSet<u32>) -> u32 {
    (0..).find(|number| !taken.contains(number)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::ndctl::NdNamespace;

    fn numbers(spans: &[(u32, u64)], seed: u32, emptied: bool) -> Vec<u32> {
        let namespace =
            |(number, span): &(u32, u64)| NdNamespace { span: Some(*span), ..NdNamespace::bare(0, *number) };
        let namespaces = spans.iter().map(namespace).collect();
        let region = NdRegion { namespaces, seed: Some(seed), ..NdRegion::default() };
        let mut names = Names::of(&region, emptied);
        (0..3).map(|_| names.next()).collect()
    }

    /// As Linux 6.1 and 6.12 with ndctl 76.1 did it.
    #[test]
    fn the_first_if_it_is_idle_then_the_seed() {
        let mut fresh = Names::fresh();
        assert_eq!([fresh.next(), fresh.next(), fresh.next()], [0, 1, 2]);
        assert_eq!(numbers(&[(0, 0)], 0, false), [0, 1, 2]);
        assert_eq!(numbers(&[(0, 9), (1, 9), (2, 0)], 2, false), [2, 3, 4]);
        assert_eq!(numbers(&[(0, 0), (1, 9), (2, 0)], 2, false), [0, 2, 3]);
        assert_eq!(numbers(&[(0, 9), (1, 9), (2, 0)], 2, true), [0, 2, 3]);
    }
}
