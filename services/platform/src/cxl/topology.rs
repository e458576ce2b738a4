//! Ports of a machine's CXL memory, with the numbers and PCI addresses that they have after a start.
//!
//! ```text
//! root0        ACPI0017, the address windows         a downstream port for each host bridge
//! port1 ...    host bridges, in the order of firmware's tables          for each switch or device below, then
//! portN        switches, when the first device below them is found      for each switch or device below
//! endpointN    devices, in their order
//! ```

use crate::machine::{CxlHardware, CxlPort};

/// Ports of a machine. The position of a port is its number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Topology {
    pub(crate) ports: Vec<TopologyPort>,
    /// Number of the endpoint of each device.
    pub(crate) endpoints: Vec<usize>,
    /// PCI address of each device.
    pub(crate) hosts: Vec<String>,
}

/// A port.
#[derive(Clone, Debug)]
pub(crate) struct TopologyPort {
    pub(crate) level: Level,
    /// Number of the port above it; `None` for the root.
    pub(crate) above: Option<usize>,
    /// Position of the downstream port above it.
    pub(crate) dport: usize,
    /// The device of the port.
    pub(crate) host: String,
    /// Its downstream ports, in the order of their ids.
    pub(crate) dports: Vec<Dport>,
}

/// Place of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Root,
    Bridge,
    Switch,
    Endpoint,
}

/// A downstream port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dport {
    /// Name of its device.
    pub name: String,
    /// Name of the same thing in another view of the kernel.
    pub alias: Option<String>,
    /// Its number, which lists of targets have.
    pub id: u64,
}

/// A switch or device, by its position in the machine file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Below {
    Switch(usize),
    Device(usize),
}

/// PCI addresses of what is below a bridge or switch.
struct Addresses {
    /// Addresses of the downstream ports.
    dports: Vec<String>,
    /// Address of the switch's upstream port, or of the device, below each of them.
    below: Vec<String>,
}

/// Numbers PCI buses depth first, as firmware does.
struct Buses {
    domain: u32,
    next: u32,
}

impl Buses {
    fn take(&mut self) -> u32 {
        let bus = self.next;
        self.next += 1;
        bus
    }

    fn address(&self, bus: u32, device: usize) -> String {
        format!("{:04x}:{bus:02x}:{device:02x}.0", self.domain)
    }
}

/// First bus of the first host bridge. Those before are of devices without CXL.
const FIRST_BUS: u32 = 0x0c;
const BUSES_OF_DOMAIN: u32 = 256;

impl Topology {
    pub(crate) fn of(cxl: &CxlHardware) -> Topology {
        let mut found = Finder::new(cxl);
        found.bridges();
        for device in 0..cxl.devices.len() {
            found.endpoint(device);
        }
        found.topology
    }

    /// Returns the ports above a port, the nearest first.
    pub(crate) fn above(&self, port: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(self.ports[port].above, |port| self.ports[*port].above)
    }

    /// Returns the position of the downstream port of `port` that leads to a device; `None` if none does.
    pub(crate) fn dport_to(&self, port: usize, device: u32) -> Option<usize> {
        let endpoint = *self.endpoints.get(device as usize)?;
        let mut below = endpoint;
        loop {
            let above = self.ports[below].above?;
            if above == port {
                return Some(self.ports[below].dport);
            }
            below = above;
        }
    }
}

struct Finder<'a> {
    cxl: &'a CxlHardware,
    topology: Topology,
    /// Addresses below each bridge, and then below each switch.
    addresses: Vec<Addresses>,
    /// First bus of each bridge, with its domain.
    roots: Vec<String>,
    /// Address of the upstream port of each switch.
    upstream: Vec<String>,
    /// Numbers of the ports of switches that were found.
    switches: Vec<Option<usize>>,
}

