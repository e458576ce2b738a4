//! `lode cxl list`.

use crate::failure::Failure;
use crate::ndctl::listing_output;
use crate::output::Output;
use crate::platform::MachineLocation;
use clap::{ArgAction, Args};
use lode_platform::Purpose;
use lode_platform::cxl::{self, CxlListRequest};

#[derive(Args, Debug)]
pub(super) struct List {
    /// Only these devices, as mem0, 0 or their PCI address, with commas between
    #[arg(short, long, value_name = "MEMDEV")]
    memdev: Option<String>,
    /// Only devices of these serial numbers
    #[arg(short, long, value_name = "SERIAL")]
    serial: Option<String>,
    /// Include devices; with regions the default without any of these options
    #[arg(short = 'M', long)]
    memdevs: bool,
    /// Only these buses, as root0, 0 or ACPI.CXL
    #[arg(short, long, value_name = "BUS")]
    bus: Option<String>,
    /// Include buses
    #[arg(short = 'B', long)]
    buses: bool,
    /// Only these ports and those below them, as port1, root, switch, endpoint or their PCI device
    #[arg(short, long, value_name = "PORT")]
    port: Option<String>,
    /// Include ports: host bridges and switches
    #[arg(short = 'P', long)]
    ports: bool,
    /// Only the ports that --port names, without those below
    #[arg(short = 'S', long, requires = "port")]
    single: bool,
    /// Only these endpoints, as endpoint2 or mem0
    #[arg(short, long, value_name = "ENDPOINT")]
    endpoint: Option<String>,
    /// Include endpoints: the ports of devices
    #[arg(short = 'E', long)]
    endpoints: bool,
    /// Only these decoders, as decoder0.0, root, switch or endpoint, and what is below windows among them
    #[arg(short, long, value_name = "DECODER")]
    decoder: Option<String>,
    /// Include decoders
    #[arg(short = 'D', long)]
    decoders: bool,
    /// Include the ports below decoders, ports and buses, and the devices of regions
    #[arg(short = 'T', long)]
    targets: bool,
    /// Only these regions, as region0
    #[arg(short, long, value_name = "REGION")]
    region: Option<String>,
    /// Include regions
    #[arg(short = 'R', long)]
    regions: bool,
    /// Include disabled objects, and decoders that decode nothing
    #[arg(short, long)]
    idle: bool,
    /// Print sizes and addresses in human-readable form
    #[arg(short = 'u', long)]
    human: bool,
    /// Include the health of devices
    #[arg(short = 'H', long)]
    health: bool,
    /// Include the division of devices into volatile and persistent memory
    #[arg(short = 'I', long)]
    partition: bool,
    /// Include the alerts that devices are set to give
    #[arg(short = 'A', long)]
    alert_config: bool,
    /// Include the poisoned lines of devices and regions, with their address on the device or offset in the region
    #[arg(short = 'L', long)]
    media_errors: bool,
    /// Include more; twice for disabled objects; three times for everything
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
    /// Accepted for compatibility with cxl; without effect
    #[arg(long)]
    debug: bool,
}

impl List {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let request = CxlListRequest {
            memdevs: self.memdevs,
            buses: self.buses,
            ports: self.ports,
            endpoints: self.endpoints,
            decoders: self.decoders,
            regions: self.regions,
            targets: self.targets,
            idle: self.idle,
            health: self.health,
            partition: self.partition,
            alerts: self.alert_config,
            media_errors: self.media_errors,
            single: self.single,
            human: self.human,
            verbose: self.verbose,
            memdev: self.memdev.clone(),
            serial: self.serial.clone(),
            bus: self.bus.clone(),
            port: self.port.clone(),
            endpoint: self.endpoint.clone(),
            decoder: self.decoder.clone(),
            region: self.region.clone(),
        };
        let directory = location.open(Purpose::ReadOnly)?;
        Ok(listing_output("", &cxl::inventory(directory.platform()).list(&request)))
    }
}
