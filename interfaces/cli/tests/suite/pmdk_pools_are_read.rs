//! `lode pool info`, `check` and `dump` read pools that PMDK made, and `pmempool info` lists the same.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{json_fields, lode, text};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Kinds of pools, as `pmempool create` takes them, with the library of each.
const KINDS: [(&[&str], &str); 3] = [
    (&["obj", "-l", "queue of jobs"], "libpmemobj"),
    (&["blk", "4096"], "libpmemblk"),
    (&["log"], "libpmemlog"),
];

/// A folder, and PMDK's program in it.
struct Pmdk {
    folder: TempDir,
}

impl Pmdk {
    fn new() -> Option<Pmdk> {
        if Command::new("pmempool").arg("--version").output().is_err() {
            lode_testing::skip("pmdk_pools_are_read", "pmdk-tools is not installed");
            return None;
        }
        Some(Pmdk { folder: tempfile::tempdir().unwrap() })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn create(&self, words: &[&str], name: &str) -> PathBuf {
        let path = self.file(name);
        let output = Command::new("pmempool").arg("create").args(words).arg(&path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        path
    }

    /// Makes a set file with these lines, in which `@` is the folder.
    fn set(&self, name: &str, lines: &str) -> PathBuf {
        let path = self.file(name);
        fs::write(&path, lines.replace('@', text(self.folder.path()))).unwrap();
        path
    }

    /// Returns the lines of `pmempool info`, each divided at its first colon.
    fn lines(&self, path: &Path) -> Vec<(String, String)> {
        let output = Command::new("pmempool").arg("info").arg(path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()
    }
}

fn info(path: &Path) -> Value {
    lode(["--json", "pool", "info", text(path)]).json()
}

/// Returns the report of a check, which must find damage.
fn damage_in(path: &Path) -> String {
    let checked = lode(["pool", "check", text(path)]);
    assert_eq!(checked.code, Some(3), "{checked:?}");
    checked.out
}

/// Returns the fields that the help lists for pools of PMDK.
fn documented() -> BTreeSet<String> {
    let help = lode(["pool", "info", "--help"]).success();
    let section = help.split("JSON fields of a pool of PMDK:\n").nth(1).unwrap();
    let lines = section.lines().take_while(|line| !line.trim().is_empty());
    let named = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    named.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

#[test]
fn info_agrees_with_pmempool() {
    let Some(pmdk) = Pmdk::new() else { return };
    for (words, library) in KINDS {
        let path = pmdk.create(words, library);
        let theirs = pmdk.lines(&path);
        let value = |name: &str| theirs.iter().find(|(found, _)| found == name).unwrap().1.clone();
        let ours = info(&path);
        assert_eq!(json_fields(std::slice::from_ref(&ours)), documented());
        assert_eq!(ours["library"], library);
        assert_eq!(ours["uuid"], value("Pool set UUID"));
        assert_eq!(ours["parts"][0]["uuid"], value("UUID"));
        assert_eq!(ours["size"].to_string(), value("size"));
        assert_eq!(ours["features"], serde_json::json!(["CHECK_BAD_BLOCKS", "CKSUM_2K", "SHUTDOWN_STATE"]));
        assert_eq!((&ours["open"], ours["damage"].as_array().unwrap().len()), (&false.into(), 0));
        match library {
            "libpmemobj" => assert_eq!(ours["layout"], value("Layout")),
            "libpmemblk" => assert_eq!(ours["block_size"].to_string(), value("Block size")),
            _ => {
                assert_eq!(ours["used"], 0);
                let end = u64::from_str_radix(value("End offset").trim_start_matches("0x"), 16).unwrap();
                assert_eq!(ours["capacity"], end - 8192);
            }
        }
        assert!(lode(["pool", "info", text(&path)]).success().contains(&format!("{library} of PMDK")));
        lode(["pool", "check", text(&path)]).success();
    }
}

#[test]
fn sets_show_their_parts() {
    let Some(pmdk) = Pmdk::new() else { return };
    let lines = "PMEMPOOLSET\n10M @/a0\n10M @/a1\nREPLICA\n20M @/b0\n";
    let set = pmdk.set("set", lines);
    pmdk.create(&["obj"], "set");
    let theirs = pmdk.lines(&set);
    let uuids: Vec<_> =
        theirs.iter().filter(|(name, _)| name == "UUID").map(|(_, uuid)| uuid.as_str()).collect();
    let ours = info(&set);
    let parts = ours["parts"].as_array().unwrap();
    let places: Vec<_> = parts
        .iter()
        .map(|part| (part["replica"].as_u64().unwrap(), part["size"].as_u64().unwrap()))
        .collect();
    assert_eq!(places, [(0, 10 << 20), (0, 10 << 20), (1, 20 << 20)]);
    // `pmempool info` lists the first part alone.
    assert!(uuids.contains(&parts[0]["uuid"].as_str().unwrap()));
    assert_eq!(ours["size"], (20 << 20) - 4096);
    lode(["pool", "check", text(&set)]).success();
    let structures = lode(["--json", "pool", "dump", text(&set)]).json_lines();
    let names: Vec<_> = structures.iter().map(|structure| structure["structure"].as_str().unwrap()).collect();
    assert_eq!(names, ["header", "header", "header", "descriptor"]);

    fs::rename(pmdk.file("a1"), pmdk.file("elsewhere")).unwrap();
    let missing = lode(["--json", "pool", "info", text(&set)]);
    assert_eq!(missing.code, Some(3));
    assert!(missing.json()["damage"][0].as_str().unwrap().contains("a1"));
    fs::copy(pmdk.file("a0"), pmdk.file("a1")).unwrap();
    // The first part that contradicts its neighbour is named.
    assert!(damage_in(&set).contains("/a0\n"));
    fs::rename(pmdk.file("elsewhere"), pmdk.file("a1")).unwrap();
    lode(["pool", "check", text(&set)]).success();
}

#[test]
fn content_of_sets_is_checked() {
    let Some(pmdk) = Pmdk::new() else { return };
    for (words, name) in [(&["blk", "4096"][..], "blk"), (&["log"][..], "log")] {
        let set = pmdk.set(name, &format!("PMEMPOOLSET\n20M @/{name}0\n20M @/{name}1\n"));
        pmdk.create(words, name);
        lode(["pool", "check", text(&set)]).success();
        let file = fs::File::options().write(true).open(pmdk.file(&format!("{name}0"))).unwrap();
        // The end of a log, or the size of a block of the pool.
        file.write_all_at(&[0; 8], if name == "log" { 4104 } else { 4096 }).unwrap();
        assert!(damage_in(&set).contains("the descriptor of lib"), "{name}");
    }
}

#[test]
fn damage_is_named() {
    let Some(pmdk) = Pmdk::new() else { return };
    for (words, library) in KINDS {
        let path = pmdk.create(words, library);
        let file = fs::File::options().write(true).open(&path).unwrap();
        let before = fs::read(&path).unwrap();
        // The UUID of the pool, which the checksum of the header covers.
        file.write_all_at(b"X", 24).unwrap();
        let damaged = lode(["--json", "pool", "info", text(&path)]);
        assert_eq!(damaged.code, Some(3), "{library}");
        assert!(damaged.json()["damage"][0].as_str().unwrap().contains("checksum"), "{library}");
        assert!(damage_in(&path).contains("checksum"), "{library}");
        assert!(lode(["pool", "dump", text(&path)]).success().contains("DAMAGED"));
        file.write_all_at(&before[24..25], 24).unwrap();
        // The descriptor: a layout, the bytes of a block, the start of a log.
        file.write_all_at(&[0, 0, 0, 0], 4096).unwrap();
        assert!(damage_in(&path).contains("the descriptor of lib"), "{library}");
        file.write_all_at(&before[4096..4100], 4096).unwrap();
        lode(["pool", "check", text(&path)]).success();
        file.set_len(before.len() as u64 - 4096).unwrap();
        let cut = lode(["--json", "pool", "info", text(&path)]);
        assert_eq!(cut.code, Some(3), "{library}");
    }
    let set = pmdk.set("bad", "PMEMPOOLSET\n10M relative\n");
    lode(["pool", "info", text(&set)]).failure(1, &["absolute one):2]"]);
    let set = pmdk.set("none", "PMEMPOOLSET\n10M @/missing\n");
    lode(["pool", "info", text(&set)]).failure(3, &["missing"]);
}

#[test]
fn heaps_of_object_pools_are_checked_and_repaired() {
    let Some(pmdk) = Pmdk::new() else { return };
    let path = pmdk.create(&["obj"], "heap");
    let stats = lode(["--json", "pool", "stats", text(&path)]).json();
    assert_eq!((&stats["objects"], &stats["runs"]), (&0.into(), &serde_json::json!([])));
    let checked = lode(["--json", "pool", "check", text(&path)]).json();
    assert_eq!(
        (&checked["damaged"], &checked["objects"], &checked["unclean"]),
        (&false.into(), &0.into(), &false.into())
    );
    assert!(lode(["pool", "repair", text(&path)]).success().contains("nothing to repair"));
    // The extension of a log lies before the heap.
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(&64_u64.to_le_bytes(), 8200).unwrap();
    assert!(damage_in(&path).contains("the internal redo log of lane 0 at 0x2000"));
    let repaired = lode(["--json", "pool", "repair", text(&path)]);
    assert_eq!((repaired.code, repaired.json()["left"].as_array().unwrap().len()), (Some(3), 1));
    assert!(lode(["pool", "dump", text(&path)]).success().contains("descriptor"));
}
