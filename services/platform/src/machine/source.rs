//! Parser of machine files (TOML).

use super::cxl_source::CxlSource;
use super::firmware_activation::FirmwareActivation;
use super::handle::Handle;
use super::hardware::Machine;
use super::machine_error::MachineError;
use super::module::{Dram, Health, Memmap, Module, Security, Sensors, SoftReserved};
use super::profile::{IpmctlGeneration, KernelVersion, PersistenceDomain, Profile};
use super::reader::{CAPACITY_MAX, LABEL_AREA, Reader, place};
use super::typo::nearest;
use bytesize::ByteSize;
use lode_nvdimm::ModuleId;
use serde::Deserialize;
use std::collections::BTreeSet;
use toml::Spanned;

/// Default alignment of firmware's allocations, in bytes.
pub(super) const ALIGNMENT: u64 = 1 << 30;

/// Unit of ranges that firmware reserves, in bytes: the kernel maps them with pages of this size.
const SOFT_RESERVED_UNIT: u64 = 2 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    name: String,
    profile: ProfileSource,
    alignment: Option<Spanned<ByteSize>>,
    #[serde(default)]
    firmware_activation: FirmwareActivation,
    #[serde(rename = "module", default)]
    modules: Vec<ModuleSource>,
    #[serde(default)]
    dram: Vec<DramSource>,
    #[serde(default)]
    memmap: Vec<MemmapSource>,
    #[serde(default)]
    soft_reserved: Vec<MemmapSource>,
    #[serde(default)]
    cxl: CxlSource,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileSource {
    ipmctl: Spanned<u32>,
    ndctl: Spanned<u32>,
    kernel: Spanned<String>,
    #[serde(default)]
    persistence_domain: PersistenceDomain,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModuleSource {
    handle: Spanned<u32>,
    physical_id: u16,
    locator: String,
    capacity: Option<Spanned<ByteSize>>,
    id: Option<Spanned<String>>,
    firmware: Option<String>,
    part_number: Option<String>,
    #[serde(default)]
    health: Health,
    #[serde(default)]
    security: Security,
    label_area: Option<Spanned<ByteSize>>,
    #[serde(default)]
    sensors: Sensors,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DramSource {
    socket: u16,
    physical_id: u16,
    locator: String,
    capacity: Spanned<ByteSize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MemmapSource {
    start: Spanned<ByteSize>,
    size: Spanned<ByteSize>,
}

impl Machine {
    /// Parses a machine file (TOML).
    ///
    /// # Errors
    /// Fails with the first mistake in the text, and its line and column if they are known.
    pub fn parse(text: &str) -> Result<Machine, MachineError> {
        let source: Source = toml::from_str(text).map_err(|error| syntax(text, &error))?;
        let reader = Reader { text };
        let alignment = source.alignment.as_ref();
        Ok(Machine {
            name: source.name,
            profile: reader.profile(&source.profile)?,
            alignment: alignment
                .map_or(Ok(ALIGNMENT), |found| reader.power_of_two(found, "the alignment"))?,
            modules: reader.modules(source.modules)?,
            dram: source.dram.into_iter().map(|dram| reader.dram(dram)).collect::<Result<_, _>>()?,
            memmap: reader.memmaps(&source.memmap)?,
            soft_reserved: reader.soft_reserved(&source.soft_reserved, &source.memmap)?,
            cxl: reader.cxl(source.cxl)?,
            firmware_scrubs: true,
            firmware_activation: source.firmware_activation,
        })
    }
}

impl Module {
    /// Parses the sections `[[module]]` of a machine file, without the rest of it (TOML).
    ///
    /// # Errors
    /// Those of [`Machine::parse`].
    pub fn parse_all(text: &str) -> Result<Vec<Module>, MachineError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Modules {
            #[serde(rename = "module", default)]
            modules: Vec<ModuleSource>,
        }
        let source: Modules = toml::from_str(text).map_err(|error| syntax(text, &error))?;
        Reader { text }.modules(source.modules)
    }
}

fn syntax(text: &str, error: &toml::de::Error) -> MachineError {
    let (line, column) = place(text, error.span().unwrap_or(0..0));
    // The parser puts words in backquotes: first the one that it found, then the ones that it expected.
    let mut words = error.message().split('`').skip(1).step_by(2);
    let found = words.next().unwrap_or_default();
    let suggestion = nearest(found, words).map(str::to_owned);
    MachineError::Syntax {
        line,
        column,
        message: error.message().lines().next().unwrap_or_default().to_owned(),
        suggestion,
    }
}

impl Reader<'_> {
    fn profile(&self, source: &ProfileSource) -> Result<Profile, MachineError> {
        let ipmctl = match source.ipmctl.get_ref() {
            1 => IpmctlGeneration::One,
            2 => IpmctlGeneration::Two,
            3 => IpmctlGeneration::Three,
            _ => return Err(self.fault(&source.ipmctl, "the generation of ipmctl", "1, 2 or 3")),
        };
        let ndctl = *source.ndctl.get_ref();
        if !(64..1000).contains(&ndctl) {
            return Err(self.fault(&source.ndctl, "the version of ndctl", "64 or later"));
        }
        let kernel = KernelVersion::parse(source.kernel.get_ref())
            .ok_or_else(|| self.fault(&source.kernel, "the kernel", "two numbers, as 6.1"))?;
        Ok(Profile { ipmctl, ndctl, kernel, domain: source.persistence_domain })
    }

    fn modules(&self, sources: Vec<ModuleSource>) -> Result<Vec<Module>, MachineError> {
        let (mut handles, mut ids) = (BTreeSet::new(), BTreeSet::new());
        let mut modules = Vec::new();
        for source in sources {
            if !handles.insert(*source.handle.get_ref()) {
                return Err(self.fault(
                    &source.handle,
                    "the handle of a second module",
                    "unique in a machine",
                ));
            }
            if let Some(id) = &source.id
                && !ids.insert(id.get_ref().clone())
            {
                return Err(self.fault(id, "the identity of a second module", "unique in the world"));
            }
            modules.push(self.module(source)?);
        }
        Ok(modules)
    }

    fn module(&self, source: ModuleSource) -> Result<Module, MachineError> {
        let identity = source.id.as_ref().map(|id| {
            let want = "vendor, location, date and serial number, as 8089-a2-1834-000016b0";
            id.get_ref().parse::<ModuleId>().map_err(|_| self.fault(id, "the identity of a module", want))
        });
        if *source.handle.get_ref() > Handle::MAX.0 {
            return Err(self.fault(&source.handle, "the handle", "at most 0xfffffff"));
        }
        if source.health != Health::NonFunctional && (source.capacity.is_none() || source.id.is_none()) {
            let want = "of a module with capacity and id: only dead modules lack them";
            return Err(self.fault(&source.handle, "the handle", want));
        }
        let capacity = source.capacity.as_ref().map_or(Ok(0), |found| match found.get_ref().as_u64() {
            bytes if Module::is_capacity(bytes) => Ok(bytes),
            _ => Err(self.fault(found, "the capacity", "whole pieces of 64 KiB, below 4 PiB")),
        })?;
        let label_area = source.label_area.as_ref();
        let label_area = label_area.map_or(Ok(LABEL_AREA), |found| self.label_area(found))?;
        Ok(Module {
            handle: Handle(*source.handle.get_ref()),
            physical_id: source.physical_id,
            locator: source.locator,
            capacity,
            identity: identity.transpose()?,
            firmware: source.firmware,
            part_number: source.part_number,
            health: source.health,
            security: source.security,
            label_area,
            sensors: source.sensors,
        })
    }

    fn dram(&self, source: DramSource) -> Result<Dram, MachineError> {
        let capacity = match source.capacity.get_ref().as_u64() {
            bytes if bytes < CAPACITY_MAX && bytes % (1 << 20) == 0 => bytes,
            _ => return Err(self.fault(&source.capacity, "the capacity", "whole MiB, below 4 PiB")),
        };
        let DramSource { socket, physical_id, locator, .. } = source;
        Ok(Dram { socket, physical_id, locator, capacity })
    }

    fn memmaps(&self, sources: &[MemmapSource]) -> Result<Vec<Memmap>, MachineError> {
        let mut ranges: Vec<Memmap> = Vec::new();
        for source in sources {
            let range = self.memmap(source)?;
            if ranges
                .iter()
                .any(|one| one.start < range.start + range.size && range.start < one.start + one.size)
            {
                return Err(self.fault(&source.start, "the start of memmap", "outside of the other ranges"));
            }
            ranges.push(range);
        }
        Ok(ranges)
    }

    fn memmap(&self, source: &MemmapSource) -> Result<Memmap, MachineError> {
        let bytes = |found: &Spanned<ByteSize>, what, want| match found.get_ref().as_u64() {
            bytes if bytes > 0 && bytes < CAPACITY_MAX && bytes % (16 << 20) == 0 => Ok(bytes),
            _ => Err(self.fault(found, what, want)),
        };
        Ok(Memmap {
            start: bytes(&source.start, "the start of memmap", "a multiple of 16MiB below 4PiB")?,
            size: bytes(&source.size, "the size of memmap", "a multiple of 16MiB below 4PiB")?,
        })
    }

    /// Reads the ranges that firmware reserves for applications. A kernel range of `memmap` is no part of one.
    fn soft_reserved(
        &self,
        sources: &[MemmapSource],
        memmap: &[MemmapSource],
    ) -> Result<Vec<SoftReserved>, MachineError> {
        let (what, want) = ("the range of soft_reserved", "a multiple of 2MiB below 4PiB");
        let bytes = |found: &Spanned<ByteSize>| match found.get_ref().as_u64() {
            bytes if bytes > 0 && bytes < CAPACITY_MAX && bytes % SOFT_RESERVED_UNIT == 0 => Ok(bytes),
            _ => Err(self.fault(found, what, want)),
        };
        let mut taken: Vec<(u64, u64)> =
            memmap.iter().map(|one| (one.start.get_ref().as_u64(), one.size.get_ref().as_u64())).collect();
        let mut ranges = Vec::new();
        for source in sources {
            let (start, size) = (bytes(&source.start)?, bytes(&source.size)?);
            if taken.iter().any(|(other, len)| *other < start + size && start < other + len) {
                return Err(self.fault(
                    &source.start,
                    "the start of soft_reserved",
                    "outside of the other ranges",
                ));
            }
            taken.push((start, size));
            ranges.push(SoftReserved { start, size });
        }
        Ok(ranges)
    }

    fn power_of_two(&self, found: &Spanned<ByteSize>, what: &'static str) -> Result<u64, MachineError> {
        match found.get_ref().as_u64() {
            bytes if bytes.is_power_of_two() && bytes >= 1 << 20 => Ok(bytes),
            _ => Err(self.fault(found, what, "a power of two from 1MiB")),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::machine::INCLUDED;

    fn fault(text: &str) -> String {
        Machine::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn included_machines_are_valid() {
        for (name, text) in INCLUDED {
            let machine = Machine::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(machine.name, name);
            assert!(!machine.modules.is_empty());
        }
    }

    #[test]
    fn typo_is_located_with_suggestion() {
        let text = INCLUDED[3].1;
        let typo = text.replace("capacity = \"1344MiB\"", "capcity = \"1344MiB\"");
        let said = fault(&typo);
        assert!(said.starts_with("line 14, column 1: unknown field `capcity`"), "{said}");
        assert!(said.ends_with("was `capacity` meant?"), "{said}");
        let said = fault(&text.replace("handle = 0x0001", "handle = 0x0001\nhealth = \"Healty\""));
        assert!(said.contains("line 12, column 10") && said.ends_with("was `Healthy` meant?"), "{said}");
        assert!(fault("name = ").starts_with("line 1, column 8"));
    }

    #[test]
    fn invalid_values_are_located() {
        let text = INCLUDED[4].1;
        let memmap = |start, size| format!("[[memmap]]\nstart = \"{start}\"\nsize = \"{size}\"\n");
        let reserved = |start| format!("[[soft_reserved]]\nstart = \"{start}\"\nsize = \"1GiB\"\n");
        let odd = [reserved("4097MiB"), "[[dram]]".to_owned()].concat();
        let twice = [reserved("4GiB"), reserved("4098MiB"), "[[dram]]".to_owned()].concat();
        let in_memmap = [memmap("4GiB", "2GiB"), reserved("5GiB"), "[[dram]]".to_owned()].concat();
        let overlapping = [memmap("4GiB", "2GiB"), memmap("5GiB", "16MiB"), "[[dram]]".to_owned()].concat();
        for (from, to, said) in [
            ("kernel = \"6.1\"", "kernel = \"six\"", "the kernel can't be six"),
            ("ipmctl = 3", "ipmctl = 7", "line 5, column 10: the generation of ipmctl can't be 7"),
            ("handle = 0x0101", "handle = 0x0001", "the handle of a second module can't be 1"),
            ("8089-a2-2140-00000002", "8089-a2-2140-00000001", "the identity of a second module"),
            ("8089-a2-2140-00000002", "8089-a2-2140-2", "the identity of a module can't be"),
            ("1344MiB", "1344MB", "the capacity can't be"),
            ("2GiB", "2000000000B", "the capacity can't be"),
            ("[[dram]]", &overlapping, "the start of memmap can't be 5.0 GiB"),
            ("[[dram]]", &odd, "the range of soft_reserved can't be 4.0 GiB"),
            ("[[dram]]", &twice, "the start of soft_reserved can't be 4.0 GiB"),
            ("[[dram]]", &in_memmap, "the start of soft_reserved can't be 5.0 GiB"),
            ("[[module]]", "[[module]]\nsensors = { remaining_percent = 101 }", "101 percent can't be"),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            let fault = fault(&changed);
            assert!(fault.contains(said), "{fault}");
        }
    }
}
