//! Saved listings of ipmctl, read into a machine.

use super::Discovered;
use super::entry::Entry;
use super::error::{ListingError, ListingFault};
use super::listing_text;
use super::merged::{Merged, Place, Placed, Values};
use super::provision::{self, ALIGNMENT};
use super::sockets::{Slot, socket_of};
use crate::machine::{
    CxlHardware, Dram, FirmwareActivation, Health, KernelVersion, Machine, Module, PersistenceDomain,
    Profile, Security, Sensors,
};
use crate::platform::Platform;
use lode_nvdimm::ModuleId;

/// Capacities that modules of 128 and 256 GB report, in bytes: for listings that cut digits off.
const KNOWN_CAPACITIES: [u64; 2] = [135_744_782_336, 271_070_789_632];
/// Unit of raw capacities in machine files, in bytes.
const CAPACITY_UNIT: u64 = 64 << 10;

/// Makes a machine from what `ipmctl show` printed on a real one, as text or as XML: `-topology`, `-dimm`,
/// `-memoryresources`, `-region`, `-goal` and `-sensor`. `files` are names and texts. With `-a` and `-units B`, the
/// listings tell all that a machine file has, except the versions of the kernel and of ndctl.
///
/// # Errors
/// Fails with file and line if a listing is damaged, if listings contradict each other, or if they do not name the
/// modules.
pub fn from_ipmctl(name: &str, files: &[(String, String)]) -> Result<Discovered, ListingError> {
    let mut all = Vec::new();
    for (file, (path, text)) in files.iter().enumerate() {
        let entries = listing_text::entries(text);
        let located = |(line, fault)| ListingError { file: path.clone(), line, fault: Box::new(fault) };
        let place = |entry: Entry| (Place { file, line: entry.line }, entry);
        all.extend(entries.map_err(located)?.into_iter().map(place));
    }
    let discovered = Merged::of(all).and_then(|merged| {
        let (machine, notes) = machine(name, &merged)?;
        let mut discovered = Discovered { platform: Platform::new(machine), notes };
        provision::provision(&mut discovered, &merged)?;
        Ok(discovered)
    });
    discovered.map_err(|(place, fault)| {
        let file = files.get(place.file).map_or("the listings".to_owned(), |(path, _)| path.clone());
        ListingError { file, line: place.line, fault: Box::new(fault) }
    })
}

fn machine(name: &str, merged: &Merged) -> Result<(Machine, Vec<String>), Placed> {
    let mut notes = vec![
        "The versions of ndctl and of the kernel are assumed: listings of ipmctl do not tell them."
            .to_owned(),
    ];
    let modules: Vec<Module> =
        merged.modules.iter().map(|values| module(values, &mut notes)).collect::<Result<_, _>>()?;
    let known: Vec<Slot<'_>> = modules
        .iter()
        .map(|module| Slot { locator: &module.locator, socket: module.handle.socket() })
        .collect();
    let dram: Vec<Dram> =
        merged.dram.iter().map(|values| dram(values, &known, &mut notes)).collect::<Result<_, _>>()?;
    if dram.is_empty() {
        notes.push("No DRAM is listed: `ipmctl show -topology` tells it.".to_owned());
    }
    let machine = Machine {
        name: name.to_owned(),
        profile: Profile {
            ipmctl: merged.generation,
            ndctl: 76,
            kernel: KernelVersion { major: 6, minor: 1 },
            domain: PersistenceDomain::MemoryController,
        },
        alignment: ALIGNMENT,
        modules,
        dram,
        memmap: Vec::new(),
        soft_reserved: Vec::new(),
        cxl: CxlHardware::default(),
        firmware_scrubs: true,
        firmware_activation: FirmwareActivation::default(),
    };
    // A listing is held to the rules of a machine file.
    let place = merged.modules.first().map_or(Place::default(), |values| values.place);
    let machine = Machine::parse(&machine.text(&[]));
    Ok((machine.map_err(|error| (place, ListingFault::Machine(error.to_string())))?, notes))
}

fn module(values: &Values, notes: &mut Vec<String>) -> Result<Module, Placed> {
    let handle = values.handle;
    let health = values.parse("HealthState", Health::Healthy, health)?;
    let is_dead = health == Health::NonFunctional;
    let identity = values.parse("DimmUID", None, |word| {
        let id = word.parse::<ModuleId>().map(Some);
        id.map_err(|_| "vendor, location, date and serial number, as 8089-a2-1834-000016b0")
    })?;
    let identity = identity.or_else(|| {
        let made_up = ModuleId { vendor: [0x80, 0x89], made: None, serial: handle.0.to_be_bytes() };
        let note = "is made up, and so are the ids of its sets: `ipmctl show -a -dimm` tells it.";
        (!is_dead).then(|| notes.push(format!("The identity of module {handle} {note}")));
        (!is_dead).then_some(made_up)
    });
    let number = |word: &str| {
        let digits = word.strip_prefix("0x").ok_or("a hexadecimal number, as 0x0026")?;
        u16::from_str_radix(digits, 16).map_err(|_| "a hexadecimal number up to 0xffff")
    };
    let locator = values.get("DeviceLocator").map(str::to_owned).unwrap_or_else(|| {
        notes.push(format!("The slot of module {handle} is not listed: `ipmctl show -topology` tells it."));
        format!("DIMM {handle}")
    });
    let word = |name| values.get(name).map(str::to_owned);
    Ok(Module {
        handle,
        physical_id: values.parse("PhysicalID", 0, number)?,
        locator,
        capacity: capacity(values, is_dead, notes)?,
        identity,
        firmware: word("FWVersion"),
        part_number: word("PartNumber"),
        health,
        security: values.parse("LockState", Security::Disabled, security)?,
        label_area: 128 << 10,
        sensors: sensors(values)?,
    })
}

