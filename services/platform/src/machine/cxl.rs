//! CXL memory of a machine: host bridges, switches, devices, and the address windows for regions of them.

/// CXL memory of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CxlHardware {
    /// The host bridges.
    pub bridges: Vec<HostBridge>,
    /// The switches. Each is below a bridge, or below a switch before it in the list.
    pub switches: Vec<CxlSwitch>,
    /// The memory devices, in the order in which the kernel numbers them.
    pub devices: Vec<CxlMemory>,
    /// The address windows.
    pub windows: Vec<AddressWindow>,
}

/// A CXL host bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostBridge {
    /// Its number in firmware's tables (ACPI `_UID`), which windows name.
    pub id: u64,
    /// The socket, from 0.
    pub socket: u16,
}

/// A CXL switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CxlSwitch {
    /// Its name, unique in the machine.
    pub name: String,
    /// The port above it.
    pub above: CxlPort,
}

/// The port above a switch or a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CxlPort {
    /// A host bridge, by its number.
    Bridge(u64),
    /// A switch, by its name.
    Switch(String),
}

/// A CXL memory device (type 3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CxlMemory {
    /// Its serial number.
    pub serial: u64,
    /// The port above it.
    pub above: CxlPort,
    /// Bytes of volatile memory.
    pub volatile: u64,
    /// Bytes of persistent memory.
    pub persistent: u64,
    /// Bytes of its label storage area.
    pub label_area: u64,
    /// Version of its firmware.
    pub firmware: Option<String>,
    /// Unit in bytes in which its capacity can be divided anew into volatile and persistent memory; 0 if it can't be.
    pub partition_alignment: u64,
    /// Number of its decoders: the regions that it can join at once.
    pub decoders: u32,
}

/// A range of physical addresses for regions of CXL memory (CXL 3.1, 9.18.1.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressWindow {
    /// Size in bytes.
    pub size: u64,
    /// The host bridges that it interleaves, by their position.
    pub bridges: Vec<u64>,
    /// Bytes on one bridge before it continues on the next one.
    pub granularity: u64,
    /// True if it takes volatile memory.
    pub volatile: bool,
    /// True if it takes persistent memory.
    pub persistent: bool,
    /// True if it takes memory of accelerators (type 2), too.
    pub accelerator: bool,
}

impl CxlHardware {
    /// Returns true if the machine has no CXL memory and nothing that could hold it.
    pub fn is_empty(&self) -> bool {
        self == &CxlHardware::default()
    }

    /// Returns the host bridge above a port; `None` if the port does not exist.
    pub fn bridge_above(&self, port: &CxlPort) -> Option<&HostBridge> {
        let mut port = port;
        // A switch is below one before it, so there are at most as many steps as switches.
        for _ in 0..=self.switches.len() {
            match port {
                CxlPort::Bridge(id) => return self.bridges.iter().find(|bridge| bridge.id == *id),
                CxlPort::Switch(name) => {
                    port = &self.switches.iter().find(|switch| switch.name == *name)?.above;
                }
            }
        }
        None
    }

    /// Describes each device in a line: capacities, and the ports that lead to it.
    pub(crate) fn device_lines(&self) -> Vec<String> {
        let line = |(number, device): (usize, &CxlMemory)| {
            let mut path = Vec::new();
            let mut port = &device.above;
            while let CxlPort::Switch(name) = port {
                path.push(format!("switch {name}"));
                match self.switches.iter().find(|switch| switch.name == *name) {
                    Some(switch) if path.len() <= self.switches.len() => port = &switch.above,
                    _ => break,
                }
            }
            let bridge = self.bridge_above(&device.above);
            path.extend(bridge.map(|one| format!("host bridge {} of socket {}", one.id, one.socket)));
            let sizes = [(device.persistent, "persistent"), (device.volatile, "volatile")];
            let sizes = sizes.into_iter().filter(|(bytes, _)| *bytes > 0);
            let sizes: Vec<String> = sizes
                .map(|(bytes, what)| format!("{} {what}", crate::plan::amount::rounded(bytes)))
                .collect();
            format!("mem{number}  CXL, {}, below {}", sizes.join(", "), path.join(", "))
        };
        self.devices.iter().enumerate().map(line).collect()
    }
}
