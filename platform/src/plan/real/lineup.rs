//! Assignment of wishes to regions.

use super::cxl;
use super::site::Site;
use crate::error::PlatformError;
use crate::ndctl::Inventory;
use crate::plan::trial::nearer;
use crate::plan::wish::Wish;
use crate::sysfs::Cxl;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The regions of a machine with the namespaces to make in them.
#[derive(Clone, Debug)]
pub(super) struct Lineup<'i> {
    pub(super) inventory: &'i Inventory,
    /// Existing regions in the order of their numbers, then the new ones.
    pub(super) sites: Vec<Site<'i>>,
    /// The CXL devices, with the capacity that new regions leave.
    cxl: Cxl,
    /// Number of wishes that have a place.
    count: usize,
}

impl<'i> Lineup<'i> {
    /// Makes a lineup without wishes.
    pub(super) fn new(inventory: &'i Inventory, cxl: &Cxl) -> Lineup<'i> {
        let sites =
            inventory.regions().into_iter().filter_map(|region| Site::of(inventory, region)).collect();
        Lineup { inventory, sites, cxl: cxl.clone(), count: 0 }
    }

    /// Finds a place for a wish: in free ranges, on CXL devices without a region, or in a region that is emptied for
    /// it. Returns the bytes of its namespace. Changes nothing if there is no place.
    ///
    /// # Errors
    /// The error of the place that came nearest.
    pub(super) fn add(&mut self, wish: &Wish) -> Result<u64, PlatformError> {
        let mut nearest = match self.add_to_free_ranges(wish) {
            Ok(size) => return self.added(size),
            Err(error) => error,
        };
        for place in [Lineup::add_to_devices, Lineup::add_in_place_of_others] {
            match place(self, wish) {
                Ok(size) => return self.added(size),
                Err(error) => nearest = nearer(nearest, error),
            }
        }
        Err(nearest)
    }

    fn added(&mut self, size: u64) -> Result<u64, PlatformError> {
        self.count += 1;
        Ok(size)
    }

    fn add_to_free_ranges(&mut self, wish: &Wish) -> Result<u64, PlatformError> {
        let mut order = self.suiting(wish);
        if wish.namespace.size.is_none() {
            order.sort_by_key(|at| Reverse(self.sites[*at].largest));
        }
        let turn = self.count;
        first_good(wish, order.into_iter().map(|at| self.sites[at].make(&wish.namespace, turn)))
    }

    fn add_to_devices(&mut self, wish: &Wish) -> Result<u64, PlatformError> {
        let (taken, turn) = (self.numbers(), self.count);
        let candidates = cxl::candidates(&self.cxl, wish, &taken).into_iter();
        first_good(
            wish,
            candidates.map(|region| {
                let left = cxl::without(&self.cxl, &region, &taken);
                let mut site = Site::formed(region);
                let size = site.make(&wish.namespace, turn)?;
                self.sites.push(site);
                self.cxl = left;
                Ok(size)
            }),
        )
    }

    /// Empties a region. Tries the one with the least data first.
    fn add_in_place_of_others(&mut self, wish: &Wish) -> Result<u64, PlatformError> {
        let mut order = self.suiting(wish);
        order.sort_by_key(|at| self.sites[*at].at_stake());
        let (inventory, turn) = (self.inventory, self.count);
        first_good(
            wish,
            order.into_iter().filter_map(|at| {
                let mut site = self.sites[at].emptied(inventory)?;
                let result = site.make(&wish.namespace, turn);
                if result.is_ok() {
                    self.sites[at] = site;
                }
                Some(result)
            }),
        )
    }

    /// Returns the regions with the socket and kind of a wish.
    fn suiting(&self, wish: &Wish) -> Vec<usize> {
        (0..self.sites.len()).filter(|at| self.sites[*at].suits(wish)).collect()
    }

    /// Returns the numbers of all existing and new regions.
    fn numbers(&self) -> BTreeSet<u32> {
        let there = self.inventory.regions().into_iter().map(|region| region.number);
        let made = self.sites.iter().map(|site| site.number);
        there.chain(made).chain(self.cxl.regions.iter().copied()).collect()
    }

    /// Returns true if a region with the socket and kind of a wish exists or can be made.
    pub(super) fn suits_any(&self, wish: &Wish) -> bool {
        !self.suiting(wish).is_empty() || !cxl::candidates(&self.cxl, wish, &self.numbers()).is_empty()
    }

    /// Returns true if a wish has a place.
    pub(super) fn has_wishes(&self) -> bool {
        self.count > 0
    }

    /// Returns the CXL devices with their remaining capacity.
    pub(super) fn cxl(&self) -> &Cxl {
        &self.cxl
    }
}

/// Returns the first success, else the error that came nearest.
fn first_good(
    wish: &Wish,
    results: impl Iterator<Item = Result<u64, PlatformError>>,
) -> Result<u64, PlatformError> {
    let want = wish.namespace.size.unwrap_or(0);
    let mut nearest = PlatformError::NoSpace { region: None, want, largest: 0 };
    for result in results {
        match result {
            Ok(size) => return Ok(size),
            Err(error) => nearest = nearer(nearest, error),
        }
    }
    Err(nearest)
}
