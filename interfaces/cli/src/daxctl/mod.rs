//! `lode daxctl`: the commands of daxctl, on an emulated machine. On a real machine they only list; every other command
//! is left to daxctl.

mod layout;
mod lifetime;
mod list;
mod memory;
mod reconfigure;
mod selection;
mod tried;

use crate::failure::Failure;
use crate::fields;
use crate::ndctl::{COMMANDS, COUNT, OUTPUT, SKIPPED};
use crate::output::Output;
use crate::platform::{MachineLocation, real};
use clap::{Args, Subcommand};

const NOTES: (&str, &str) = ("notes", "what was done already, a text for each");
/// The fields of commands that act on several devices.
const COUNT_FIELDS: &[(&str, &str)] = &[COUNT, SKIPPED, NOTES, COMMANDS];
/// The fields of commands that print the devices that they changed.
const DEVICE_FIELDS: &[(&str, &str)] = &[COUNT, OUTPUT, SKIPPED, NOTES, COMMANDS];

/// Arguments of `lode daxctl`.
#[derive(Args, Debug)]
pub(crate) struct Daxctl {
    #[command(flatten)]
    location: MachineLocation,
    #[command(subcommand)]
    command: DaxctlCommand,
}

/// The commands of `lode daxctl`.
#[derive(Debug, Subcommand)]
enum DaxctlCommand {
    /// List character devices as JSON
    #[command(after_long_help = fields::help(&[OUTPUT]))]
    List(list::List),
    /// Change the mode of devices, or the size and alignment of disabled ones, until the next start
    #[command(after_long_help = fields::help(DEVICE_FIELDS))]
    ReconfigureDevice(reconfigure::Reconfigure),
    /// Take the memory of devices in mode system-ram online
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    OnlineMemory(memory::Online),
    /// Take the memory of devices in mode system-ram offline
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    OfflineMemory(memory::Offline),
    /// Create devices in memory that firmware reserves, until the next start
    #[command(after_long_help = fields::help(DEVICE_FIELDS))]
    CreateDevice(lifetime::Create),
    /// Destroy devices of memory that firmware reserves
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    DestroyDevice(lifetime::Destroy),
    /// Disable devices in mode devdax until the next start
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    DisableDevice(lifetime::Enable),
    /// Enable devices in mode devdax
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    EnableDevice(lifetime::Enable),
}

pub(crate) fn run(daxctl: &Daxctl) -> Result<Output, Failure> {
    let location = &daxctl.location;
    match &daxctl.command {
        DaxctlCommand::List(list) => list.run(location),
        _ if location.is_real() => Ok(real::tool_commands_output(&[real::same_tool_command("daxctl")])),
        DaxctlCommand::ReconfigureDevice(reconfigure) => reconfigure.run(location),
        DaxctlCommand::OnlineMemory(online) => online.run(location),
        DaxctlCommand::OfflineMemory(offline) => offline.run(location),
        DaxctlCommand::CreateDevice(create) => create.run(location),
        DaxctlCommand::DestroyDevice(destroy) => destroy.run(location),
        DaxctlCommand::DisableDevice(devices) => devices.run(location, false),
        DaxctlCommand::EnableDevice(devices) => devices.run(location, true),
    }
}