fn capacity(values: &Values, is_dead: bool, notes: &mut Vec<String>) -> Result<u64, Placed> {
    let handle = values.handle;
    let Some(amount) = values.amount("Capacity")? else {
        if is_dead {
            return Ok(0);
        }
        // SMBIOS has the capacity in whole units.
        let Some(rounded) = values.amount("TopologyCapacity")? else {
            let (name, found) = ("Capacity".to_owned(), String::new());
            let want = "what `ipmctl show -dimm` prints";
            return Err((values.place, ListingFault::Value { name, found, want }));
        };
        notes.push(format!(
            "The capacity of module {handle} is rounded: `ipmctl show -dimm -units B` tells it."
        ));
        return Ok(rounded.multiple_of(&[64 << 20, CAPACITY_UNIT]));
    };
    if amount.is_exact() {
        return Ok(amount.multiple_of(&[1]));
    }
    notes.push(format!("The capacity of module {handle} is rounded: `ipmctl show -dimm -units B` tells it."));
    let known = KNOWN_CAPACITIES.into_iter().find(|bytes| amount.has(*bytes));
    Ok(known.unwrap_or_else(|| amount.multiple_of(&[1 << 20, CAPACITY_UNIT])))
}

fn dram(values: &Values, known: &[Slot<'_>], notes: &mut Vec<String>) -> Result<Dram, Placed> {
    let locator = values.get("DeviceLocator").unwrap_or("DRAM").to_owned();
    let number = |word: &str| {
        let digits = word.strip_prefix("0x").ok_or("a hexadecimal number, as 0x0026")?;
        u16::from_str_radix(digits, 16).map_err(|_| "a hexadecimal number up to 0xffff")
    };
    let socket = match values.get("SocketID") {
        Some(_) => values.parse("SocketID", 0, number)?,
        None => {
            let note =
                "The sockets of DRAM are derived from the names of the slots: listings do not tell them.";
            if !notes.iter().any(|known| known == note) {
                notes.push(note.to_owned());
            }
            socket_of(&locator, known)
        }
    };
    let capacity =
        values.amount("TopologyCapacity")?.map_or(0, |amount| amount.multiple_of(&[1 << 30, 1 << 20]));
    Ok(Dram { socket, physical_id: values.parse("PhysicalID", 0, number)?, locator, capacity })
}

fn health(word: &str) -> Result<Health, &'static str> {
    let all = [Health::Healthy, Health::Noncritical, Health::Critical, Health::Fatal, Health::NonFunctional];
    // The manual has the words without `failure`.
    let is = |health: &Health| {
        let known = health.as_str();
        known.eq_ignore_ascii_case(word)
            || known.strip_suffix(" failure").is_some_and(|short| short.eq_ignore_ascii_case(word))
    };
    let want = "Healthy, Noncritical failure, Critical failure, Fatal failure or Non-functional";
    all.into_iter().find(is).ok_or(want)
}

fn security(word: &str) -> Result<Security, &'static str> {
    if word.ends_with("Frozen") {
        return Ok(Security::Frozen);
    }
    let all = [Security::Disabled, Security::Unlocked, Security::Locked, Security::Unsupported];
    let found = all.into_iter().find(|security| security.as_str().eq_ignore_ascii_case(word));
    // A module whose passphrase was wrong too often stays locked.
    let exceeded = (word == "Exceeded").then_some(Security::Locked);
    found.or(exceeded).ok_or("Disabled, Unlocked, Locked, Frozen, Exceeded or Not Supported")
}

fn sensors(values: &Values) -> Result<Sensors, Placed> {
    let new = Sensors::default();
    let number = |name: &str, default: u64| {
        values.parse(name, default, |word| {
            let digits = word.trim_end_matches(|sign: char| !sign.is_ascii_digit());
            digits.parse::<u64>().ok().filter(|value| *value < 1 << 63).ok_or("a number")
        })
    };
    let small = |name: &str, default: u32| {
        number(name, default.into()).map(|value| u32::try_from(value).unwrap_or(u32::MAX))
    };
    Ok(Sensors {
        media_celsius: small("MediaTemperature", new.media_celsius)?,
        controller_celsius: small("ControllerTemperature", new.controller_celsius)?,
        remaining_percent: small("PercentageRemaining", new.remaining_percent)?,
        latched_dirty_shutdowns: small("LatchedDirtyShutdownCount", new.latched_dirty_shutdowns)?,
        unlatched_dirty_shutdowns: small("UnlatchedDirtyShutdownCount", new.unlatched_dirty_shutdowns)?,
        power_on_seconds: number("PowerOnTime", new.power_on_seconds)?,
        up_seconds: number("UpTime", new.up_seconds)?,
        // The emulation counts the first start of the machine.
        power_cycles: number("PowerCycles", 1)?.saturating_sub(1),
        firmware_errors: small("FwErrorCount", new.firmware_errors)?,
    })
}
