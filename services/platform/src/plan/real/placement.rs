//! Assignment of requests to regions.

use super::cxl;
use super::planned_region::{self, PlannedRegion};
use super::socket::{node, socket_of};
use crate::namespace::SizeRules;
use crate::ndctl::{Inventory, NdNamespace, NdPersonality, NdRegion};
use crate::plan::existing::Existing;
use crate::plan::fit::Extent;
use crate::plan::impossible::{Obstacle, Unusable};
use crate::plan::note::Note;
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
    /// Numbers of the regions that are not emptied, since namespaces in them fulfil requests.
    kept: BTreeSet<u32>,
    /// Remarks on sizes.
    pub(super) rounded: Vec<Note>,
}

impl<'i> Placement<'i> {
    /// Makes a placement without requests.
    pub(super) fn new(inventory: &'i Inventory, cxl: &Cxl) -> Placement<'i> {
        let regions = inventory
            .regions()
            .into_iter()
            .filter_map(|region| PlannedRegion::of(inventory, region))
            .collect();
        Placement {
            inventory,
            regions,
            cxl: cxl.clone(),
            count: 0,
            kept: BTreeSet::new(),
            rounded: Vec::new(),
        }
    }

    fn add_to_free_ranges(&mut self, request: &NamespaceRequest) -> Result<Extent, RuleError> {
        let mut order = self.matching(request);
        if request.want().is_none() {
            order.sort_by_key(|at| Reverse(self.regions[*at].largest));
        }
        let position = self.count;
        first_success(
            want(request),
            order.into_iter().map(|at| Ok(self.regions[at].make_for(request, position)?)),
        )
    }

    fn add_to_devices(&mut self, request: &NamespaceRequest) -> Result<Extent, RuleError> {
        let (taken, position) = (self.numbers(), self.count);
        let candidates = cxl::candidates(&self.cxl, request, &taken).into_iter();
        first_success(
            want(request),
            candidates.map(|region| {
                let left = cxl::remaining(&self.cxl, &region, &taken);
                let mut planned = PlannedRegion::formed(region);
                let extent = planned.make_for(request, position)?;
                self.regions.push(planned);
                self.cxl = left;
                Ok(extent)
            }),
        )
    }

    /// Empties a region. Tries the one with the least data first.
    fn add_in_place_of_others(&mut self, request: &NamespaceRequest) -> Result<Extent, RuleError> {
        let mut order = self.matching(request);
        order.retain(|at| !self.kept.contains(&self.regions[*at].number));
        order.sort_by_key(|at| self.regions[*at].bytes_lost());
        let (inventory, position) = (self.inventory, self.count);
        first_success(
            want(request),
            order.into_iter().filter_map(|at| {
                let mut planned = self.regions[at].emptied(inventory)?;
                let result = planned.make_for(request, position);
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
    fn add(&mut self, request: &NamespaceRequest, _: Uuids<'_>) -> Result<Extent, RuleError> {
        let ways =
            [Placement::add_to_free_ranges, Placement::add_to_devices, Placement::add_in_place_of_others];
        let extent = first_success(want(request), ways.into_iter().map(|way| way(self, request)))?;
        self.count += 1;
        self.rounded.extend(Note::of_size(request, extent.size));
        Ok(extent)
    }

    fn named(&self, name: &str) -> Vec<Existing> {
        let regions = self.inventory.regions().into_iter();
        regions.flat_map(|region| existing_in(self.inventory, region, name)).collect()
    }

    fn keep(&mut self, existing: &Existing) {
        self.kept.insert(existing.rules.region);
    }

    fn add_kept(&mut self, _: &Existing, _: &NamespaceRequest, _: Uuids<'_>) -> Result<(), RuleError> {
        Ok(())
    }

    fn has_requests(&self) -> bool {
        self.count > 0 || !self.kept.is_empty()
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
    request.want().unwrap_or(0)
}

/// Returns the namespaces of a region that have this name.
fn existing_in(inventory: &Inventory, region: &NdRegion, name: &str) -> Vec<Existing> {
    let existing = |one: &NdNamespace| {
        let map = match &one.personality {
            NdPersonality::Fsdax(map) | NdPersonality::Devdax(map, _) => Some(map),
            NdPersonality::Raw | NdPersonality::Legacy | NdPersonality::Sector { .. } => None,
        };
        Existing {
            device: one.to_string(),
            mode: one.mode(),
            extent: Extent { size: one.span.unwrap_or(0), usable: one.size.unwrap_or(0) },
            socket: socket_of(inventory, region),
            rules: SizeRules {
                region: region.number,
                ways: region.mappings.len() as u64,
                align: region.align,
                largest: region.largest_available.unwrap_or(0),
            },
            map: map.and_then(|map| map.location),
            align: map.and_then(|map| map.align),
            sector_size: one.sector_size,
            fault: (!one.enabled || !region.enabled).then_some("is disabled"),
        }
    };
    let is_named = |one: &&NdNamespace| one.name == name && one.span != Some(0);
    region.namespaces.iter().filter(is_named).map(existing).collect()
}
