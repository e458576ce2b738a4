//! Validation of the CXL memory in a state file: a user may have edited it.

use super::decode::{check_ports, check_positions, takes_granularity, takes_ways};
use super::dpa;
use super::poison::RECORDS_MAX;
use super::region::first_number;
use super::stored::{Allocation, CxlPartition, CxlPoison, CxlState, StoredCxlRegion};
use super::topology::{Level, Topology};
use super::window::WINDOW_ALIGN;
use crate::machine::{CxlHardware, Machine};
use crate::state::State;
use std::collections::BTreeSet;

/// Reason why the machine can't have the CXL memory of a state.
pub(crate) type CxlFault = &'static str;

/// Checks a state against its machine.
pub(crate) struct CxlCheck<'a> {
    state: &'a CxlState,
    cxl: &'a CxlHardware,
    topology: Topology,
    /// First number of regions of CXL memory.
    first_number: u32,
}

impl<'a> CxlCheck<'a> {
    pub(crate) fn new(state: &'a State, machine: &'a Machine) -> CxlCheck<'a> {
        CxlCheck {
            state: &state.cxl,
            cxl: &machine.cxl,
            topology: Topology::of(&machine.cxl),
            first_number: first_number(state, machine),
        }
    }

    /// Checks what is not in a list of tables.
    pub(crate) fn numbers(&self) -> Result<(), CxlFault> {
        let next = &self.state.next_regions;
        let is_empty = next.is_empty() && self.state.regions.is_empty();
        if !is_empty && next.len() != self.cxl.windows.len() {
            return Err("next_regions has other than one number for each window");
        }
        let unique: BTreeSet<&u32> = next.iter().collect();
        let is_free = |number: &u32| *number >= self.first_number && self.state.region(*number).is_none();
        if unique.len() != next.len() || !next.iter().all(is_free) {
            return Err("next_regions has a number twice, or one that another region has");
        }
        if !self.state.disabled_devices.iter().all(|device| self.has_device(*device)) {
            return Err("disabled_devices names a device that the machine lacks");
        }
        let is_bridge = |port: &u32| {
            self.topology
                .ports
                .get(*port as usize)
                .is_some_and(|one| matches!(one.level, Level::Root | Level::Bridge))
        };
        match self.state.disabled_ports.iter().all(is_bridge) {
            true => Ok(()),
            false => Err("disabled_ports names a port that is none of a host bridge"),
        }
    }

    fn has_device(&self, device: u32) -> bool {
        (device as usize) < self.cxl.devices.len()
    }

    pub(crate) fn region(&self, region: &StoredCxlRegion) -> Result<(), CxlFault> {
        if self.state.regions.iter().filter(|other| other.number == region.number).count() > 1 {
            return Err("a region has the number of another one");
        }
        if self.state.regions.iter().filter(|other| other.uuid == region.uuid).count() > 1 {
            return Err("a region has the UUID of another one");
        }
        if region.number < self.first_number {
            return Err("a region has the number of one that is not of CXL memory");
        }
        let Some(window) = self.cxl.windows.get(region.window as usize) else {
            return Err("a region is in a window that the machine lacks");
        };
        if region.devices.is_empty() || !region.devices.iter().all(|device| self.has_device(*device)) {
            return Err("a region has no device, or one that the machine lacks");
        }
        if !window.takes(region.kind) {
            return Err("a region is in a window that does not take its kind of memory");
        }
        let unit = WINDOW_ALIGN.saturating_mul(region.devices.len() as u64);
        let end = region.off.checked_add(region.size);
        if !region.off.is_multiple_of(WINDOW_ALIGN) {
            return Err("a region has an offset that is no multiple of 256MiB");
        }
        if region.size == 0 || !region.size.is_multiple_of(unit) || end.is_none_or(|end| end > window.size) {
            return Err("a region has a size that its devices can't share, or is not in its window");
        }
        let overlaps = |other: &&StoredCxlRegion| {
            other.number != region.number
                && other.window == region.window
                && other.off < region.off.saturating_add(region.size)
                && region.off < other.off.saturating_add(other.size)
        };
        if self.state.regions.iter().any(|other| overlaps(&other)) {
            return Err("a region overlaps another one");
        }
        if !takes_granularity(window, region.granularity) {
            return Err(
                "a region has a granularity that is no power of two from 256 to 16384, or not that of its window",
            );
        }
        if !takes_ways(window, region.devices.len()) {
            return Err("a region has a number of devices over which its window can't interleave");
        }
        check_positions(self.cxl, &self.topology, window, region)
            .map_err(|_| "the devices of a region can't have these positions")?;
        if region.enabled && !region.committed {
            return Err("a region is enabled, and decoders don't have it");
        }
        if !region.committed {
            return Ok(());
        }
        let has_memory = |device: &u32| {
            self.state.allocations_of(*device).filter(|one| one.region == Some(region.number)).count() == 1
        };
        if !region.devices.iter().all(has_memory) {
            return Err("a device of a region has not one allocation for it");
        }
        let earlier = self.state.regions.split(|other| other.number == region.number).next();
        check_ports(&self.topology, earlier.unwrap_or_default(), region)
            .map_err(|_| "a port above a region has too many, or one before it at higher addresses")
    }

    pub(crate) fn allocation(&self, one: &Allocation) -> Result<(), CxlFault> {
        let Some(device) = self.cxl.devices.get(one.device as usize) else {
            return Err("an allocation is on a device that the machine lacks");
        };
        let held: Vec<&Allocation> = self.state.allocations_of(one.device).collect();
        if held.len() > device.decoders as usize {
            return Err("a device has more allocations than decoders");
        }
        if self.state.disabled_devices.contains(&one.device) {
            return Err("an allocation is on a disabled device");
        }
        let range = dpa::range(self.state, self.cxl, one.device, one.kind);
        let is_inside =
            one.off >= range.start && one.off.checked_add(one.len).is_some_and(|end| end <= range.end);
        if one.len == 0 || !one.len.is_multiple_of(WINDOW_ALIGN) || !is_inside {
            return Err(
                "an allocation is empty, no multiple of 256MiB, or not in its device's memory of its kind",
            );
        }
        if held.windows(2).any(|pair| pair[0].off.saturating_add(pair[0].len) > pair[1].off) {
            return Err("the allocations of a device are not in the order of their addresses");
        }
        let fits = |number: u32| {
            self.state.region(number).is_some_and(|region| {
                region.devices.contains(&one.device)
                    && region.kind == one.kind
                    && one.len.checked_mul(region.devices.len() as u64) == Some(region.size)
            })
        };
        match one.region.is_none_or(fits) {
            true => Ok(()),
            false => Err("an allocation is of a region that lacks the device, or has another share of it"),
        }
    }

    /// Checks the poison lists. Returns the position of the first wrong record, and its fault.
    pub(crate) fn poison(&self) -> Result<(), (usize, CxlFault)> {
        let (mut last, mut records) = (None, 0);
        for (index, one) in self.state.poison.iter().enumerate() {
            let fault = |why| Err((index, why));
            if !self.has_device(one.device) {
                return fault("poison is on a device that the machine lacks");
            }
            let end = one.off.checked_add(CxlPoison::LEN);
            let is_inside = end.is_some_and(|end| end <= dpa::total_of(self.cxl, one.device));
            if !one.off.is_multiple_of(CxlPoison::LEN) || !is_inside {
                return fault("poison has an address that is no multiple of 64, or not on its device");
            }
            if last.is_some_and(|last: &CxlPoison| last >= one) {
                return fault("poison lists an address twice, or not in the order of devices and addresses");
            }
            records = if last.is_some_and(|last| last.device == one.device) { records + 1 } else { 1 };
            if records > RECORDS_MAX {
                return fault("poison has more addresses of a device than the 256 that its list takes");
            }
            last = Some(one);
        }
        Ok(())
    }

    pub(crate) fn partition(&self, one: &CxlPartition) -> Result<(), CxlFault> {
        if self.state.partitions.iter().filter(|other| other.device == one.device).count() > 1 {
            return Err("a device has two partitions");
        }
        let total =
            self.cxl.devices.get(one.device as usize).map(|device| device.volatile + device.persistent);
        match total {
            Some(total) if one.volatile.max(one.next_volatile) <= total => {}
            _ => return Err("a partition is of a device that the machine lacks, or larger than the device"),
        }
        let unit = self.cxl.devices[one.device as usize].partition_alignment;
        let is_whole = |bytes: u64| unit > 0 && bytes.is_multiple_of(unit);
        match is_whole(one.volatile) && is_whole(one.next_volatile) {
            true => Ok(()),
            false => Err("a partition is of a device that can't be divided, or no multiple of its unit"),
        }
    }
}
