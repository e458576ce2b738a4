//! The manual pages in `man/`, which `lode` itself makes from the definition of its arguments.

use crate::cargo::Cargo;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// Makes the pages anew; whether that could be done.
pub(crate) fn write(workspace: &Workspace) -> Result<bool> {
    make(workspace, &workspace.root.join("man"))
}

/// Whether the pages are those that the program makes now.
pub(crate) fn check(workspace: &Workspace) -> Result<bool> {
    let folder = workspace.target.join("man");
    if !make(workspace, &folder)? {
        return Ok(false);
    }
    let (made, kept) = (pages(&folder)?, pages(&workspace.root.join("man"))?);
    let differing: Vec<_> =
        made.keys().chain(kept.keys()).filter(|name| made.get(*name) != kept.get(*name)).collect();
    for name in &differing {
        println!("man/{name} is not what `lode` makes: run `cargo xtask man`");
    }
    Ok(differing.is_empty())
}

fn make(workspace: &Workspace, folder: &Path) -> Result<bool> {
    // Pages of commands that are gone must go.
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| folder.display().to_string());
        }
        _ => {}
    }
    // The profile of the tests, whose dependencies are built already.
    let cargo = Cargo::stable(workspace, "run --locked --quiet --profile test --package lode -- manual");
    Ok(cargo.argument(folder).run()?.success)
}

/// The text of each page, by its name.
fn pages(folder: &Path) -> Result<BTreeMap<String, String>> {
    let mut pages = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        pages.insert(name, fs::read_to_string(entry.path())?);
    }
    Ok(pages)
}
