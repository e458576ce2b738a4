//! The objects of all listings, each once.

use super::amount::Amount;
use super::entry::{Entry, Kind};
use super::error::ListingFault;
use crate::machine::{Handle, IpmctlGeneration};
use lode_nvdimm::ModuleId;
use std::collections::BTreeMap;

/// A line of a file. The default is no line of no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: usize,
    pub(super) line: usize,
}

impl Default for Place {
    fn default() -> Place {
        Place { file: usize::MAX, line: 0 }
    }
}

/// A fault with its place.
pub(super) type Placed = (Place, ListingFault);

/// The values of an object, from all listings that have it.
#[derive(Clone, Debug)]
pub(super) struct Values {
    /// The module; that of a DRAM module or of a region is not used.
    pub(super) handle: Handle,
    /// The first place of the object.
    pub(super) place: Place,
    values: BTreeMap<String, (String, Place)>,
    /// The files that have the object, with the names of the values there.
    listings: Vec<(usize, Vec<String>)>,
}

/// The objects of all listings.
#[derive(Debug)]
pub(super) struct Merged {
    pub(super) generation: IpmctlGeneration,
    pub(super) modules: Vec<Values>,
    pub(super) dram: Vec<Values>,
    pub(super) regions: Vec<Values>,
    pub(super) goals: Vec<Values>,
    /// The use of all capacity: a row for each kind of memory, or one object.
    pub(super) resources: Vec<Values>,
    /// The handles of modules by their identities.
    identities: BTreeMap<String, Handle>,
}

impl Merged {
    pub(super) fn of(entries: Vec<(Place, Entry)>) -> Result<Merged, Placed> {
        let mut merged = Merged {
            generation: generation(&entries),
            modules: Vec::new(),
            dram: Vec::new(),
            regions: Vec::new(),
            goals: Vec::new(),
            resources: Vec::new(),
            identities: BTreeMap::new(),
        };
        for (_, entry) in &entries {
            let handle = ["DimmHandle", "DimmID"].into_iter().find_map(|name| handle(entry.get(name)?));
            if let (Some(id), Some(handle)) = (entry.get("DimmUID"), handle) {
                merged.identities.insert(id.to_ascii_lowercase(), handle);
            }
        }
        for (place, entry) in entries {
            merged.add(entry, place)?;
        }
        if merged.modules.is_empty() { Err((Place::default(), ListingFault::NoModules)) } else { Ok(merged) }
    }

    fn add(&mut self, entry: Entry, place: Place) -> Result<(), Placed> {
        let Some(kind) = entry.kind() else { return Ok(()) };
        let same = |one: &&Values, names: &[&str]| {
            names.iter().all(|name| one.get(name) == entry.get(name).map(str::trim))
        };
        let nobody = Handle(0);
        let (list, handle, found) = match kind {
            Kind::Topology if entry.get("DimmID").is_none() => {
                let found = self.dram.iter().position(|one| same(&one, &["DeviceLocator", "PhysicalID"]));
                (&mut self.dram, nobody, found)
            }
            Kind::Region => {
                // Regions of the same modules have the same id: a listing has each of them once.
                let found = self.regions.iter().position(|one| {
                    same(&one, &["ISetID", "SocketID"]) && !one.is_in(&entry, place) && !one.excludes(&entry)
                });
                (&mut self.regions, nobody, found)
            }
            Kind::Resources => {
                let found = self.resources.iter().position(|one| same(&one, &["MemoryType"]));
                (&mut self.resources, nobody, found)
            }
            Kind::Topology | Kind::Dimm | Kind::Sensor | Kind::Goal => {
                let id = entry.get("DimmHandle").or(entry.get("DimmID")).unwrap_or_default();
                let handle = self.module(id).map_err(|fault| (place, fault))?;
                let list = if kind == Kind::Goal { &mut self.goals } else { &mut self.modules };
                let found = list.iter().position(|one| one.handle == handle);
                (list, handle, found)
            }
        };
        let index = found.unwrap_or(list.len());
        if found.is_none() {
            list.push(Values { handle, place, values: BTreeMap::new(), listings: Vec::new() });
        }
        list[index].merge(&entry, kind, place)
    }

    /// Returns the module with this handle or identity.
    pub(super) fn module(&self, id: &str) -> Result<Handle, ListingFault> {
        let known = || self.identities.get(&id.to_ascii_lowercase()).copied();
        handle(id).or_else(known).ok_or_else(|| match id.parse::<ModuleId>() {
            Ok(_) => ListingFault::NoHandle { id: id.to_owned() },
            Err(_) => ListingFault::Value {
                name: "DimmID".to_owned(),
                found: id.to_owned(),
                want: "a handle up to 0x0fffffff, or the identity of a module",
            },
        })
    }
}

