//! `lode pool info`, `check`, `dump`, `stats`, `repair` and `recover` of object pools that PMDK's library filled, left in a crash, or has open.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{lode, text};
use lode_capi_compare::{Library, Program, on_library};
use lode_layout::{PmdkChunk, PmdkChunkKind, PmdkHeap, PmdkObj, PmdkZone, store_pmdk_checksum};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::iter::successors;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Lines of set files, in which `@` is the folder: a part, parts, a replica, a directory.
const SETS: [&str; 4] =
    ["24M @/a\n", "9M @/a\n18M @/b\n", "24M @/a\nREPLICA\n9M @/b\n18M @/c\n", "OPTION SINGLEHDR\n32M @/d\n"];
/// Objects of the pools: 40 in runs, and two of several chunks.
const CREATE: &[&str] = &["create", "step:16777216", "alloc:30:100", "tx:10:9000", "alloc:2:3000000"];

/// A folder with the set file `set`, and a program of PMDK that uses its pool.
struct PmdkSet {
    folder: TempDir,
    program: Program,
}

impl PmdkSet {
    /// Makes a pool. `None`, and a line of a skipped test, if Debian's library is not installed.
    fn new(lines: &str) -> Option<PmdkSet> {
        let program = Program::compile("pmemobj_set", Library::PMEMOBJ)?;
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("d")).unwrap();
        let set = PmdkSet { folder, program };
        fs::write(set.path("set"), format!("PMEMPOOLSET\n{}", lines.replace('@', text(set.folder.path()))))
            .unwrap();
        set.run(CREATE);
        Some(set)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs the program on Debian's library, and returns what it prints.
    fn run(&self, words: &[&str]) -> String {
        let output = self.program.run_in(self.folder.path(), false, words, &[("PMEM_IS_PMEM_FORCE", "1")]);
        assert!(output.status.success() || words.contains(&"kill"), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the content of all files.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let folders = [self.folder.path().to_owned(), self.path("d")];
        let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
        let paths = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
        paths.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    }

    /// Returns the JSON lines of a command on the set, which must exit with this code.
    fn json(&self, command: &str, code: i32) -> Vec<Value> {
        let result = lode(["--json", "pool", command, text(&self.path("set"))]);
        assert_eq!(result.code, Some(code), "{command}: {result:?}");
        result.json_lines()
    }

    fn assert_consistent(&self) {
        let mut pmempool = Command::new("pmempool");
        on_library(&mut pmempool, None);
        let Ok(output) = pmempool.args(["check", "-v", "set"]).current_dir(self.folder.path()).output()
        else {
            return;
        };
        assert!(output.status.success(), "{output:?}");
    }
}

fn last(mut lines: Vec<Value>) -> Value {
    lines.pop().unwrap()
}

/// Readers change nothing, and name each object.
#[test]
fn objects_of_pmdk_are_read() {
    for lines in SETS {
        let Some(set) = PmdkSet::new(lines) else { return };
        let shown = set.run(&["open", "show"]);
        let before = set.files();
        let info = last(set.json("info", 0));
        assert_eq!((&info["library"], &info["layout"]), (&"libpmemobj".into(), &"layout".into()), "{lines}");
        assert_eq!((&info["open"], info["damage"].as_array().unwrap().len()), (&false.into(), 0));
        let checked = last(set.json("check", 0));
        assert_eq!((&checked["objects"], &checked["unclean"]), (&42.into(), &false.into()), "{checked}");
        assert_eq!((&checked["damaged"], checked["findings"].as_array().unwrap().len()), (&false.into(), 0));
        assert_eq!(last(set.json("stats", 0))["objects"], 42);
        let dumped = set.json("dump", 0);
        let objects: Vec<&Value> = dumped.iter().filter(|line| line["structure"] == "object").collect();
        assert_eq!(objects.len(), 42);
        let of = |word: &str| {
            objects.iter().filter(|object| object["holds"].as_str().unwrap().contains(word)).count()
        };
        // The type of an object is a part of its size.
        assert_eq!((of("type 0, "), of(" chunks from chunk ")), (42, 2), "{lines}: {objects:?}");
        assert!(dumped.iter().all(|line| line["damage"].is_null()), "{lines}");
        assert!(set.files() == before, "{lines}");
        assert!(lode(["pool", "repair", text(&set.path("set"))]).success().contains("nothing to repair"));
        assert_eq!(set.run(&["open", "show"]), shown, "{lines}");
        set.assert_consistent();
    }
}

/// A check says what the next open will find, and a repair or a recovery makes it so.
#[test]
fn crashes_of_pmdk_are_recovered() {
    for lines in SETS {
        for command in ["repair", "recover"] {
            let Some(set) = PmdkSet::new(lines) else { return };
            let shown = set.run(&["open", "show", "kill"]);
            let before = set.files();
            let checked = last(set.json("check", 0));
            assert_eq!(
                (&checked["objects"], &checked["unclean"]),
                (&42.into(), &true.into()),
                "{lines}: {checked}"
            );
            let objects = set.json("dump", 0).iter().filter(|line| line["structure"] == "object").count();
            assert_eq!(objects, 42);
            assert!(set.files() == before, "{lines}");
            let done = last(set.json(command, 0));
            if command == "recover" {
                assert_eq!(
                    (&done["recovered"], &done["was_in_use"], &done["rolled_back"]),
                    (&true.into(), &false.into(), &1.into())
                );
            } else {
                assert_eq!((done["left"].as_array().unwrap().len(), lines), (0, lines), "{done}");
            }
            assert_eq!(last(set.json("check", 0))["unclean"], false, "{lines} {command}");
            assert_eq!(set.run(&["open", "show"]), shown, "{lines} {command}");
            set.assert_consistent();
        }
    }
}

/// A pool that a program of PMDK has open.
#[test]
fn pools_in_use_by_pmdk_are_left_alone() {
    let Some(program) = Program::compile("pmemobj_locks", Library::PMEMOBJ) else { return };
    let folder = tempfile::tempdir().unwrap();
    let pool = folder.path().join("pool");
    let mut command = Command::new(program.path());
    on_library(&mut command, None);
    command.args(["create", "pool", "wait"]).current_dir(folder.path());
    let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "create 0\n");
    let before = fs::read(&pool).unwrap();
    for command in ["check", "repair", "recover", "stats"] {
        lode(["pool", command, text(&pool)]).failure(1, &["flock"]);
    }
    assert_eq!(lode(["--json", "pool", "info", text(&pool)]).json()["open"], true);
    assert!(fs::read(&pool).unwrap() == before);
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
    lode(["pool", "check", text(&pool)]).success();
}

