//! `lode cxl`: the commands of cxl, on an emulated machine. On a real machine every command is left to cxl.

mod labels;
mod list;
mod memdev;
mod poison;
mod port;
mod region;
mod selection;
mod tried;

use crate::failure::Failure;
use crate::fields;
use crate::ndctl::{COMMANDS, COUNT, OUTPUT, SKIPPED};
use crate::output::Output;
use crate::platform::{MachineLocation, real};
use clap::{Args, Subcommand};
use lode_platform::Purpose;

/// The fields of listings and of commands that print the region that they made.
const OUTPUT_FIELDS: &[(&str, &str)] = &[OUTPUT, COMMANDS];
const MADE_FIELDS: &[(&str, &str)] = &[COUNT, OUTPUT, COMMANDS];
/// The fields of commands that act on several things.
const COUNT_FIELDS: &[(&str, &str)] = &[COUNT, SKIPPED, COMMANDS];
/// The fields of commands that print the things that they changed.
const CHANGED_FIELDS: &[(&str, &str)] = &[COUNT, OUTPUT, SKIPPED, COMMANDS];
const WRITTEN_FIELDS: &[(&str, &str)] = &[COUNT, COMMANDS];
const VERSION_FIELDS: &[(&str, &str)] =
    &[("version", "the version of cxl whose output the machine has, as 76"), COMMANDS];

/// Arguments of `lode cxl`.
#[derive(Args, Debug)]
pub(crate) struct Cxl {
    #[command(flatten)]
    location: MachineLocation,
    #[command(subcommand)]
    command: CxlCommand,
}

/// The commands of `lode cxl`.
#[derive(Debug, Subcommand)]
enum CxlCommand {
    /// List devices, ports, decoders and regions as JSON
    #[command(disable_version_flag = true, after_long_help = fields::help(OUTPUT_FIELDS))]
    List(list::List),
    /// Create a region of devices in an address window, until the next start
    #[command(after_long_help = fields::help(MADE_FIELDS))]
    CreateRegion(region::Create),
    /// Destroy regions; those of a port in the reverse order of their creation
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    DestroyRegion(region::Destroy),
    /// Enable regions
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    EnableRegion(region::RegionNames),
    /// Disable regions
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    DisableRegion(region::RegionNames),
    /// Enable devices
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    EnableMemdev(memdev::Enable),
    /// Disable devices until the next start; regions of them lose their decoders
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    DisableMemdev(memdev::Disable),
    /// Enable ports
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    EnablePort(port::Enable),
    /// Disable ports until the next start, and the devices below them
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    DisablePort(port::Disable),
    /// Disable a bus until the next start, and all below it
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    DisableBus(port::DisableBus),
    /// Reserve memory of devices for a decoder, until the next start
    #[command(after_long_help = fields::help(CHANGED_FIELDS))]
    ReserveDpa(memdev::Reserve),
    /// Free memory of devices that decoders without a region hold
    #[command(after_long_help = fields::help(CHANGED_FIELDS))]
    FreeDpa(memdev::Free),
    /// Divide the capacity of devices into volatile and persistent memory, from the next start on
    #[command(after_long_help = fields::help(CHANGED_FIELDS))]
    SetPartition(memdev::SetPartition),
    /// Read the label areas of devices
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    ReadLabels(labels::Read),
    /// Replace the label area of a device, or a part of it
    #[command(after_long_help = fields::help(WRITTEN_FIELDS))]
    WriteLabels(labels::Write),
    /// Erase the label areas of devices
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    ZeroLabels(labels::Zero),
    /// Poison a line of 64 bytes of a device: it can't be read until it is cleared or written
    #[command(after_long_help = fields::help(WRITTEN_FIELDS))]
    InjectMediaPoison(poison::Poison),
    /// Clear the poison of a line of 64 bytes of a device, which is zeros afterwards
    #[command(after_long_help = fields::help(WRITTEN_FIELDS))]
    ClearMediaPoison(poison::Poison),
    /// Print the version of cxl that the machine has
    #[command(after_long_help = fields::help(VERSION_FIELDS))]
    Version,
}

pub(crate) fn run(cxl: &Cxl) -> Result<Output, Failure> {
    let location = &cxl.location;
    if location.is_real() {
        return Ok(real::tool_commands_output(&[real::same_tool_command("cxl")]));
    }
    match &cxl.command {
        CxlCommand::List(list) => list.run(location),
        CxlCommand::CreateRegion(create) => create.run(location),
        CxlCommand::DestroyRegion(destroy) => destroy.run(location),
        CxlCommand::EnableRegion(regions) => regions.set_enabled(location, true),
        CxlCommand::DisableRegion(regions) => regions.set_enabled(location, false),
        CxlCommand::EnableMemdev(enable) => enable.run(location),
        CxlCommand::DisableMemdev(disable) => disable.run(location),
        CxlCommand::EnablePort(enable) => enable.run(location),
        CxlCommand::DisablePort(disable) => disable.run(location),
        CxlCommand::DisableBus(disable) => disable.run(location),
        CxlCommand::ReserveDpa(reserve) => reserve.run(location),
        CxlCommand::FreeDpa(free) => free.run(location),
        CxlCommand::SetPartition(partition) => partition.run(location),
        CxlCommand::ReadLabels(read) => read.run(location),
        CxlCommand::WriteLabels(write) => write.run(location),
        CxlCommand::ZeroLabels(zero) => zero.run(location),
        CxlCommand::InjectMediaPoison(poison) => poison.inject(location),
        CxlCommand::ClearMediaPoison(poison) => poison.clear(location),
        CxlCommand::Version => version(location),
    }
}

/// Prints the version of the tool that the machine emulates. cxl has that of ndctl.
fn version(location: &MachineLocation) -> Result<Output, Failure> {
    let version = location.open(Purpose::ReadOnly)?.platform().machine.profile.ndctl;
    Ok(Output::text(format!("{version}\n")).with("version", version))
}
