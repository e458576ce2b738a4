//! Writer of machine files.

use super::cxl::{CxlHardware, CxlPort};
use super::cxl_source::{DECODERS, GRANULARITY};
use super::firmware_activation::FirmwareActivation;
use super::hardware::Machine;
use super::module::{Health, Module, Security, Sensors};
use super::profile::IpmctlGeneration;
use super::reader::LABEL_AREA;
use super::source::ALIGNMENT;

impl Machine {
    /// Returns the machine file, with `notes` as comments before it. [`parse`](Machine::parse) reads the same machine
    /// from it, except that the firmware scrubs.
    pub fn text(&self, notes: &[String]) -> String {
        let mut file = File::default();
        for note in notes {
            note.lines().for_each(|line| file.0 += &format!("# {}\n", line.trim_end()));
        }
        file.string("name", &self.name);
        if self.alignment != ALIGNMENT {
            file.size("alignment", self.alignment);
        }
        if self.firmware_activation != FirmwareActivation::default() {
            file.string("firmware_activation", self.firmware_activation.as_str());
        }
        file.section("[profile]");
        let generation = match self.profile.ipmctl {
            IpmctlGeneration::One => 1,
            IpmctlGeneration::Two => 2,
            IpmctlGeneration::Three => 3,
        };
        file.number("ipmctl", generation);
        file.number("ndctl", self.profile.ndctl.into());
        file.string("kernel", &format!("{}.{}", self.profile.kernel.major, self.profile.kernel.minor));
        file.string("persistence_domain", self.profile.domain.as_str());
        self.modules.iter().for_each(|module| file.module(module));
        for dram in &self.dram {
            file.section("[[dram]]");
            file.number("socket", dram.socket.into());
            file.hex("physical_id", dram.physical_id.into());
            file.string("locator", &dram.locator);
            file.size("capacity", dram.capacity);
        }
        for range in &self.memmap {
            file.section("[[memmap]]");
            file.size("start", range.start);
            file.size("size", range.size);
        }
        for range in &self.soft_reserved {
            file.section("[[soft_reserved]]");
            file.size("start", range.start);
            file.size("size", range.size);
        }
        file.cxl(&self.cxl);
        file.0
    }
}

/// The text of a machine file.
#[derive(Default)]
struct File(String);

impl File {
    fn section(&mut self, header: &str) {
        self.0 += &format!("\n{header}\n");
    }

    fn string(&mut self, name: &str, value: &str) {
        self.0 += &format!("{name} = {}\n", quoted(value));
    }

