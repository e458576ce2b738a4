//! Manual pages and completions, from the definition of the arguments.

use crate::answer::Answer;
use crate::arguments::Arguments;
use crate::failure::Failure;
use clap::CommandFactory;
use clap_complete::Shell;
use std::fs;
use std::path::Path;

/// Prints the completions for a shell.
pub(crate) fn print_completions(shell: Shell) -> Result<Answer, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "lode", &mut script);
    let text = String::from_utf8_lossy(&script).into_owned();
    Ok(Answer::text(script).with("script", text))
}

/// Writes a page for each command: lode.1, lode-pool.1, lode-pool-create.1, ...
pub(crate) fn write_pages(folder: &Path) -> Result<Answer, Failure> {
    let written =
        fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Arguments::command(), folder));
    written.map_err(|error| Failure::io("writing manual pages", folder, &error))?;
    Ok(Answer::silent())
}
