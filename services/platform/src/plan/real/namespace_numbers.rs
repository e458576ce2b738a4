//! Kernel's names of new namespaces.

use crate::ndctl::NdRegion;
use std::collections::BTreeSet;

/// Numbers of a region's namespaces.
///
/// ndctl takes namespace 0 if it is idle, else the seed: the idle namespace that the kernel keeps for the next request.
/// The kernel then makes a new seed with the lowest unused number. A destroyed namespace keeps its number, with size 0.
#[derive(Clone, Debug)]
pub(super) struct NamespaceNumbers {
    taken: BTreeSet<u32>,
    is_first_idle: bool,
    seed: u32,
}

impl NamespaceNumbers {
    /// Returns the numbers of a new or newly labelled region.
    pub(super) fn new() -> NamespaceNumbers {
        NamespaceNumbers { taken: BTreeSet::from([0]), is_first_idle: true, seed: 0 }
    }

    /// Returns the numbers of an existing region, or of that region after all its namespaces are destroyed.
    pub(super) fn of(region: &NdRegion, emptied: bool) -> NamespaceNumbers {
        let taken: BTreeSet<u32> = region.namespaces.iter().map(|one| one.number).collect();
        let is_active =
            |number| region.namespaces.iter().any(|one| one.number == number && one.span != Some(0));
        let seed = region.seed.unwrap_or_else(|| lowest_not_in(&taken));
        NamespaceNumbers { is_first_idle: emptied || !is_active(0), seed, taken }
    }

    /// Returns the number of the next namespace.
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
            |(number, span): &(u32, u64)| NdNamespace { span: Some(*span), ..NdNamespace::new(0, *number) };
        let namespaces = spans.iter().map(namespace).collect();
        let region = NdRegion { namespaces, seed: Some(seed), ..NdRegion::default() };
        let mut numbers = NamespaceNumbers::of(&region, emptied);
        (0..3).map(|_| numbers.next()).collect()
    }

    /// Linux 6.1 and 6.12 with ndctl 76.1 chose these numbers.
    #[test]
    fn idle_first_number_then_seed() {
        let mut first = NamespaceNumbers::new();
        assert_eq!([first.next(), first.next(), first.next()], [0, 1, 2]);
        assert_eq!(numbers(&[(0, 0)], 0, false), [0, 1, 2]);
        assert_eq!(numbers(&[(0, 9), (1, 9), (2, 0)], 2, false), [2, 3, 4]);
        assert_eq!(numbers(&[(0, 0), (1, 9), (2, 0)], 2, false), [0, 2, 3]);
        assert_eq!(numbers(&[(0, 9), (1, 9), (2, 0)], 2, true), [0, 2, 3]);
    }
}
