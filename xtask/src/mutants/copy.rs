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
/// Folders that are workspaces of their own.
const BESIDE: [&str; 2] = ["bench", "fuzz"];
/// The crates that killers are built from.
const BUILT: [&str; 6] = ["lode-heap", "lode-index", "lode-layout", "lode-pmem", "lode-pool", "lode-sim"];

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
        let is_beside = path.starts_with(".git") || BESIDE.iter().any(|folder| path.starts_with(folder));
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
        return Ok(manifest(&String::from_utf8(bytes)?)?.into_bytes());
    }
    Ok(bytes)
}

/// The root manifest for the copy. All lints are off: mutants are full of what they are against. No crate of the workspace
/// has debug information: it takes a third of the time of the build.
fn manifest(text: &str) -> Result<String> {
    let mut manifest: toml::Table = toml::from_str(text)?;
    let workspace =
        manifest.get_mut("workspace").and_then(toml::Value::as_table_mut).context("no workspace")?;
    workspace.insert("lints".into(), toml::from_str::<toml::Table>("rust.warnings = \"allow\"")?.into());
    let mut overrides = toml::Table::new();
    for name in BUILT {
        overrides.insert(name.into(), toml::from_str::<toml::Table>("debug = false")?.into());
    }
    let profile = manifest.get_mut("profile").and_then(|profiles| profiles.get_mut("test"));
    let profile = profile.and_then(toml::Value::as_table_mut).context("no profile test")?;
    profile.insert("package".into(), overrides.into());
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
