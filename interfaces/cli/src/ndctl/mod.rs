//! `lode ndctl`: the commands of ndctl, on an emulated machine. On a real machine they only list and monitor; every other
//! command is left to ndctl.

mod base;
mod firmware;
mod info_block;
mod labels;
pub(crate) mod list;
mod media;
mod modules;
mod monitor;
mod namespace;
mod region;
mod security;
mod smart;

use crate::failure::Failure;
use crate::fields;
use crate::output::Output;
use crate::platform::{MachineLocation, real};
use clap::{Args, Subcommand};
use lode_platform::{Purpose, ndctl};
use serde_json::Value;

pub(crate) const OUTPUT: (&str, &str) =
    ("output", "the JSON that is printed without --json; an empty array if nothing is printed");
pub(crate) const COUNT: (&str, &str) = ("count", "how many were changed or checked");
/// The field with the refusals of a command that goes on after one.
pub(crate) const SKIPPED: (&str, &str) = ("skipped", "why others were skipped, a text for each");
pub(crate) const COMMANDS: (&str, &str) =
    ("commands", "instead, if the machine is a real one: the commands to run");
/// The fields of listings.
const LIST_FIELDS: &[(&str, &str)] = &[OUTPUT];
/// The fields of commands that print the things that they made or found.
const OUTPUT_FIELDS: &[(&str, &str)] = &[OUTPUT, COMMANDS];
/// The fields of commands that act on several things.
const COUNT_FIELDS: &[(&str, &str)] = &[COUNT, COMMANDS];
/// The fields of commands that act on several things and print them.
const READ_FIELDS: &[(&str, &str)] = &[COUNT, ("output", "the JSON of what was read or changed"), COMMANDS];
/// The fields of commands that skip the things that they refuse, and print the others.
const UPDATED_FIELDS: &[(&str, &str)] =
    &[COUNT, SKIPPED, ("output", "the JSON of what was updated"), COMMANDS];
/// The fields of the version.
const VERSION_FIELDS: &[(&str, &str)] =
    &[("version", "the version of ndctl whose output the machine has, as 76"), COMMANDS];
/// The fields of commands that skip the things that they refuse.
const SKIPPED_FIELDS: &[(&str, &str)] = &[COUNT, SKIPPED, COMMANDS];

/// The fields of each notification of a monitor.
const MONITOR_FIELDS: &[(&str, &str)] = &[
    ("timestamp", "seconds since the start of 1970, with nanoseconds"),
    ("pid", "the process that monitors"),
    ("event", "the observed events: true if one came since the last notification, or holds"),
    ("dimm", "the module and its health, as list -DH prints it"),
];
/// The fields of `load-keys`.
const KEY_FIELDS: &[(&str, &str)] =
    &[("count", "how many keys were loaded"), ("unlocked", "the modules that were unlocked"), COMMANDS];

/// Arguments of `lode ndctl`.
#[derive(Args, Debug)]
pub(crate) struct Ndctl {
    #[command(flatten)]
    location: MachineLocation,
    #[command(subcommand)]
    command: NdctlCommand,
}

