//! `lode ndctl list`.

use super::listing_output;
use super::namespace::ModeOption;
use crate::failure::Failure;
use crate::output::Output;
use crate::platform::{MachineLocation, OpenedMachine};
use clap::{ArgAction, Args, ValueEnum};
use lode_platform::ndctl::{self, Included, Inventory, ListFilter, ListRequest, RegionType};

#[derive(Args, Debug)]
pub(super) struct List {
    /// Include buses
    #[arg(short = 'B', long)]
    buses: bool,
    /// Include modules
    #[arg(short = 'D', long)]
    dimms: bool,
    /// Include regions
    #[arg(short = 'R', long)]
    regions: bool,
    /// Include namespaces; the default without any of these options
    #[arg(short = 'N', long)]
    namespaces: bool,
    /// Include the health that modules report
    #[arg(short = 'H', long)]
    health: bool,
    /// Include the firmware of modules; real modules tell it to root only
    #[arg(short = 'F', long)]
    firmware: bool,
    /// Include the sector sizes and alignments that regions support
    #[arg(short = 'C', long)]
    capabilities: bool,
    /// Include character devices
    #[arg(short = 'X', long)]
    device_dax: bool,
    /// Include each range that is known to be unreadable
    #[arg(short = 'M', long)]
    media_errors: bool,
    /// Include disabled devices
    #[arg(short, long)]
    idle: bool,
    /// Include disabled devices, but for namespaces without a size
    #[arg(short, long)]
    configured: bool,
    /// Print sizes in human-readable form
    #[arg(short = 'u', long)]
    human: bool,
    /// Include more; twice for buses, modules and regions; three times for everything
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
    /// List only this bus
    #[arg(short, long, value_name = "BUS")]
    bus: Option<String>,
    /// List only this module
    #[arg(short, long, value_name = "DIMM")]
    dimm: Option<String>,
    /// List only this region
    #[arg(short, long, value_name = "REGION")]
    region: Option<String>,
    /// List only this namespace
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// List only namespaces of this mode
    #[arg(short, long, value_name = "MODE", ignore_case = true)]
    mode: Option<ModeOption>,
    /// List only regions of this type, and their namespaces
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    kind: Option<TypeOption>,
    /// List only devices of this NUMA node, or of all
    #[arg(short = 'U', long, value_name = "NODE", value_parser = numa_node, allow_negative_numbers = true)]
    numa_node: Option<NumaNode>,
}

/// The value of `--type`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum TypeOption {
    /// Memory that is mapped
    Pmem,
    /// Block windows, which no kernel since 6.0 has
    Blk,
}

/// The value of `--numa-node`.
#[derive(Clone, Copy, Debug)]
enum NumaNode {
    All,
    Node(i64),
}

/// Parses a NUMA node in the notation of C.
fn numa_node(word: &str) -> Result<NumaNode, String> {
    if word == "all" {
        return Ok(NumaNode::All);
    }
    let (digits, sign) = word.strip_prefix('-').map_or((word, 1), |digits| (digits, -1));
    let node = ndctl::device_number(digits, "node").filter(|_| !digits.starts_with("node"));
    let node = node.ok_or_else(|| format!("invalid numa_node: '{word}'"))?;
    Ok(NumaNode::Node(sign * i64::from(node)))
}

impl List {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let included = Included {
            buses: self.buses,
            modules: self.dimms,
            regions: self.regions,
            namespaces: self.namespaces,
            health: self.health,
            firmware: self.firmware,
            capabilities: self.capabilities,
            dax: self.device_dax,
            media_errors: self.media_errors,
            idle: self.idle,
            configured: self.configured,
            verbose: self.verbose,
        };
        let filter = ListFilter {
            bus: self.bus.clone(),
            module: self.dimm.clone(),
            region: self.region.clone(),
            namespace: self.namespace.clone(),
            mode: self.mode.map(ModeOption::mode),
            region_type: self.kind.map(|kind| match kind {
                TypeOption::Pmem => RegionType::Pmem,
                TypeOption::Blk => RegionType::Blk,
            }),
            numa_node: match self.numa_node {
                Some(NumaNode::Node(node)) => Some(node),
                Some(NumaNode::All) | None => None,
            },
        };
        let request = ListRequest { included, filter, human: self.human };
        Ok(listing_output("", &inventory(location)?.list(&request)))
    }
}

/// Returns the inventory of an emulated or real machine.
pub(crate) fn inventory(location: &MachineLocation) -> Result<Inventory, Failure> {
    Ok(match location.open_read_only()? {
        OpenedMachine::Emulated(directory) => ndctl::inventory(directory.platform()),
        OpenedMachine::Real(sysfs) => sysfs.inventory(),
    })
}
