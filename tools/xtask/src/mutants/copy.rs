//! A copy of the workspace in which functions have mutants.

use super::list::Mutant;
use super::split::{Functions, SWITCH};
use anyhow::{Context, Result};
use ignore::WalkBuilder;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The source that gets the function to choose a mutant.
const SWITCH_FILE: &str = "formats/layout/src/bug.rs";
/// The folder of a workspace of its own, which is not copied.
const EXCLUDED_FOLDER: &str = "tools/bench";
/// Setting of the crates of the copy that those of the workspace do not have. Cargo names a program after the settings
/// and the path in the workspace, so without it the two would overwrite each other's programs.
const OWN_SETTING: (&str, i64) = ("codegen-units", 17);

/// Makes or updates the copy of the workspace at `root` in the folder `copy`. A file with the right content keeps its
/// time, so cargo builds only the changed files. `packages` are the names of all crates of the workspace.
///
/// # Errors
/// Fails if a mutant does not match its source, or a file can't be read or written.
pub(super) fn make(root: &Path, copy: &Path, mutants: &[Mutant], packages: &[&str]) -> Result<()> {
    let mut kept = BTreeSet::new();
    for entry in WalkBuilder::new(root).hidden(false).require_git(false).build() {
        let entry = entry?;
        let path = entry.path().strip_prefix(root)?.to_path_buf();
        let is_excluded = path.starts_with(".git") || path.starts_with(EXCLUDED_FOLDER);
        if is_excluded || !entry.file_type().is_some_and(|kind| kind.is_file()) {
            continue;
        }
        let bytes = fs::read(entry.path()).with_context(|| entry.path().display().to_string())?;
        let bytes = changed(&path, bytes, mutants, packages).with_context(|| path.display().to_string())?;
        let copied = copy.join(&path);
        write_if_new(&copied, &bytes)?;
        // Tests run scripts of the copy.
        fs::set_permissions(&copied, entry.metadata()?.permissions())
            .with_context(|| copied.display().to_string())?;
        kept.insert(copied);
    }
    for entry in WalkBuilder::new(copy).standard_filters(false).build() {
        let path = entry?.into_path();
        if path.is_file() && !kept.contains(&path) {
            fs::remove_file(&path).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

/// Returns the content of the copy's file at `path`, whose original holds `bytes`.
fn changed(path: &Path, bytes: Vec<u8>, mutants: &[Mutant], packages: &[&str]) -> Result<Vec<u8>> {
    let mine: Vec<&Mutant> = mutants.iter().filter(|mutant| Path::new(&mutant.file) == path).collect();
    if !mine.is_empty() {
        let text = String::from_utf8(bytes)?;
        return Ok(Functions::parse(&text)?.with(&mine)?.into_bytes());
    }
    if path == Path::new(SWITCH_FILE) {
        return Ok([&bytes, SWITCH.as_bytes()].concat());
    }
    if path == Path::new("Cargo.toml") {
        return Ok(manifest(&String::from_utf8(bytes)?, packages)?.into_bytes());
    }
    Ok(bytes)
}

/// Returns the root manifest for the copy. All lints are off, because mutants violate many of them.
fn manifest(text: &str, packages: &[&str]) -> Result<String> {
    let mut manifest: toml::Table = toml::from_str(text)?;
    let workspace =
        manifest.get_mut("workspace").and_then(toml::Value::as_table_mut).context("no workspace")?;
    workspace.insert("lints".into(), toml::from_str::<toml::Table>("rust.warnings = \"allow\"")?.into());
    let profile = manifest.get_mut("profile").and_then(|profiles| profiles.get_mut("test"));
    // The overrides of all other packages stay, so these are built as in every other build.
    let overrides = profile.and_then(|profile| profile.get_mut("package")?.as_table_mut());
    let overrides = overrides.context("no profile.test.package")?;
    for name in packages {
        let of_package = overrides.entry(*name).or_insert_with(|| toml::Table::new().into());
        let of_package = of_package.as_table_mut().context("profile.test.package")?;
        of_package.insert(OWN_SETTING.0.into(), OWN_SETTING.1.into());
    }
    Ok(toml::to_string(&manifest)?)
}

fn write_if_new(path: &PathBuf, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    let shown = || path.display().to_string();
    fs::create_dir_all(path.parent().with_context(shown)?).with_context(shown)?;
    fs::write(path, bytes).with_context(shown)
}
