//! `lode ndctl` and `lode daxctl`: the words of ndctl and daxctl, on an emulated machine.

mod labels;
mod list;
mod namespace;
mod region;
mod size;

use crate::answer::Answer;
use crate::failure::Failure;
use crate::platform::Place;
use clap::{Args, Subcommand};

/// What ndctl is asked of which machine.
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
    #[command(disable_version_flag = true)]
    List(list::List),
    /// Make a namespace, or something else of one
    CreateNamespace(namespace::Create),
    /// Unmake namespaces
    DestroyNamespace(namespace::Destroy),
    /// Switch namespaces on
    EnableNamespace(namespace::Names),
    /// Switch namespaces off, until the next start
    DisableNamespace(namespace::Names),
    /// Look at the block that makes sectors of a namespace atomic
    CheckNamespace(namespace::Names),
    /// Switch regions on
    EnableRegion(region::Regions),
    /// Switch regions off, until the next start
    DisableRegion(region::Regions),
    /// Make the label areas of modules anew
    InitLabels(labels::Init),
    /// Make the label areas of modules blank
    ZeroLabels(labels::Modules),
    /// Copy the label area of a module out
    ReadLabels(labels::Read),
    /// Replace the label area of a module
    WriteLabels(labels::Write),
}

pub(crate) fn run(ndctl: &Ndctl) -> Result<Answer, Failure> {
    let place = &ndctl.place;
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
    }
}

/// What daxctl is asked of which machine.
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
    List(list::DaxList),
}

pub(crate) fn run_daxctl(daxctl: &Daxctl) -> Result<Answer, Failure> {
    let DaxctlVerb::List(list) = &daxctl.verb;
    list.run(&daxctl.place)
}

/// What a command printed.
fn printed(text: String) -> Answer {
    Answer::text(text.clone()).with("output", text)
}

/// How many things were done, in ndctl's words.
fn counted(done: &str, count: usize, thing: &str) -> Answer {
    let plural = if count == 1 { "" } else { "s" };
    Answer::text(format!("{done} {count} {thing}{plural}\n")).with("count", count)
}

/// The number in a name like nmem3, or the number itself.
fn number<T: std::str::FromStr>(name: &str, prefix: &str) -> Result<T, Failure> {
    let digits = name.strip_prefix(prefix).unwrap_or(name);
    digits
        .parse()
        .map_err(|_| Failure::bad_usage(format!("{name} is not the name of a {prefix}, as {prefix}0")))
}
