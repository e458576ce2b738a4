//! Objects of listings, as their values.

use super::error::ListingFault;

/// Words of absent values.
const ABSENT: [&str; 3] = ["", "N/A", "Unknown"];

/// A fault with its line, from 1.
pub(super) type Located = (usize, ListingFault);

/// An object of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// Line of the object, from 1.
    pub(super) line: usize,
    /// Its values by their names.
    pub(super) values: Vec<(String, String)>,
}

impl Entry {
    /// Returns a value; `None` if it is absent or unknown.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.values.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !ABSENT.contains(value))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.values.iter().any(|(known, _)| known == name)
    }

    /// Returns the kind of the object; `None` if no machine file needs it.
    pub(super) fn kind(&self) -> Option<Kind> {
        if self.has("PersistentMemoryType") && self.has("ISetID") {
            Some(Kind::Region)
        } else if self.has("MemorySize") && self.has("DimmID") {
            Some(Kind::Goal)
        } else if self.has("CurrentValue") && self.has("Type") {
            Some(Kind::Sensor)
        } else if self.has("DDR") || self.has("AppDirectCapacity") && !self.has("DimmID") {
            Some(Kind::Resources)
        } else if self.has("HealthState") || self.has("LockState") || self.has("DimmUID") {
            Some(Kind::Dimm)
        } else if self.has("MemoryType") && self.has("Capacity") {
            Some(Kind::Topology)
        } else {
            None
        }
    }
}

/// Kind of an object in listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Topology,
    Dimm,
    Sensor,
    Resources,
    Region,
    Goal,
}
