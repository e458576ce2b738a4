//! Manual pages and completions, from the definition of the arguments.

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::output::Output;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use roff::{Roff, bold, roman};
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Name of the section whose lines are commands, and are printed unchanged.
const EXAMPLES: &str = "Examples";

/// Prints the completions for a shell.
pub(crate) fn print_completions(shell: Shell) -> Result<Output, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut visible(&Arguments::command()), "lode", &mut script);
    let text = String::from_utf8_lossy(&script).into_owned();
    Ok(Output::text(script).with("script", text))
}

/// Returns the program's command without hidden subcommands, which clap_complete would offer.
fn visible(program: &Command) -> Command {
    let subcommands = program.get_subcommands().filter(|below| !below.is_hide_set());
    Command::new("lode")
        .version(env!("CARGO_PKG_VERSION"))
        .args(program.get_arguments())
        .subcommands(subcommands)
}

/// Writes a page for each command: lode.1, lode-pool.1, lode-pool-create.1, ...
pub(crate) fn write_pages(folder: &Path) -> Result<Output, Failure> {
    // The help of a command is its page.
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    let written = fs::create_dir_all(folder).and_then(|()| write_page(&command, folder));
    written.map_err(|error| Failure::io("writing manual pages", folder, &error))?;
    Ok(Output::empty())
}

/// Writes the pages of a command and of its subcommands.
fn write_page(command: &Command, folder: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_page(below, folder)?;
    }
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let help = command.get_after_long_help().or(command.get_after_help());
    write!(page, "{}", sections(&help.map(ToString::to_string).unwrap_or_default()).render())?;
    if command.get_version().is_some() {
        man.render_version_section(&mut page)?;
    }
    fs::write(folder.join(man.get_filename()), page)
}

/// Renders the end of a command's help as sections of a page. A paragraph with indented lines after a first line that
/// ends with a colon is a section of examples or items. An item is a name, two spaces and a text. Others are notes.
fn sections(help: &str) -> Roff {
    let mut page = Roff::new();
    let mut in_notes = false;
    for paragraph in help.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
        let (first, rest) = paragraph.split_once('\n').unwrap_or((paragraph, ""));
        match first.strip_suffix(':').filter(|_| rest.starts_with("  ")) {
            Some(head) => {
                page.control("SH", [head.to_uppercase().as_str()]);
                if head == EXAMPLES { examples(&mut page, rest) } else { items(&mut page, rest) }
            }
            None => {
                page.control(if in_notes { "PP" } else { "SH" }, if in_notes { None } else { Some("NOTES") });
                page.text([roman(paragraph.replace('\n', " "))]);
            }
        }
        in_notes = !rest.starts_with("  ");
    }
    page
}

fn examples(page: &mut Roff, lines: &str) {
    page.control("nf", []);
    for line in lines.lines() {
        page.text([roman(line.trim_start())]);
    }
    page.control("fi", []);
}

/// Renders items. Lines that are indented further continue the item above.
fn items(page: &mut Roff, lines: &str) {
    for line in lines.lines() {
        let name = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '));
        match name.and_then(|rest| rest.split_once("  ")) {
            Some((name, what)) => page.control("TP", []).text([bold(name)]).text([roman(what.trim_start())]),
            None => page.text([roman(line.trim())]),
        };
    }
}

#[cfg(test)]
mod test {
    use super::sections;

    #[test]
    fn help_renders_as_manual_sections() {
        let help = "A note\nof two lines.\n\nMore.\n\nExamples:\n  lode a  b\n\nExit status:\n  0    done\n  130  stopped,\n       halfway";
        let page = sections(help).render();
        let expected = ".SH NOTES\nA note of two lines.\n.PP\nMore.\n.SH EXAMPLES\n.nf\nlode a  b\n.fi\n\
                        .SH \"EXIT STATUS\"\n.TP\n\\fB0\\fR\ndone\n.TP\n\\fB130\\fR\nstopped,\nhalfway\n";
        assert!(page.ends_with(expected), "{page}");
    }
}
