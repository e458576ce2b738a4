//! `lode platform template`.

use super::source::{NOTES, RealMachine};
use crate::failure::Failure;
use crate::fields;
use crate::output::Output;
use clap::Args;
use lode_platform::machine::{FORM, FormSection, template};

const FIELDS: &[(&str, &str)] =
    &[("machine", "the machine file"), ("notes", "with a real machine: what was assumed or left out")];

/// Print a machine file with comments, or that of a real machine
#[derive(Args, Debug)]
#[command(after_long_help = help())]
pub(crate) struct Template {
    #[command(flatten)]
    source: RealMachine,
    /// Name of the machine
    #[arg(long, default_value = "my-server", requires = "RealMachine")]
    name: String,
}

/// Returns the form of machine files, for the manual page.
fn help() -> String {
    let sections = FORM.map(|section| {
        let title = if section.header.is_empty() { "Fields before all sections" } else { section.header };
        let value = |field: &lode_platform::machine::FormField| match field.optional {
            true => format!("{} May be left out, as {}.", field.text, field.value),
            false => format!("{} Example: {}.", field.text, field.value),
        };
        let lines: Vec<(&str, String)> =
            section.fields.iter().map(|field| (field.name, value(field))).collect();
        let lines: Vec<(&str, &str)> = lines.iter().map(|(name, text)| (*name, text.as_str())).collect();
        fields::items(title, &[meaning(&section), lines].concat())
    });
    format!(
        "The file is TOML. Sizes are numbers with B, KiB, MiB, GiB or TiB. `lode platform init FILE.toml` checks\n\
         it, and names line and column of a mistake.\n\n{NOTES}\n\n{}\n{}",
        sections.join("\n"),
        fields::help(FIELDS)
    )
}

/// Returns the meaning of a section as its first item.
fn meaning(section: &FormSection) -> Vec<(&'static str, &'static str)> {
    vec![(if section.optional { "optional" } else { "required" }, section.text)]
}

pub(crate) fn run(template_of: &Template) -> Result<Output, Failure> {
    let found = template_of.source.discover(&template_of.name)?;
    let (text, notes) = match &found {
        Some(discovered) => (discovered.text(), discovered.notes.clone()),
        None => (template(), Vec::new()),
    };
    let output = Output::text(text.clone()).with("machine", text);
    Ok(if found.is_some() { output.with("notes", notes) } else { output })
}
