//! The manual pages in `docs/man/` are those that the program makes from its arguments.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The text of each page, by its name.
fn pages(folder: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    files
        .map(|file| (file.file_name().into_string().unwrap(), fs::read_to_string(file.path()).unwrap()))
        .collect()
}

#[test]
fn manual_pages_are_current() {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new(env!("CARGO_BIN_EXE_lode")).arg("manual").arg(folder.path()).status().unwrap();
    assert!(made.success());
    let (made, kept) =
        (pages(folder.path()), pages(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/man")));
    let differing: Vec<_> =
        made.keys().chain(kept.keys()).filter(|name| made.get(*name) != kept.get(*name)).collect();
    assert!(differing.is_empty(), "not what `lode` makes, run `cargo xtask man`: {differing:?}");
}