impl Values {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|(value, _)| value.as_str())
    }

    /// Returns the place of a value, or that of the object.
    pub(super) fn place_of(&self, name: &str) -> Place {
        self.values.get(name).map_or(self.place, |(_, place)| *place)
    }

    /// Parses a value; `default` if it is not listed.
    pub(super) fn parse<T>(
        &self,
        name: &str,
        default: T,
        parse: impl FnOnce(&str) -> Result<T, &'static str>,
    ) -> Result<T, Placed> {
        let Some((value, place)) = self.values.get(name) else { return Ok(default) };
        parse(value).map_err(|want| {
            let (name, found) = (name.to_owned(), value.clone());
            (*place, ListingFault::Value { name, found, want })
        })
    }

    /// Parses a capacity; `None` if it is not listed.
    pub(super) fn amount(&self, name: &str) -> Result<Option<Amount>, Placed> {
        self.parse(name, None, |word| Amount::parse(word).map(Some).ok_or("a capacity, as 252.454 GiB"))
    }

    /// Returns true if the object is in a listing of this file with these values already.
    fn is_in(&self, entry: &Entry, place: Place) -> bool {
        let names = || entry.values.iter().map(|(name, _)| name);
        self.listings.iter().any(|(file, known)| *file == place.file && known.iter().eq(names()))
    }

    /// Returns true if the entry has another capacity.
    fn excludes(&self, entry: &Entry) -> bool {
        let amount = |value: Option<&str>| value.and_then(Amount::parse);
        let both = amount(self.get("Capacity")).zip(amount(entry.get("Capacity")));
        both.is_some_and(|(one, other)| one.excludes(other))
    }

    /// Adds the values of an object of a listing.
    fn merge(&mut self, entry: &Entry, kind: Kind, place: Place) -> Result<(), Placed> {
        self.listings.push((place.file, entry.values.iter().map(|(name, _)| name.clone()).collect()));
        if kind == Kind::Sensor {
            let reading = entry.get("Type").zip(entry.get("CurrentValue"));
            // Each start of the tool shows another time and temperature.
            if let Some((name, value)) = reading.filter(|(name, _)| *name != "Health") {
                self.values.entry(name.to_owned()).or_insert((value.to_owned(), place));
            }
            return Ok(());
        }
        for (name, _) in &entry.values {
            let Some(value) = entry.get(name) else { continue };
            // SMBIOS has other capacities than the modules themselves.
            let is_rounded = kind == Kind::Topology && name == "Capacity";
            let name = if is_rounded { "TopologyCapacity" } else { name.as_str() };
            let Some((before, _)) = self.values.get(name) else {
                self.values.insert(name.to_owned(), (value.to_owned(), place));
                continue;
            };
            match (Amount::parse(before), Amount::parse(value)) {
                (Some(one), Some(other)) if !one.excludes(other) => {
                    if other.width() < one.width() {
                        self.values.insert(name.to_owned(), (value.to_owned(), place));
                    }
                }
                _ if before.eq_ignore_ascii_case(value) || !CONSTANT.contains(&name) => {}
                _ => {
                    let module = self.get("DimmID").or(self.get("ISetID")).or(self.get("DeviceLocator"));
                    let module = module.unwrap_or("the machine").to_owned();
                    let (name, found, before) = (name.to_owned(), value.to_owned(), before.clone());
                    return Err((place, ListingFault::Contradiction { name, module, found, before }));
                }
            }
        }
        Ok(())
    }
}

/// Values that are the same in all listings of a machine.
const CONSTANT: [&str; 14] = [
    "Capacity",
    "TopologyCapacity",
    "MemoryCapacity",
    "AppDirectCapacity",
    "ReservedCapacity",
    "MemorySize",
    "AppDirect1Size",
    "AppDirect2Size",
    "DimmUID",
    "PhysicalID",
    "DeviceLocator",
    "FWVersion",
    "HealthState",
    "LockState",
];

/// Parses a handle.
fn handle(word: &str) -> Option<Handle> {
    Handle::of_number(Handle::parse_number(word)?).ok()
}

/// Returns the generation that prints such listings: the first one cuts capacities off after one decimal place.
fn generation(entries: &[(Place, Entry)]) -> IpmctlGeneration {
    let has = |name| entries.iter().any(|(_, entry)| entry.has(name));
    let decimals = |value: &str| Amount::parse(value).and_then(|_| value.split_once('.')?.1.find(' '));
    let values = entries.iter().filter(|(_, entry)| entry.kind().is_some());
    let mut all = values.flat_map(|(_, entry)| entry.values.iter().filter_map(|(_, value)| decimals(value)));
    let is_list = entries.iter().any(|(_, entry)| entry.kind() == Some(Kind::Resources) && !entry.has("DDR"));
    if has("ActionRequired") || is_list || all.any(|count| count == 1) {
        IpmctlGeneration::One
    } else {
        IpmctlGeneration::Three
    }
}