impl Finder<'_> {
    fn new(cxl: &CxlHardware) -> Finder<'_> {
        let none = || Addresses { dports: Vec::new(), below: Vec::new() };
        let mut finder = Finder {
            cxl,
            topology: Topology { hosts: vec![String::new(); cxl.devices.len()], ..Topology::default() },
            addresses: (0..cxl.bridges.len() + cxl.switches.len()).map(|_| none()).collect(),
            roots: Vec::new(),
            upstream: vec![String::new(); cxl.switches.len()],
            switches: vec![None; cxl.switches.len()],
        };
        let mut buses = Buses { domain: 0, next: FIRST_BUS };
        for (index, bridge) in cxl.bridges.iter().enumerate() {
            let port = CxlPort::Bridge(bridge.id);
            if buses.next + finder.buses_below(&port) > BUSES_OF_DOMAIN {
                buses = Buses { domain: buses.domain + 1, next: 0 };
            }
            let bus = buses.take();
            finder.roots.push(format!("pci{:04x}:{bus:02x}", buses.domain));
            finder.number_below(&port, index, bus, &mut buses);
        }
        finder
    }

    /// Returns what is below a port: switches, then devices.
    fn below(&self, port: &CxlPort) -> Vec<Below> {
        let switches = self.cxl.switches.iter().enumerate().filter(|(_, one)| one.above == *port);
        let devices = self.cxl.devices.iter().enumerate().filter(|(_, one)| one.above == *port);
        let switches = switches.map(|(index, _)| Below::Switch(index));
        switches.chain(devices.map(|(index, _)| Below::Device(index))).collect()
    }

    /// Returns the number of buses below a port, and its own one.
    fn buses_below(&self, port: &CxlPort) -> u32 {
        let of = |below: Below| match below {
            Below::Switch(index) => 1 + self.buses_below(&self.switch_port(index)),
            Below::Device(_) => 1,
        };
        1 + self.below(port).into_iter().map(of).sum::<u32>()
    }

    fn switch_port(&self, index: usize) -> CxlPort {
        CxlPort::Switch(self.cxl.switches[index].name.clone())
    }

    /// Gives addresses to what is below a port whose bus is `bus`.
    fn number_below(&mut self, port: &CxlPort, index: usize, bus: u32, buses: &mut Buses) {
        for (slot, below) in self.below(port).into_iter().enumerate() {
            let dport = buses.address(bus, slot);
            let child = buses.take();
            let address = buses.address(child, 0);
            match below {
                Below::Device(device) => self.topology.hosts[device].clone_from(&address),
                Below::Switch(switch) => {
                    self.upstream[switch].clone_from(&address);
                    let inner = buses.take();
                    let of = self.cxl.bridges.len() + switch;
                    self.number_below(&self.switch_port(switch), of, inner, buses);
                }
            }
            self.addresses[index].dports.push(dport);
            self.addresses[index].below.push(address);
        }
    }

    fn bridges(&mut self) {
        let dport = |(index, bridge): (usize, &crate::machine::HostBridge)| Dport {
            name: format!("ACPI0016:{index:02x}"),
            alias: Some(self.roots[index].clone()),
            id: bridge.id,
        };
        let root = TopologyPort {
            level: Level::Root,
            above: None,
            dport: 0,
            host: "ACPI0017:00".to_owned(),
            dports: self.cxl.bridges.iter().enumerate().map(dport).collect(),
        };
        self.topology.ports.push(root);
        for index in 0..self.cxl.bridges.len() {
            let host = self.roots[index].clone();
            self.port(Level::Bridge, 0, index, host, index);
        }
    }

    /// Adds a bridge or switch, whose downstream ports have the addresses of `index`.
    fn port(&mut self, level: Level, above: usize, dport: usize, host: String, index: usize) -> usize {
        let names = self.addresses[index].dports.iter().enumerate();
        let dports = names.map(|(id, name)| Dport { name: name.clone(), alias: None, id: id as u64 });
        let dports = dports.collect();
        self.topology.ports.push(TopologyPort { level, above: Some(above), dport, host, dports });
        self.topology.ports.len() - 1
    }

    /// Returns the number of a port, which it gets now if it has none.
    fn number_of(&mut self, port: &CxlPort) -> usize {
        match port {
            CxlPort::Bridge(id) => {
                1 + self.cxl.bridges.iter().position(|bridge| bridge.id == *id).unwrap_or(0)
            }
            CxlPort::Switch(name) => {
                let index = self.cxl.switches.iter().position(|switch| switch.name == *name).unwrap_or(0);
                if let Some(number) = self.switches[index] {
                    return number;
                }
                let above = self.cxl.switches[index].above.clone();
                let number = self.number_of(&above);
                let dport = self.slot(&above, Below::Switch(index));
                let host = self.upstream[index].clone();
                let number = self.port(Level::Switch, number, dport, host, self.cxl.bridges.len() + index);
                self.switches[index] = Some(number);
                number
            }
        }
    }

    fn slot(&self, port: &CxlPort, below: Below) -> usize {
        self.below(port).iter().position(|one| *one == below).unwrap_or(0)
    }

    fn endpoint(&mut self, device: usize) {
        let above = self.cxl.devices[device].above.clone();
        let number = self.number_of(&above);
        let dport = self.slot(&above, Below::Device(device));
        let host = format!("mem{device}");
        let endpoint =
            TopologyPort { level: Level::Endpoint, above: Some(number), dport, host, dports: Vec::new() };
        self.topology.endpoints.push(self.topology.ports.len());
        self.topology.ports.push(endpoint);
    }
}
