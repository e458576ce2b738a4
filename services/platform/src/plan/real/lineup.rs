//! Assignment of wishes to regions.

use super::cxl;
use super::site::{self, Site};
use super::socket::{node, socket_of};
use crate::ndctl::Inventory;
use crate::plan::impossible::{Obstacle, Unusable};
use crate::plan::rule::RuleError;
use crate::plan::search::{Places, Uuids, first_good};
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

    fn add_to_free_ranges(&mut self, wish: &Wish) -> Result<u64, RuleError> {
        let mut order = self.suiting(wish);
        if wish.namespace.size.is_none() {
            order.sort_by_key(|at| Reverse(self.sites[*at].largest));
        }
        let turn = self.count;
        first_good(want(wish), order.into_iter().map(|at| Ok(self.sites[at].make(&wish.namespace, turn)?)))
    }

    fn add_to_devices(&mut self, wish: &Wish) -> Result<u64, RuleError> {
        let (taken, turn) = (self.numbers(), self.count);
        let candidates = cxl::candidates(&self.cxl, wish, &taken).into_iter();
        first_good(
            want(wish),
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
    fn add_in_place_of_others(&mut self, wish: &Wish) -> Result<u64, RuleError> {
        let mut order = self.suiting(wish);
        order.sort_by_key(|at| self.sites[*at].at_stake());
        let (inventory, turn) = (self.inventory, self.count);
        first_good(
            want(wish),
            order.into_iter().filter_map(|at| {
                let mut site = self.sites[at].emptied(inventory)?;
                let result = site.make(&wish.namespace, turn);
                if result.is_ok() {
                    self.sites[at] = site;
                }
                Some(result.map_err(RuleError::from))
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
    fn suits_any(&self, wish: &Wish) -> bool {
        !self.suiting(wish).is_empty() || !cxl::candidates(&self.cxl, wish, &self.numbers()).is_empty()
    }

    /// Returns the CXL devices with their remaining capacity.
    pub(super) fn cxl(&self) -> &Cxl {
        &self.cxl
    }
}

impl Places for Lineup<'_> {
    /// Tries free ranges, then CXL devices without a region, then a region that is emptied for the wish.
    fn add(&mut self, wish: &Wish, _: Uuids<'_>) -> Result<u64, RuleError> {
        let ways = [Lineup::add_to_free_ranges, Lineup::add_to_devices, Lineup::add_in_place_of_others];
        let size = first_good(want(wish), ways.into_iter().map(|way| way(self, wish)))?;
        self.count += 1;
        Ok(size)
    }

    fn has_wishes(&self) -> bool {
        self.count > 0
    }

    /// Returns the sockets that have regions or devices.
    fn known_sockets(&self) -> Vec<u16> {
        let inventory = self.inventory;
        let regions = inventory.regions().into_iter().map(|region| socket_of(inventory, region));
        let devices = self.cxl().devices.iter().map(|device| node(device.numa_node));
        regions.chain(devices).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn with_socket(&self, _: u16) -> Self {
        self.clone()
    }

    fn unusable(&self, socket: Option<u16>) -> Vec<Unusable> {
        let inventory = self.inventory;
        let here = |one: u16| socket.is_none_or(|socket| socket == one);
        let regions = inventory.regions().into_iter().filter(|one| here(socket_of(inventory, one)));
        let regions = regions.filter_map(|region| {
            let why = site::unusable(inventory, region)?;
            Some(Unusable { what: format!("region{}", region.number), why })
        });
        let devices = self.cxl().devices.iter().filter(|device| here(node(device.numa_node)));
        let devices = devices.filter_map(|device| {
            Some(Unusable { what: format!("mem{}", device.number), why: cxl::unusable(self.cxl(), device)? })
        });
        regions.chain(devices).collect()
    }

    fn lacking(&self, wish: &Wish) -> Option<Obstacle> {
        let lacking =
            Obstacle::NoRegion { socket: wish.socket, kind: wish.kind, unusable: self.unusable(wish.socket) };
        (!self.suits_any(wish)).then_some(lacking)
    }
}

fn want(wish: &Wish) -> u64 {
    wish.namespace.size.unwrap_or(0)
}