    fn optional(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.string(name, value);
        }
    }

    fn number(&mut self, name: &str, value: u64) {
        self.0 += &format!("{name} = {value}\n");
    }

    fn hex(&mut self, name: &str, value: u64) {
        self.0 += &format!("{name} = {value:#06x}\n");
    }

    fn size(&mut self, name: &str, bytes: u64) {
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        let exact = units.into_iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift);
        let (shift, unit) = exact.unwrap_or((0, "B"));
        self.0 += &format!("{name} = \"{}{unit}\"\n", bytes >> shift);
    }

    fn module(&mut self, module: &Module) {
        self.section("[[module]]");
        self.hex("handle", module.handle.0.into());
        self.hex("physical_id", module.physical_id.into());
        self.string("locator", &module.locator);
        if module.capacity > 0 || module.health != Health::NonFunctional {
            self.size("capacity", module.capacity);
        }
        self.optional("id", module.identity.map(|identity| identity.to_string()).as_deref());
        self.optional("firmware", module.firmware.as_deref());
        self.optional("part_number", module.part_number.as_deref());
        if module.health != Health::default() {
            self.string("health", module.health.as_str());
        }
        match module.security {
            Security::Disabled => {}
            Security::Unsupported => self.string("security", "Not supported"),
            other => self.string("security", other.as_str()),
        }
        if module.label_area != LABEL_AREA {
            self.size("label_area", module.label_area);
        }
        if module.sensors != Sensors::default() {
            self.sensors(&module.sensors);
        }
    }

    fn sensors(&mut self, sensors: &Sensors) {
        self.section("[module.sensors]");
        self.number("media_celsius", sensors.media_celsius.into());
        self.number("controller_celsius", sensors.controller_celsius.into());
        self.number("remaining_percent", sensors.remaining_percent.into());
        self.number("latched_dirty_shutdowns", sensors.latched_dirty_shutdowns.into());
        self.number("unlatched_dirty_shutdowns", sensors.unlatched_dirty_shutdowns.into());
        self.number("power_on_seconds", sensors.power_on_seconds);
        self.number("up_seconds", sensors.up_seconds);
        self.number("power_cycles", sensors.power_cycles);
        self.number("firmware_errors", sensors.firmware_errors.into());
    }

    fn cxl(&mut self, cxl: &CxlHardware) {
        for bridge in &cxl.bridges {
            self.section("[[cxl.bridge]]");
            self.number("id", bridge.id);
            self.number("socket", bridge.socket.into());
        }
        for switch in &cxl.switches {
            self.section("[[cxl.switch]]");
            self.string("name", &switch.name);
            self.port(&switch.above);
        }
        for device in &cxl.devices {
            self.section("[[cxl.device]]");
            self.string("serial", &format!("{:#018x}", device.serial));
            self.port(&device.above);
            self.size("volatile", device.volatile);
            self.size("persistent", device.persistent);
            if device.label_area != LABEL_AREA {
                self.size("label_area", device.label_area);
            }
            self.optional("firmware", device.firmware.as_deref());
            if device.partition_alignment != 0 {
                self.size("partition_alignment", device.partition_alignment);
            }
            if device.decoders != DECODERS {
                self.number("decoders", device.decoders.into());
            }
        }
        for window in &cxl.windows {
            self.section("[[cxl.window]]");
            self.size("size", window.size);
            let bridges: Vec<String> = window.bridges.iter().map(u64::to_string).collect();
            self.0 += &format!("bridges = [{}]\n", bridges.join(", "));
            if window.granularity != GRANULARITY {
                self.size("granularity", window.granularity);
            }
            self.0 += &format!("volatile = {}\npersistent = {}\n", window.volatile, window.persistent);
            if window.accelerator {
                self.0 += "accelerator = true\n";
            }
        }
    }

    fn port(&mut self, port: &CxlPort) {
        match port {
            CxlPort::Bridge(id) => self.number("bridge", *id),
            CxlPort::Switch(name) => self.string("switch", name),
        }
    }
}

/// Quotes a string (TOML 1.0, basic strings).
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => quoted += &format!("\\u{:04X}", u32::from(control)),
            other => quoted.push(other),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::machine::{INCLUDED, template};

    #[test]
    fn machine_text_round_trips() {
        let all = INCLUDED.map(|(_, text)| text.to_owned()).into_iter().chain([template()]);
        for text in all {
            let machine = Machine::parse(&text).unwrap();
            let written = machine.text(&["a note\nof two lines".to_owned()]);
            assert!(written.starts_with("# a note\n# of two lines\nname = "), "{written}");
            assert_eq!(Machine::parse(&written).unwrap(), machine);
        }
    }

    #[test]
    fn values_apart_from_defaults_round_trip() {
        let mut machine = Machine::parse(&template()).unwrap();
        machine.name = "a \"b\" \\ \u{1}\u{7f}ü\n\t".to_owned();
        machine.alignment = 1 << 21;
        machine.firmware_activation = FirmwareActivation::Live;
        let module = &mut machine.modules[0];
        (module.label_area, module.capacity) = (1 << 20, (1 << 37) + (1 << 16));
        module.part_number = Some("NMA".to_owned());
        module.sensors.power_cycles = 7;
        for security in [
            Security::Unlocked,
            Security::Locked,
            Security::Frozen,
            Security::Unsupported,
            Security::Disabled,
        ] {
            machine.modules[0].security = security;
            assert_eq!(Machine::parse(&machine.text(&[])).unwrap(), machine);
        }
        let module = &mut machine.modules[0];
        (module.health, module.capacity, module.identity) = (Health::NonFunctional, 0, None);
        machine.cxl.windows[0].granularity = 4096;
        machine.cxl.windows[0].accelerator = true;
        machine.cxl.devices[0].serial = u64::MAX;
        machine.cxl.devices[0].partition_alignment = 256 << 20;
        machine.cxl.devices[0].decoders = 10;
        machine.cxl.devices[0].above = CxlPort::Bridge(12);
        assert_eq!(Machine::parse(&machine.text(&[])).unwrap(), machine);
    }
}
