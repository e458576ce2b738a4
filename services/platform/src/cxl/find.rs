//! Searches objects by their names.

use super::filter;
use super::inventory::{CxlInventory, CxlPortLevel, CxlPortView};

impl CxlInventory {
    /// Returns the index of the root decoder that has this name and is on this bus.
    pub(super) fn root_decoder(&self, name: &str, bus: Option<&str>) -> Option<u32> {
        let root = self.roots().find(|root| filter::bus(bus, root))?;
        (0..root.decoders.len() as u32).find(|index| filter::decoder_of(Some(name), root, *index))
    }

    /// Returns true if a device has this name.
    pub fn is_memdev_called(&self, number: u32, name: &str) -> bool {
        self.memdevs.iter().any(|one| one.number == number && filter::memdev(Some(name), None, one))
    }

    /// Returns the numbers of the devices that a word selects, as a name or as a serial number.
    pub fn memdevs_called(&self, word: &str, serial: bool) -> Vec<u32> {
        let (name, serial) = if serial { (None, Some(word)) } else { (Some(word), None) };
        let found = self.memdevs.iter().filter(|one| filter::memdev(name, serial, one));
        found.map(|one| one.number).collect()
    }

    /// Returns the numbers of the regions that a word selects, of these buses and root decoders.
    pub fn regions_called(&self, word: &str, bus: Option<&str>, decoder: Option<&str>) -> Vec<u32> {
        let roots = self.roots().filter(|root| filter::bus(bus, root));
        let decoders = roots.flat_map(|root| {
            let all = (0..).zip(&root.decoders);
            all.filter(move |(index, _)| filter::decoder_of(decoder, root, *index)).map(|(_, one)| one)
        });
        let regions = decoders.flat_map(|one| &one.regions);
        regions
            .filter(|region| filter::region(Some(word), region.number))
            .map(|region| region.number)
            .collect()
    }

    /// Returns the number of the first bus that has this name.
    pub fn bus_called(&self, name: &str) -> Option<u32> {
        self.roots().find(|root| filter::bus(Some(name), root)).map(|root| root.number)
    }

    /// Returns the number of the first host bridge or switch, or of the first endpoint, that has this name.
    pub fn port_called(&self, name: &str, is_endpoint: bool) -> Option<u32> {
        let called = |port: &&CxlPortView| match is_endpoint {
            true => port.level == CxlPortLevel::Endpoint && filter::endpoint(Some(name), port),
            false => port.level == CxlPortLevel::Switch && filter::port(Some(name), port),
        };
        self.ports.iter().find(called).map(|port| port.number)
    }
}
