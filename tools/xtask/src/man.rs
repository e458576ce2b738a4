//! The manual pages in `docs/man/`, which `lode` itself makes from the definition of its arguments. A test of `lode`
//! compares the files with its current output.

use crate::flavor::Flavor;
use crate::log::Log;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::{fs, io};

/// Makes the pages again. Returns true if that succeeded.
pub(crate) fn write(workspace: &Workspace) -> Result<bool> {
    let folder = workspace.root.join("docs/man");
    // Delete pages of commands that no longer exist.
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| folder.display().to_string());
        }
        _ => {}
    }
    let words = "run --locked --quiet --profile test --package lodestone-cli -- manual";
    let cargo = Flavor::Checked.cargo(workspace, words);
    Ok(cargo.argument(folder).run(Log::default())?.success)
}