/// The commands of `lode ndctl`.
#[derive(Debug, Subcommand)]
enum NdctlCommand {
    /// List modules, regions and namespaces as JSON
    #[command(disable_version_flag = true, after_long_help = fields::help(LIST_FIELDS))]
    List(list::List),
    /// Create a namespace, or reconfigure one
    #[command(after_long_help = fields::help(OUTPUT_FIELDS))]
    CreateNamespace(namespace::Create),
    /// Destroy namespaces
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    DestroyNamespace(namespace::Destroy),
    /// Enable namespaces
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    EnableNamespace(namespace::NamespaceNames),
    /// Disable namespaces until the next start
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    DisableNamespace(namespace::NamespaceNames),
    /// Check the tables (BTT) that make the sectors of a namespace atomic
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    CheckNamespace(namespace::Check),
    /// Enable regions
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    EnableRegion(region::RegionNames),
    /// Disable regions until the next start
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    DisableRegion(region::RegionNames),
    /// Initialize the label areas of modules
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    InitLabels(labels::Init),
    /// Erase the label areas of modules
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    ZeroLabels(labels::Zero),
    /// Check that the label areas of modules have an index block
    #[command(after_long_help = fields::help(SKIPPED_FIELDS))]
    CheckLabels(modules::ModuleNames),
    /// Enable modules
    #[command(after_long_help = fields::help(SKIPPED_FIELDS))]
    EnableDimm(modules::ModuleNames),
    /// Disable modules until the next start
    #[command(after_long_help = fields::help(SKIPPED_FIELDS))]
    DisableDimm(modules::ModuleNames),
    /// Read the label areas of modules
    #[command(after_long_help = fields::help(READ_FIELDS))]
    ReadLabels(labels::Read),
    /// Replace the label area of a module
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    WriteLabels(labels::Write),
    /// Read the info blocks of namespaces, which state their modes
    #[command(after_long_help = fields::help(READ_FIELDS))]
    ReadInfoblock(info_block::Read),
    /// Write the info block of an fsdax or devdax namespace, valid or not
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    WriteInfoblock(info_block::Write),
    /// Inject media errors into a namespace, or remove them
    #[command(after_long_help = fields::help(OUTPUT_FIELDS))]
    InjectError(media::Inject),
    /// Clear the media errors in the data of a namespace; the content of these sectors is lost
    #[command(after_long_help = fields::help(READ_FIELDS))]
    ClearErrors(media::Clear),
    /// Inject values into the health reports of a module, or set their thresholds and alarms
    #[command(after_long_help = fields::help(OUTPUT_FIELDS))]
    InjectSmart(smart::Inject),
    /// Search modules for media errors
    #[command(after_long_help = fields::help(OUTPUT_FIELDS))]
    StartScrub(media::BusNames),
    /// Wait until the search of modules has ended
    #[command(after_long_help = fields::help(OUTPUT_FIELDS))]
    WaitScrub(media::BusNames),
    /// Set up random passphrases of modules, which lock them at each start
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    SetupPassphrase(security::Setup),
    /// Replace passphrases of modules by new ones
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    UpdatePassphrase(security::Update),
    /// Remove passphrases of modules
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    RemovePassphrase(security::Remove),
    /// Refuse changes of security until the next start
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    FreezeSecurity(security::Freeze),
    /// Erase or overwrite modules; their data is lost
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    SanitizeDimm(security::Sanitize),
    /// Wait until modules have overwritten their media
    #[command(after_long_help = fields::help(COUNT_FIELDS))]
    WaitOverwrite(security::Wait),
    /// Load keys into the kernel's keyring, and unlock the modules that have theirs
    #[command(after_long_help = fields::help(KEY_FIELDS))]
    LoadKeys(security::LoadKeys),
    /// Stage firmware on modules, and arm them for its activation
    #[command(after_long_help = fields::help(UPDATED_FIELDS))]
    UpdateFirmware(firmware::Update),
    /// Activate the staged firmware of armed modules
    #[command(after_long_help = fields::help(UPDATED_FIELDS))]
    ActivateFirmware(firmware::Activate),
    /// Print the events of modules as they come, until SIGINT or SIGTERM
    #[command(after_long_help = fields::help(MONITOR_FIELDS))]
    Monitor(monitor::Monitor),
    /// Print the version of ndctl that the machine has
    #[command(after_long_help = fields::help(VERSION_FIELDS))]
    Version,
}

impl NdctlCommand {
    /// Returns the ndctl command for a real machine, or `None` for a command that lode runs itself.
    fn tool_command(&self) -> Option<String> {
        match self {
            NdctlCommand::List(_) | NdctlCommand::Monitor(_) => None,
            NdctlCommand::ReadInfoblock(read) if read.is_of_file() => None,
            NdctlCommand::WriteInfoblock(write) if write.is_of_file() => None,
            NdctlCommand::InjectError(media::Inject { clear: true, name, .. }) => {
                Some(real::command("ndctl", ["clear-errors".to_owned(), name.clone()]))
            }
            _ => Some(real::same_tool_command("ndctl")),
        }
    }
}

