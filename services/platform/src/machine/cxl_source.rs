//! Parser of the part of machine files about CXL.

use super::cxl::{AddressWindow, CxlHardware, CxlMemory, CxlPort, CxlSwitch, HostBridge};
use super::machine_error::MachineError;
use super::reader::{CAPACITY_MAX, LABEL_AREA, Reader};
use bytesize::ByteSize;
use serde::Deserialize;
use std::collections::BTreeSet;
use toml::Spanned;

/// Unit of the capacities of devices, in bytes (CXL 3.1, 8.2.9.9.1.1).
const CAPACITY_UNIT: u64 = 256 << 20;
/// Numbers of bridges over which a window can interleave (CXL 3.1, table 9-22).
const WAYS: [usize; 8] = [1, 2, 3, 4, 6, 8, 12, 16];
/// Default bytes on one bridge before a window continues on the next one.
pub(super) const GRANULARITY: u64 = 256;
/// Default number of decoders of a device.
pub(crate) const DECODERS: u32 = 4;
/// Numbers of decoders that a device can have (CXL 3.1, table 8-113; memory devices have at most 10).
const DECODER_COUNTS: [u32; 6] = [1, 2, 4, 6, 8, 10];
/// Ports below a host bridge or a switch: devices of a PCI bus.
const PORTS_MAX: usize = 32;
/// PCI buses below a host bridge.
const BUSES_MAX: usize = 240;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct CxlSource {
    #[serde(rename = "bridge", default)]
    bridges: Vec<BridgeSource>,
    #[serde(rename = "switch", default)]
    switches: Vec<SwitchSource>,
    #[serde(rename = "device", default)]
    devices: Vec<DeviceSource>,
    #[serde(rename = "window", default)]
    windows: Vec<WindowSource>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BridgeSource {
    id: Spanned<u64>,
    #[serde(default)]
    socket: u16,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchSource {
    name: Spanned<String>,
    bridge: Option<Spanned<u64>>,
    switch: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceSource {
    serial: Spanned<String>,
    bridge: Option<Spanned<u64>>,
    switch: Option<Spanned<String>>,
    volatile: Option<Spanned<ByteSize>>,
    persistent: Option<Spanned<ByteSize>>,
    label_area: Option<Spanned<ByteSize>>,
    firmware: Option<String>,
    partition_alignment: Option<Spanned<ByteSize>>,
    decoders: Option<Spanned<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WindowSource {
    size: Spanned<ByteSize>,
    bridges: Spanned<Vec<Spanned<u64>>>,
    granularity: Option<Spanned<ByteSize>>,
    #[serde(default)]
    volatile: bool,
    #[serde(default)]
    persistent: bool,
    #[serde(default)]
    accelerator: bool,
}

impl Reader<'_> {
    pub(super) fn cxl(&self, source: CxlSource) -> Result<CxlHardware, MachineError> {
        let mut cxl = CxlHardware::default();
        for BridgeSource { id, socket } in source.bridges {
            if cxl.bridges.iter().any(|known| known.id == *id.get_ref()) {
                return Err(self.fault(&id, "the id of a second host bridge", "unique in a machine"));
            }
            cxl.bridges.push(HostBridge { id: id.into_inner(), socket });
        }
        for SwitchSource { name, bridge, switch } in source.switches {
            if name.get_ref().is_empty() {
                return Err(self.fault(&name, "the name of a switch", "not empty"));
            }
            if cxl.switches.iter().any(|known| known.name == *name.get_ref()) {
                return Err(self.fault(&name, "the name of a second switch", "unique in a machine"));
            }
            let above = self.port(&cxl, &name, bridge, switch)?;
            self.check_room(&cxl, &name, &above)?;
            cxl.switches.push(CxlSwitch { name: name.into_inner(), above });
        }
        for device in source.devices {
            let device = self.device(&cxl, device)?;
            cxl.devices.push(device);
        }
        for window in source.windows {
            let window = self.window(&cxl, window)?;
            cxl.windows.push(window);
        }
        Ok(cxl)
    }

    /// Returns the port above the object called `name`.
    fn port(
        &self,
        cxl: &CxlHardware,
        name: &Spanned<String>,
        bridge: Option<Spanned<u64>>,
        switch: Option<Spanned<String>>,
    ) -> Result<CxlPort, MachineError> {
        match (bridge, switch) {
            (Some(bridge), None) => match cxl.bridges.iter().any(|known| known.id == *bridge.get_ref()) {
                true => Ok(CxlPort::Bridge(bridge.into_inner())),
                false => Err(self.fault(&bridge, "the bridge", "the id of a [[cxl.bridge]]")),
            },
            (None, Some(switch)) => match cxl.switches.iter().any(|known| known.name == *switch.get_ref()) {
                true => Ok(CxlPort::Switch(switch.into_inner())),
                false => {
                    let want = "the name of a [[cxl.switch]] that the file has before";
                    Err(self.fault(&switch, "the switch", want))
                }
            },
            _ => {
                let want = "of an object with either bridge or switch, the port above it";
                Err(self.fault(name, "the name or serial", want))
            }
        }
    }

    fn device(&self, cxl: &CxlHardware, source: DeviceSource) -> Result<CxlMemory, MachineError> {
        let digits = source.serial.get_ref().strip_prefix("0x");
        let number = digits.filter(|digits| !digits.starts_with('+'));
        let serial = number.and_then(|digits| u64::from_str_radix(digits, 16).ok()).ok_or_else(|| {
            self.fault(&source.serial, "the serial", "up to 16 hexadecimal digits, as 0x00000000fe1a0b22")
        })?;
        let above = self.port(cxl, &source.serial, source.bridge, source.switch)?;
        self.check_room(cxl, &source.serial, &above)?;
        // A device of an unknown serial number has 0.
        if serial != 0 && cxl.devices.iter().any(|known| known.serial == serial) {
            return Err(self.fault(&source.serial, "the serial of a second device", "unique in the world"));
        }
        let volatile = self.capacity_of(source.volatile.as_ref(), "the volatile capacity")?;
        let persistent = self.capacity_of(source.persistent.as_ref(), "the persistent capacity")?;
        if volatile == 0 && persistent == 0 {
            let want = "of a device with volatile or persistent memory";
            return Err(self.fault(&source.serial, "the serial", want));
        }
        let label_area = source.label_area.as_ref();
        let label_area = label_area.map_or(Ok(LABEL_AREA), |found| self.label_area(found))?;
        let partition_alignment = self.partition_alignment(source.partition_alignment.as_ref())?;
        if let Some(found) = source.partition_alignment.as_ref().filter(|_| partition_alignment > 0)
            && ![volatile, persistent].iter().all(|bytes| bytes.is_multiple_of(partition_alignment))
        {
            let want = "a divisor of the volatile and of the persistent capacity";
            return Err(self.fault(found, "the partition alignment", want));
        }
        let decoders = match source.decoders {
            None => DECODERS,
            Some(found) if DECODER_COUNTS.contains(found.get_ref()) => found.into_inner(),
            Some(found) => return Err(self.fault(&found, "the number of decoders", "1, 2, 4, 6, 8 or 10")),
        };
        let firmware = source.firmware;
        Ok(CxlMemory {
            serial,
            above,
            volatile,
            persistent,
            label_area,
            firmware,
            partition_alignment,
            decoders,
        })
    }

    /// Checks that the port above the object called `name` has room for a further one.
    fn check_room(
        &self,
        cxl: &CxlHardware,
        name: &Spanned<String>,
        above: &CxlPort,
    ) -> Result<(), MachineError> {
        let switches = cxl.switches.iter().filter(|switch| switch.above == *above).count();
        let devices = cxl.devices.iter().filter(|device| device.above == *above).count();
        if switches + devices >= PORTS_MAX {
            return Err(self.fault(name, "the name or serial", "one of at most 32 below a bridge or switch"));
        }
        let bridge = cxl.bridge_above(above);
        let is_below = |port: &CxlPort| cxl.bridge_above(port) == bridge;
        let switches = cxl.switches.iter().filter(|switch| is_below(&switch.above)).count();
        let devices = cxl.devices.iter().filter(|device| is_below(&device.above)).count();
        match 2 * switches + devices < BUSES_MAX {
            true => Ok(()),
            false => {
                let want = "below a bridge with at most 240 PCI buses: two for a switch, one for a device";
                Err(self.fault(name, "the name or serial", want))
            }
        }
    }

    fn partition_alignment(&self, found: Option<&Spanned<ByteSize>>) -> Result<u64, MachineError> {
        found.map_or(Ok(0), |found| match found.get_ref().as_u64() {
            bytes if bytes < CAPACITY_MAX && bytes.is_multiple_of(CAPACITY_UNIT) => Ok(bytes),
            _ => Err(self.fault(found, "the partition alignment", "a multiple of 256MiB below 4PiB, or 0B")),
        })
    }

    fn capacity_of(
        &self,
        found: Option<&Spanned<ByteSize>>,
        what: &'static str,
    ) -> Result<u64, MachineError> {
        found.map_or(Ok(0), |found| match found.get_ref().as_u64() {
            bytes if bytes < CAPACITY_MAX && bytes % CAPACITY_UNIT == 0 => Ok(bytes),
            _ => Err(self.fault(found, what, "a multiple of 256MiB below 4PiB")),
        })
    }

    fn window(&self, cxl: &CxlHardware, source: WindowSource) -> Result<AddressWindow, MachineError> {
        let bridges = source.bridges.get_ref();
        let mut known = BTreeSet::new();
        for id in bridges {
            if !cxl.bridges.iter().any(|bridge| bridge.id == *id.get_ref()) {
                return Err(self.fault(id, "the bridge", "the id of a [[cxl.bridge]]"));
            }
            if !known.insert(*id.get_ref()) {
                return Err(self.fault(id, "the bridge", "in a window once"));
            }
        }
        let ways = bridges.len();
        if !WAYS.contains(&ways) {
            let (want, span) = ("1, 2, 3, 4, 6, 8, 12 or 16", source.bridges.span());
            return Err(self.fault(&Spanned::new(span, ways), "the number of bridges", want));
        }
        let size = match source.size.get_ref().as_u64() {
            bytes if bytes > 0 && bytes < CAPACITY_MAX && bytes % (CAPACITY_UNIT * ways as u64) == 0 => bytes,
            _ => {
                let want = "a multiple of 256MiB for each bridge, below 4PiB";
                return Err(self.fault(&source.size, "the size of a window", want));
            }
        };
        let granularity = match source.granularity.as_ref().map(|found| (found, found.get_ref().as_u64())) {
            None => GRANULARITY,
            Some((_, bytes)) if bytes.is_power_of_two() && (256..=16 << 10).contains(&bytes) => bytes,
            Some((found, _)) => {
                return Err(self.fault(found, "the granularity", "a power of two from 256B to 16KiB"));
            }
        };
        if !source.volatile && !source.persistent {
            let want = "of a window with volatile = true or persistent = true";
            return Err(self.fault(&source.size, "the size", want));
        }
        let bridges = bridges.iter().map(|id| *id.get_ref()).collect();
        let (volatile, persistent, accelerator) = (source.volatile, source.persistent, source.accelerator);
        Ok(AddressWindow { size, bridges, granularity, volatile, persistent, accelerator })
    }
}
