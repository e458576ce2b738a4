//! The content of a machine, as tests compare it.

use lode_platform::{Directory, DirectoryError, Purpose};
use rustix::fs::{SeekFrom, seek};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of a block, the unit in which files are compared.
const BLOCK: u64 = 4096;
/// Digits and dashes of the shortest random identity.
const IDENTITY: usize = 32;

/// The content of a machine.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Observed {
    /// Checksums of the blocks of each file that are not all zeros. Empty if there is no machine.
    blocks: BTreeMap<PathBuf, BTreeMap<u64, u32>>,
    /// Machine, state and namespaces as text, without identities.
    view: String,
}

impl Observed {
    /// Completes an interrupted change, and reads the machine in `folder`.
    ///
    /// # Panics
    /// Panics if the machine can't be opened, or if a change is still interrupted.
    pub(super) fn read(folder: &Path) -> Observed {
        let root = folder.join("state");
        let mut blocks = BTreeMap::new();
        let view = match Directory::open(&root, Purpose::ReadOnly) {
            Ok(directory) => {
                assert!(directory.unfinished().is_none(), "{:?}", directory.unfinished());
                view(&directory, folder)
            }
            Err(DirectoryError::NoState { .. }) => String::new(),
            Err(error) => panic!("{}: {error}", root.display()),
        };
        if !view.is_empty() {
            add_files(&root, &mut blocks);
            let left: Vec<_> = blocks.keys().filter(|path| path.starts_with(root.join("journal"))).collect();
            assert!(left.is_empty(), "{left:?}");
        }
        let view = view + &places(&blocks);
        // Another machine has other folders.
        let relative = |path: PathBuf| path.strip_prefix(folder).unwrap().to_owned();
        Observed { blocks: blocks.into_iter().map(|(path, found)| (relative(path), found)).collect(), view }
    }

    /// Returns true if the bytes are the same.
    pub(super) fn has_bytes_of(&self, other: &Observed) -> bool {
        self.blocks == other.blocks
    }

    /// Returns true if all but random identities, and what is derived from them, is the same.
    pub(super) fn looks_like(&self, other: &Observed) -> bool {
        self.view == other.view
    }

    /// Describes what differs.
    pub(super) fn difference(&self, other: &Observed) -> String {
        let missing = |from: &Observed, to: &Observed| {
            let lines: Vec<&str> = to.view.lines().collect();
            from.view.lines().filter(|line| !lines.contains(line)).collect::<Vec<_>>().join("\n")
        };
        let paths = self.blocks.keys().chain(other.blocks.keys());
        let other_bytes: BTreeSet<_> =
            paths.filter(|path| self.blocks.get(*path) != other.blocks.get(*path)).collect();
        format!("{}\n---\n{}\n---\n{other_bytes:?}", missing(self, other), missing(other, self))
    }
}

/// Returns machine, state and namespaces as text.
fn view(directory: &Directory, folder: &Path) -> String {
    let platform = directory.platform();
    let namespaces: Vec<_> =
        platform.regions().iter().flat_map(|region| platform.namespaces(region)).collect();
    let state = fs::read_to_string(directory.root().join("state.toml")).unwrap();
    let text = format!("{:#?}\n{state}\n{namespaces:#?}\n", platform.machine);
    without_identities(&text.replace(folder.to_str().unwrap(), "FOLDER"))
}

/// Replaces long numbers of hexadecimal digits, with or without dashes.
fn without_identities(text: &str) -> String {
    let is_digit = |char: char| char.is_ascii_hexdigit() || char == '-';
    let mut words = String::new();
    for word in text.split_inclusive(|char| !is_digit(char)) {
        let digits = word.trim_end_matches(|char| !is_digit(char));
        words += if digits.len() < IDENTITY { digits } else { "IDENTITY" };
        words += &word[digits.len()..];
    }
    words
}

/// Returns the places of all blocks of modules.
fn places(blocks: &BTreeMap<PathBuf, BTreeMap<u64, u32>>) -> String {
    let of_module =
        |path: &&PathBuf| path.extension().is_some_and(|kind| kind == "media" || kind == "labels");
    let mut text = String::new();
    for path in blocks.keys().filter(of_module) {
        let name = path.file_name().unwrap().to_string_lossy();
        text += &format!("{name}: {:?}\n", blocks[path].keys().collect::<Vec<_>>());
    }
    text
}

/// Adds all files of a folder except its lock.
fn add_files(folder: &Path, blocks: &mut BTreeMap<PathBuf, BTreeMap<u64, u32>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_files(&path, blocks);
        } else if !path.ends_with("lock") {
            let found = blocks_of(&path);
            blocks.insert(path, found);
        }
    }
}

/// Returns the checksums of the blocks of a file that are not all zeros.
fn blocks_of(path: &Path) -> BTreeMap<u64, u32> {
    let file = File::open(path).unwrap();
    let len = file.metadata().unwrap().len();
    let mut found = BTreeMap::new();
    let mut off = 0;
    let mut block = [0; BLOCK as usize];
    // Holes are left out.
    while let Ok(start) = seek(&file, SeekFrom::Data(off)) {
        let end = seek(&file, SeekFrom::Hole(start)).unwrap_or(len);
        for at in (start / BLOCK * BLOCK..end).step_by(BLOCK as usize) {
            let count = file.read_at(&mut block, at).unwrap();
            if block[..count].iter().any(|byte| *byte != 0) {
                found.insert(at, crc32c::crc32c(&block[..count]));
            }
        }
        off = end;
    }
    found
}
