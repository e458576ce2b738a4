//! Every committed input of every fuzz target, on the stable toolchain.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_fuzz::TARGETS;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

/// The files of a folder of this crate, by name.
fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn corpus_inputs_never_panic() {
    for target in TARGETS {
        for file in files(&format!("corpus/{}", target.name)) {
            let bytes = fs::read(&file).unwrap();
            assert!(
                catch_unwind(|| (target.run)(&bytes)).is_ok(),
                "{} breaks {}",
                file.display(),
                target.name
            );
        }
    }
}

#[test]
fn seeds_are_in_corpus() {
    for target in TARGETS {
        for (name, bytes) in (target.seeds)() {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name).join(name);
            let advice = "run `cargo run -p lode-fuzz --example seeds`";
            assert!(fs::read(&file).is_ok_and(|found| found == bytes), "{} is old: {advice}", file.display());
        }
    }
}

#[test]
fn every_target_is_fuzzed_and_replayed() {
    let fuzzed: Vec<_> =
        files("fuzz_targets").iter().map(|file| file.file_stem().unwrap().to_owned()).collect();
    let mut replayed: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
    replayed.sort();
    assert_eq!(fuzzed, replayed);
}