pub(crate) fn run(ndctl: &Ndctl, json: bool) -> Result<Output, Failure> {
    let location = &ndctl.location;
    if let (true, Some(command)) = (location.is_real(), ndctl.command.tool_command()) {
        return Ok(real::tool_commands_output(&[command]));
    }
    match &ndctl.command {
        NdctlCommand::List(list) => list.run(location),
        NdctlCommand::CreateNamespace(create) => create.run(location),
        NdctlCommand::DestroyNamespace(destroy) => destroy.run(location),
        NdctlCommand::EnableNamespace(names) => names.set_enabled(location, true),
        NdctlCommand::DisableNamespace(names) => names.set_enabled(location, false),
        NdctlCommand::CheckNamespace(check) => check.run(location),
        NdctlCommand::EnableRegion(regions) => regions.set_enabled(location, true),
        NdctlCommand::DisableRegion(regions) => regions.set_enabled(location, false),
        NdctlCommand::InitLabels(init) => init.run(location),
        NdctlCommand::ZeroLabels(zero) => zero.run(location),
        NdctlCommand::CheckLabels(modules) => modules.check_labels(location),
        NdctlCommand::EnableDimm(modules) => modules.set_enabled(location, true),
        NdctlCommand::DisableDimm(modules) => modules.set_enabled(location, false),
        NdctlCommand::ReadLabels(read) => read.run(location),
        NdctlCommand::WriteLabels(write) => write.run(location),
        NdctlCommand::ReadInfoblock(read) => read.run(location),
        NdctlCommand::WriteInfoblock(write) => write.run(location),
        NdctlCommand::InjectError(inject) => inject.run(location),
        NdctlCommand::ClearErrors(clear) => clear.run(location),
        NdctlCommand::InjectSmart(inject) => inject.run(location),
        NdctlCommand::StartScrub(buses) => buses.scrub(location),
        NdctlCommand::WaitScrub(buses) => buses.wait(location),
        NdctlCommand::SetupPassphrase(setup) => setup.run(location),
        NdctlCommand::UpdatePassphrase(update) => update.run(location),
        NdctlCommand::RemovePassphrase(remove) => remove.run(location),
        NdctlCommand::FreezeSecurity(freeze) => freeze.run(location),
        NdctlCommand::SanitizeDimm(sanitize) => sanitize.run(location),
        NdctlCommand::WaitOverwrite(wait) => wait.run(location),
        NdctlCommand::LoadKeys(load) => load.run(location),
        NdctlCommand::UpdateFirmware(update) => update.run(location),
        NdctlCommand::ActivateFirmware(activate) => activate.run(location),
        NdctlCommand::Monitor(monitor) => monitor.run(location, json),
        NdctlCommand::Version => version(location),
    }
}

/// Prints the version of the tool that the machine emulates.
fn version(location: &MachineLocation) -> Result<Output, Failure> {
    let version = location.open(Purpose::ReadOnly)?.platform().machine.profile.ndctl;
    Ok(Output::text(format!("{version}\n")).with("version", version))
}

/// Returns the output of a command that prints `listing`, which is JSON or nothing, after a `notice` for people.
pub(crate) fn listing_output(notice: &str, listing: &str) -> Output {
    Output::text(format!("{notice}{listing}")).with("output", listing_value(listing))
}

/// Returns the content of a listing as ndctl prints them: arrays, which make one, or an object.
pub(crate) fn listing_value(listing: &str) -> Value {
    let parts = serde_json::Deserializer::from_str(listing).into_iter::<Value>();
    let parts: Result<Vec<Value>, _> = parts.collect();
    let mut parts = parts.expect("listings of this program are JSON");
    match parts.as_mut_slice() {
        [object] if object.is_object() => object.take(),
        arrays => {
            arrays.iter_mut().flat_map(|array| array.as_array_mut().map(std::mem::take)).flatten().collect()
        }
    }
}

/// Returns the line that counts the changed things, as ndctl prints it.
pub(crate) fn count_text(done: &str, count: usize, thing: &str) -> String {
    // ndctl takes no module for one.
    let plural = if count == 1 || (count == 0 && thing == "nmem") { "" } else { "s" };
    format!("{done} {count} {thing}{plural}\n")
}

/// Returns the output that counts the changed things.
fn count_output(done: &str, count: usize, thing: &str) -> Output {
    Output::text(count_text(done, count, thing)).with("count", count)
}

/// Parses a name like nmem3, or a number alone.
fn number(name: &str, prefix: &str) -> Result<u32, Failure> {
    ndctl::device_number(name, prefix)
        .ok_or_else(|| Failure::usage_error(format!("{name} is not the name of a {prefix}, as {prefix}0")))
}
