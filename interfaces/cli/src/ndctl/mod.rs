//! `lode ndctl` and `lode daxctl`: the commands of ndctl and daxctl, on an emulated machine. On a real machine they
//! only list; every other command is left to those tools.

mod labels;
mod list;
mod media;
mod namespace;
mod region;

use crate::answer::Answer;
use crate::failure::Failure;
use crate::fields;
use crate::platform::{Place, real};
use clap::{Args, Subcommand};

const OUTPUT: (&str, &str) = ("output", "what is printed without --json");
const COMMANDS: (&str, &str) = ("commands", "instead, if the machine is a real one: what to run");
/// The fields of listings.
const LISTED: &[(&str, &str)] = &[OUTPUT];
/// The fields of commands that print the things that they made or found.
const PRINTED: &[(&str, &str)] = &[OUTPUT, COMMANDS];
/// The fields of commands that act on several things.
const COUNTED: &[(&str, &str)] = &[("count", "to how many it was done"), COMMANDS];

/// Arguments of `lode ndctl`.
#[derive(Args, Debug)]
pub(crate) struct Ndctl {
    #[command(flatten)]
    place: Place,
    #[command(subcommand)]
    verb: NdctlVerb,
}

/// The verbs of `lode ndctl`.
#[derive(Debug, Subcommand)]
enum NdctlVerb {
    /// List modules, regions and namespaces as JSON
    #[command(disable_version_flag = true, after_long_help = fields::help(LISTED))]
    List(list::List),
    /// Create a namespace, or reconfigure one
    #[command(after_long_help = fields::help(PRINTED))]
    CreateNamespace(namespace::Create),
    /// Destroy namespaces
    #[command(after_long_help = fields::help(COUNTED))]
    DestroyNamespace(namespace::Destroy),
    /// Enable namespaces
    #[command(after_long_help = fields::help(COUNTED))]
    EnableNamespace(namespace::Names),
    /// Disable namespaces until the next start
    #[command(after_long_help = fields::help(COUNTED))]
    DisableNamespace(namespace::Names),
    /// Check the tables (BTT) that make the sectors of a namespace atomic
    #[command(after_long_help = fields::help(COUNTED))]
    CheckNamespace(namespace::Names),
    /// Enable regions
    #[command(after_long_help = fields::help(COUNTED))]
    EnableRegion(region::Regions),
    /// Disable regions until the next start
    #[command(after_long_help = fields::help(COUNTED))]
    DisableRegion(region::Regions),
    /// Initialize the label areas of modules
    #[command(after_long_help = fields::help(COUNTED))]
    InitLabels(labels::Init),
    /// Erase the label areas of modules
    #[command(after_long_help = fields::help(COUNTED))]
    ZeroLabels(labels::Modules),
    /// Read the label area of a module
    #[command(after_long_help = fields::help(COUNTED))]
    ReadLabels(labels::Read),
    /// Replace the label area of a module
    #[command(after_long_help = fields::help(COUNTED))]
    WriteLabels(labels::Write),
    /// Inject media errors into a namespace, or remove them
    #[command(after_long_help = fields::help(PRINTED))]
    InjectError(media::Inject),
    /// Search modules for media errors
    #[command(after_long_help = fields::help(PRINTED))]
    StartScrub(media::Buses),
    /// Wait until the search of modules has ended
    #[command(after_long_help = fields::help(PRINTED))]
    WaitScrub(media::Buses),
}

impl NdctlVerb {
    /// Returns the ndctl command for a real machine, or `None` for a command that lode runs itself.
    fn for_tools(&self) -> Option<String> {
        match self {
            NdctlVerb::List(_) => None,
            NdctlVerb::InjectError(media::Inject { clear: true, name, .. }) => {
                Some(real::command("ndctl", ["clear-errors".to_owned(), name.clone()]))
            }
            _ => Some(real::same_words("ndctl")),
        }
    }
}

pub(crate) fn run(ndctl: &Ndctl) -> Result<Answer, Failure> {
    let place = &ndctl.place;
    if let (true, Some(command)) = (place.is_real(), ndctl.verb.for_tools()) {
        return Ok(real::left_to_tools(&[command]));
    }
    match &ndctl.verb {
        NdctlVerb::List(list) => list.run(place),
        NdctlVerb::CreateNamespace(create) => create.run(place),
        NdctlVerb::DestroyNamespace(destroy) => destroy.run(place),
        NdctlVerb::EnableNamespace(names) => names.switch(place, true),
        NdctlVerb::DisableNamespace(names) => names.switch(place, false),
        NdctlVerb::CheckNamespace(names) => names.check(place),
        NdctlVerb::EnableRegion(regions) => regions.switch(place, true),
        NdctlVerb::DisableRegion(regions) => regions.switch(place, false),
        NdctlVerb::InitLabels(init) => init.run(place),
        NdctlVerb::ZeroLabels(modules) => modules.zero(place),
        NdctlVerb::ReadLabels(read) => read.run(place),
        NdctlVerb::WriteLabels(write) => write.run(place),
        NdctlVerb::InjectError(inject) => inject.run(place),
        NdctlVerb::StartScrub(buses) => buses.scrub(place),
        NdctlVerb::WaitScrub(buses) => buses.wait(place),
    }
}

/// Arguments of `lode daxctl`.
#[derive(Args, Debug)]
pub(crate) struct Daxctl {
    #[command(flatten)]
    place: Place,
    #[command(subcommand)]
    verb: DaxctlVerb,
}

/// The verbs of `lode daxctl`.
#[derive(Debug, Subcommand)]
enum DaxctlVerb {
    /// List character devices as JSON
    #[command(after_long_help = fields::help(LISTED))]
    List(list::DaxList),
}

pub(crate) fn run_daxctl(daxctl: &Daxctl) -> Result<Answer, Failure> {
    let DaxctlVerb::List(list) = &daxctl.verb;
    list.run(&daxctl.place)
}

/// Returns the answer of a command that prints `text`.
fn printed(text: String) -> Answer {
    Answer::text(text.clone()).with("output", text)
}

/// Returns the answer that counts the changed things, in ndctl's words.
fn counted(done: &str, count: usize, thing: &str) -> Answer {
    let plural = if count == 1 { "" } else { "s" };
    Answer::text(format!("{done} {count} {thing}{plural}\n")).with("count", count)
}

/// Parses the number in a name like nmem3, or a number alone.
fn number<T: std::str::FromStr>(name: &str, prefix: &str) -> Result<T, Failure> {
    let digits = name.strip_prefix(prefix).unwrap_or(name);
    digits
        .parse()
        .map_err(|_| Failure::bad_usage(format!("{name} is not the name of a {prefix}, as {prefix}0")))
}
