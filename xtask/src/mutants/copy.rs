//! A copy of the workspace whose functions have mutants.

use super::list::Mutant;
use super::split::{Functions, SWITCH};
use anyhow::{Context, Result};
use ignore::WalkBuilder;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The source that gets the switch.
const SWITCH_HOME: &str = "layout/src/bug.rs";
/// The folder that is a workspace of its own.
const BESIDE: &str = "bench";

/// Makes, or brings up to date, the copy of the workspace at `root` in the folder `copy`. A file whose content is right keeps
/// its time, so that cargo builds only what changed.
///
/// # Errors
/// A mutant does not fit its source, or a file can't be read or written.
pub(super) fn make(root: &Path, copy: &Path, mutants: &[Mutant]) -> Result<()> {
    let mut kept = BTreeSet::new();
    for entry in WalkBuilder::new(root).hidden(false).require_git(false).build() {
        let entry = entry?;
        let path = entry.path().strip_prefix(root)?.to_path_buf();
        let is_beside = path.starts_with(".git") || path.starts_with(BESIDE);
        if is_beside || !entry.file_type().is_some_and(|kind| kind.is_file()) {
            continue;
        }
        let bytes = fs::read(entry.path()).with_context(|| entry.path().display().to_string())?;
        let bytes = changed(&path, bytes, mutants).with_context(|| path.display().to_string())?;
        write_if_new(&copy.join(&path), &bytes)?;
        kept.insert(copy.join(path));
    }
    for entry in WalkBuilder::new(copy).standard_filters(false).build() {
        let path = entry?.into_path();
        if path.is_file() && !kept.contains(&path) {
            fs::remove_file(&path).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

/// What the copy has at `path` instead of `bytes`.
fn changed(path: &Path, bytes: Vec<u8>, mutants: &[Mutant]) -> Result<Vec<u8>> {
    let mine: Vec<&Mutant> = mutants.iter().filter(|mutant| Path::new(&mutant.file) == path).collect();
    if !mine.is_empty() {
        let text = String::from_utf8(bytes)?;
        return Ok(Functions::parse(&text)?.with(&mine)?.into_bytes());
    }
    if path == Path::new(SWITCH_HOME) {
        return Ok([&bytes, SWITCH.as_bytes()].concat());
    }
    if path == Path::new("Cargo.toml") {
        return Ok(without_lints(&String::from_utf8(bytes)?)?.into_bytes());
    }
    Ok(bytes)
}

/// The root manifest with all lints off: mutants are full of what lints are against.
fn without_lints(manifest: &str) -> Result<String> {
    let mut manifest: toml::Table = toml::from_str(manifest)?;
    let workspace = manifest.get_mut("workspace").and_then(toml::Value::as_table_mut);
    let lints = toml::from_str("rust.warnings = \"allow\"")?;
    workspace.context("no workspace")?.insert("lints".into(), toml::Value::Table(lints));
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