/// Stores bytes in the first part.
fn store(part: &Path, bytes: &[u8], at: u64) {
    File::options().write(true).open(part).unwrap().write_all_at(bytes, at).unwrap();
}

/// A chunk that does not lead to its run follows from the run's header, and is repaired. A header that says nonsense is not.
#[test]
fn chunks_of_pmdk_are_repaired() {
    let Some(set) = PmdkSet::new(SETS[0]) else { return };
    let shown = set.run(&["open", "show"]);
    let part = set.path("a");
    let content = fs::read(&part).unwrap();
    let descriptor = content[PmdkObj::OFF as usize..][..PmdkObj::LEN].try_into().unwrap();
    let chunks = PmdkObj::decode(&descriptor).unwrap().heap + (PmdkHeap::LEN + PmdkZone::LEN) as u64;
    let chunk = |index: u64| {
        let bytes = content[(chunks + 8 * index) as usize..][..8].try_into().unwrap();
        PmdkChunk::decode(u64::from_le_bytes(bytes)).unwrap()
    };
    let is_long_run = |index: &u64| chunk(*index).kind == PmdkChunkKind::Run && chunk(*index).size > 2;
    let run =
        successors(Some(0), |index| Some(index + u64::from(chunk(*index).size))).find(is_long_run).unwrap();
    assert_eq!((chunk(run + 2).kind, chunk(run + 2).size), (PmdkChunkKind::RunData, 2));

    // Its distance from the first chunk of the run.
    store(&part, &[9], chunks + (run + 2) * 8 + 4);
    let checked = last(set.json("check", 3));
    let findings = checked["findings"].as_array().unwrap();
    assert_eq!((findings.len(), findings[0]["means"].is_null()), (1, false), "{checked}");
    assert!(findings[0]["what"].as_str().unwrap().contains("does not lead to its run"), "{checked}");
    let done = last(set.json("repair", 0));
    let count = |field: &str| done[field].as_array().unwrap().len();
    assert_eq!((count("repaired"), count("left")), (1, 0), "{done}");
    assert_eq!(fs::read(&part).unwrap()[chunks as usize..][..1024], content[chunks as usize..][..1024]);
    set.json("check", 0);
    assert_eq!(set.run(&["open", "show"]), shown);
    set.assert_consistent();

    store(&part, &[0x77; 8], chunks + run * 8);
    let before = fs::read(&part).unwrap();
    assert_eq!(last(set.json("check", 3))["damaged"], true);
    assert!(lode(["pool", "dump", text(&set.path("set"))]).out.contains("DAMAGED"));
    let left = last(set.json("repair", 3));
    assert!(!left["left"].as_array().unwrap().is_empty(), "{left}");
    let after = fs::read(&part).unwrap();
    assert_eq!(after[chunks as usize..][..1024], before[chunks as usize..][..1024]);
}

/// Features that only a newer program may change.
#[test]
fn read_only_pools_are_read_only() {
    let Some(set) = PmdkSet::new(SETS[0]) else { return };
    set.run(&["open", "kill"]);
    let part = set.path("a");
    let mut header = fs::read(&part).unwrap()[..4096].to_vec();
    header[20] = 1;
    store_pmdk_checksum(&mut header);
    store(&part, &header, 0);
    let before = set.files();
    assert_eq!(last(set.json("check", 0))["objects"], 42);
    for command in ["repair", "recover"] {
        lode(["pool", command, text(&set.path("set"))]).failure(1, &["ro_compat", "newer"]);
    }
    assert!(set.files() == before);
}
