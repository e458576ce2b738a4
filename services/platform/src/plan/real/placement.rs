//! Assignment of requests to regions.

use super::cxl;
use super::planned_region::{self, PlannedRegion};
use super::socket::{node, socket_of};
use crate::ndctl::Inventory;
use crate::plan::impossible::{Obstacle, Unusable};
use crate::plan::request::NamespaceRequest;
use crate::plan::rule::RuleError;
use crate::plan::search::{Allocator, Uuids, first_success};
use crate::sysfs::Cxl;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The regions of a machine with the namespaces to make in them.
#[derive(Clone, Debug)]
pub(super) struct Placement<'i> {
    pub(super) inventory: &'i Inventory,
    /// Existing regions in the order of their numbers, then the new ones.
    pub(super) regions: Vec<PlannedRegion<'i>>,
    /// The CXL devices, with the capacity that new regions leave.
    cxl: Cxl,
    /// Number of requests that have a place.
    count: usize,
}

impl<'i> Placement<'i> {
    /// Makes a placement without requests.
    pub(super) fn new(inventory: &'i Inventory, cxl: &Cxl) -> Placement<'i> {
        let regions = inventory
            .regions()
            .into_iter()
            .filter_map(|region| PlannedRegion::of(inventory, region))
            .collect();
        Placement { inventory, regions, cxl: cxl.clone(), count: 0 }
    }

    fn add_to_free_ranges(&mut self, request: &NamespaceRequest) -> Result<u64, RuleError> {
        let mut order = self.matching(request);
        if request.namespace.size.is_none() {
            order.sort_by_key(|at| Reverse(self.regions[*at].largest));
        }
        let position = self.count;
        first_success(
            want(request),
            order.into_iter().map(|at| Ok(self.regions[at].make(&request.namespace, position)?)),
        )
    }

    fn add_to_devices(&mut self, request: &NamespaceRequest) -> Result<u64, RuleError> {
        let (taken, position) = (self.numbers(), self.count);
        let candidates = cxl::candidates(&self.cxl, request, &taken).into_iter();
        first_success(
            want(request),
            candidates.map(|region| {
                let left = cxl::remaining(&self.cxl, &region, &taken);
                let mut planned = PlannedRegion::formed(region);
                let size = planned.make(&request.namespace, position)?;
                self.regions.push(planned);
                self.cxl = left;
                Ok(size)
            }),
        )
    }

    /// Empties a region. Tries the one with the least data first.
    fn add_in_place_of_others(&mut self, request: &NamespaceRequest) -> Result<u64, RuleError> {
        let mut order = self.matching(request);
        order.sort_by_key(|at| self.regions[*at].bytes_lost());
        let (inventory, position) = (self.inventory, self.count);
        first_success(
            want(request),
            order.into_iter().filter_map(|at| {
                let mut planned = self.regions[at].emptied(inventory)?;
                let result = planned.make(&request.namespace, position);
                if result.is_ok() {
                    self.regions[at] = planned;
                }
                Some(result.map_err(RuleError::from))
            }),
        )
    }

    /// Returns the regions with the socket and kind of a request.
    fn matching(&self, request: &NamespaceRequest) -> Vec<usize> {
        (0..self.regions.len()).filter(|at| self.regions[*at].matches_request(request)).collect()
    }

    /// Returns the numbers of all existing and new regions.
    fn numbers(&self) -> BTreeSet<u32> {
        let there = self.inventory.regions().into_iter().map(|region| region.number);
        let made = self.regions.iter().map(|planned| planned.number);
        there.chain(made).chain(self.cxl.regions.iter().copied()).collect()
    }

    /// Returns true if a region with the socket and kind of a request exists or can be made.
    fn matches_any(&self, request: &NamespaceRequest) -> bool {
        !self.matching(request).is_empty() || !cxl::candidates(&self.cxl, request, &self.numbers()).is_empty()
    }

    /// Returns the CXL devices with their remaining capacity.
    pub(super) fn cxl(&self) -> &Cxl {
        &self.cxl
    }
}

impl Allocator for Placement<'_> {
    /// Tries free ranges, then CXL devices without a region, then a region that is emptied for the request.
    fn add(&mut self, request: &NamespaceRequest, _: Uuids<'_>) -> Result<u64, RuleError> {
        let ways =
            [Placement::add_to_free_ranges, Placement::add_to_devices, Placement::add_in_place_of_others];
        let size = first_success(want(request), ways.into_iter().map(|way| way(self, request)))?;
        self.count += 1;
        Ok(size)
    }

    fn has_requests(&self) -> bool {
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
            let why = planned_region::unusable(inventory, region)?;
            Some(Unusable { what: format!("region{}", region.number), why })
        });
        let devices = self.cxl().devices.iter().filter(|device| here(node(device.numa_node)));
        let devices = devices.filter_map(|device| {
            Some(Unusable { what: format!("mem{}", device.number), why: cxl::unusable(self.cxl(), device)? })
        });
        regions.chain(devices).collect()
    }

    fn obstacle(&self, request: &NamespaceRequest) -> Option<Obstacle> {
        let lacking = Obstacle::NoRegion {
            socket: request.socket,
            kind: request.kind,
            unusable: self.unusable(request.socket),
        };
        (!self.matches_any(request)).then_some(lacking)
    }
}

fn want(request: &NamespaceRequest) -> u64 {
    request.namespace.size.unwrap_or(0)
}
