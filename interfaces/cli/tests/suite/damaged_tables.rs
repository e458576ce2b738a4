//! Damaged and hostile tables, as the commands tell of them: what, where and why, exit code 3, and no change by a check.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{RunResult, lode, lode_with_stdin, text};
use lode_nvdimm::BttInfo;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use tempfile::TempDir;

const SIZE: u64 = 20 << 20;
/// Each format, and where its only arena begins.
const FORMATS: [(&str, u64); 3] = [("btt", 4096), ("btt2", 0), ("pmemblk", 8192)];
const NEXTOFF: usize = 0x50;
const CHECKSUM: usize = 0xff8;

/// A full table.
struct Table {
    folder: TempDir,
    path: PathBuf,
    /// The file as the import left it.
    sound: Vec<u8>,
    start: u64,
    info: BttInfo,
}

impl Table {
    fn new(format: &str, start: u64) -> Table {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        lode(["volume", "create", text(&path), "--size", &SIZE.to_string(), "--format", format]).success();
        let info = lode(["--json", "volume", "info", text(&path)]).json();
        let content: Vec<u8> =
            (0..info["capacity"].as_u64().unwrap()).map(|at| (at / 4096 + 1) as u8).collect();
        lode_with_stdin(["volume", "import", text(&path), "-"], &content).success();
        let sound = fs::read(&path).unwrap();
        let info = BttInfo::decode(&sound[start as usize..]).unwrap();
        Table { folder, path, sound, start, info }
    }

    fn run(&self, verb: &str) -> RunResult {
        lode(["--json", "volume", verb, text(&self.path)])
    }

    /// Makes the file sound but for these bytes, at offsets in the arena.
    fn damage(&self, changes: &[(u64, &[u8])]) -> Vec<u8> {
        fs::write(&self.path, &self.sound).unwrap();
        let file = File::options().write(true).open(&self.path).unwrap();
        for (off, bytes) in changes {
            file.write_all_at(bytes, self.start + off).unwrap();
        }
        fs::read(&self.path).unwrap()
    }

    fn entry(&self, lba: u64) -> [u8; 4] {
        let at = (self.start + self.info.geometry.mapoff() + 4 * lba) as usize;
        self.sound[at..at + 4].try_into().unwrap()
    }
}

/// Returns the info block with another `nextoff`, and the checksum of that.
fn with_nextoff(info: &[u8], nextoff: u64) -> Vec<u8> {
    let mut bytes = info.to_vec();
    bytes[NEXTOFF..NEXTOFF + 8].copy_from_slice(&nextoff.to_le_bytes());
    bytes[CHECKSUM..].fill(0);
    let words = bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
    let (low, high) = words.fold((0u32, 0u32), |(low, high), word| {
        let low = low.wrapping_add(word);
        (low, high.wrapping_add(low))
    });
    bytes[CHECKSUM..].copy_from_slice(&(u64::from(high) << 32 | u64::from(low)).to_le_bytes());
    bytes
}

/// The damage is told, and nothing is changed by that. A repair names what is lost, and the next check finds nothing.
#[test]
fn damaged_maps_and_flogs_are_told_and_repaired() {
    for (format, start) in FORMATS {
        let table = Table::new(format, start);
        let (map, flog) = (table.info.geometry.mapoff(), table.info.geometry.flogoff());
        let lane = [4; 64];
        for (changes, told, lost) in [
            (vec![(map + 8, &table.entry(1)[..])], "is in use twice", 2),
            (vec![(map + 8, &[0xff; 4][..])], "the map has block 1073741823 for 2", 1),
            (vec![(flog, &lane[..])], "the flog of lane 0", 0),
            (vec![(flog, &[0; 64][..])], "the flog of lane 0", 0),
        ] {
            let before = table.damage(&changes);
            let check = table.run("check");
            assert_eq!(check.code, Some(3), "{format}: {check:?}");
            let finding = check.json()["findings"][0].as_str().unwrap().to_owned();
            assert!(finding.contains(told) && finding.contains("arena 0 at "), "{format}: {finding}");
            assert_eq!(check.json()["repairable"], true, "{format}");
            assert!(fs::read(&table.path).unwrap() == before, "{format}: the check has changed it");
            let repair = table.run("repair");
            assert_eq!(repair.code, Some(if lost > 0 { 3 } else { 0 }), "{format} {told}: {repair:?}");
            assert_eq!(repair.json()["lost_blocks"], lost, "{format} {told}: {repair:?}");
            table.run("check").success();
            let out = table.folder.path().join("out");
            let exported = lode(["volume", "export", text(&table.path), text(&out)]);
            match lost {
                0 => drop((exported.success(), fs::remove_file(&out))),
                _ => drop(exported.failure(3, &["block ", "is lost", "write the block again"])),
            }
        }
    }
}

/// Info blocks that contradict themselves or lead elsewhere can't be repaired, and are not touched.
#[test]
fn hostile_info_blocks_are_refused() {
    for (format, start) in FORMATS {
        let table = Table::new(format, start);
        let last = table.info.geometry.infooff();
        let info = &table.sound[start as usize..][..4096];
        for nextoff in [4096, last + 4096, 1 << 39, u64::MAX - 4095, 1] {
            let hostile = with_nextoff(info, nextoff);
            let before = table.damage(&[(0, &hostile), (last, &hostile)]);
            let out = table.folder.path().join("out");
            for (verb, file) in
                [("info", None), ("check", None), ("repair", None), ("export", Some(text(&out)))]
            {
                let words = ["volume", verb, text(&table.path)];
                let result = lode(words.into_iter().chain(file));
                assert_eq!(result.code, Some(3), "{format} {verb} {nextoff:#x}: {result:?}");
                let told = format!("{}{}", result.out, result.err);
                assert!(told.contains("arena ") && told.contains("restore"), "{format} {verb}: {told}");
                assert!(fs::read(&table.path).unwrap() == before, "{format}: {verb} has changed it");
            }
            let check = table.run("check").json();
            assert_eq!(check["repairable"], false, "{format} {nextoff:#x}: {check}");
        }
    }
}
