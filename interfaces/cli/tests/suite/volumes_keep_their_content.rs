//! Volumes: made, described, filled, copied, damaged and repaired by the program.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{RunResult, command, documented_fields, json_fields, lode, lode_with_stdin, text};
use lode_layout::RawVolume;
use lode_testing::{SmallDisk, scaled, seed};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const FORMATS: [&str; 5] = ["btt", "btt2", "pmemblk", "atomic", "raw"];
const SIZE: u64 = 20 << 20;

/// A folder with a volume in it.
struct Fixture {
    folder: TempDir,
    path: PathBuf,
}

impl Fixture {
    fn empty() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("volume");
        Fixture { folder, path }
    }

    fn new(format: &str, block_size: u64) -> Fixture {
        let fixture = Fixture::empty();
        fixture.create(&["--format", format, "--block-size", &block_size.to_string()]).success();
        fixture
    }

    fn create(&self, options: &[&str]) -> RunResult {
        let size = SIZE.to_string();
        lode(["volume", "create", self.path(), "--size", &size].iter().chain(options))
    }

    fn path(&self) -> &str {
        text(&self.path)
    }

    fn run(&self, verb: &str) -> RunResult {
        lode(["--json", "volume", verb, self.path()])
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns content for all blocks, and the file that has it. Every third block is zero.
    fn content(&self, tag: u8) -> (Vec<u8>, PathBuf) {
        let info = self.run("info").json();
        let [block_size, blocks] = ["block_size", "blocks"].map(|field| info[field].as_u64().unwrap());
        let block = |block: u64| {
            (0..block_size).map(move |at| match block % 3 {
                0 => 0,
                _ => (block * 7 + at * 3 + u64::from(tag)) as u8,
            })
        };
        let bytes: Vec<u8> = (0..blocks).flat_map(block).collect();
        let file = self.file("content");
        fs::write(&file, &bytes).unwrap();
        (bytes, file)
    }

    fn import(&self, file: &str) -> RunResult {
        lode(["--json", "volume", "import", self.path(), file])
    }

    fn exported(&self) -> Vec<u8> {
        let file = self.file("exported");
        let _ = fs::remove_file(&file);
        lode(["volume", "export", self.path(), text(&file)]).success();
        fs::read(file).unwrap()
    }

    /// Overwrites bytes of the volume's file.
    fn damage(&self, at: u64, bytes: &[u8]) {
        File::options().write(true).open(&self.path).unwrap().write_all_at(bytes, at).unwrap();
    }
}

fn send(child: &Child, signal: Signal) {
    // A child that has ended stays a zombie until it is waited for.
    let _ = kill_process(Pid::from_child(child), signal);
}

#[test]
fn content_round_trips_in_every_format() {
    for format in FORMATS {
        for block_size in [512, 4096, 4160] {
            if format == "raw" && block_size == 4160 {
                continue;
            }
            let fixture = Fixture::new(format, block_size);
            let info = fixture.run("info").json();
            assert_eq!((&info["format"], &info["block_size"]), (&format.into(), &block_size.into()));
            assert_eq!((&info["class"], &info["size"]), (&"block".into(), &SIZE.into()));
            assert_eq!(info["data_off"].is_null(), format != "raw");
            let (bytes, file) = fixture.content(1);
            assert_eq!(info["capacity"], bytes.len());
            assert!(fixture.exported().iter().all(|byte| *byte == 0), "a new volume is zero");
            fixture.import(text(&file)).success();
            assert!(fixture.exported() == bytes, "{format}, {block_size}");
            fixture.run("check").success();
            // A second import through pipes, over the first.
            let (bytes, _) = fixture.content(9);
            lode_with_stdin(["volume", "import", fixture.path(), "-"], &bytes).success();
            let out = command(["volume", "export", fixture.path(), "-"]).output().unwrap();
            assert!(out.status.success() && out.stdout == bytes, "{format}, {block_size}");
        }
    }
}

#[test]
fn volumes_grow_in_place() {
    for format in ["atomic", "raw"] {
        let fixture = Fixture::new(format, 4096);
        let (bytes, file) = fixture.content(1);
        fixture.import(text(&file)).success();
        let grow = |size: &str| lode(["--json", "volume", "grow", fixture.path(), "--size", size]);
        grow("1MiB").failure(1, &["a volume grows only"]);
        assert!(fixture.exported() == bytes, "{format}: a refused growth changes nothing");
        let grown = grow("50MiB").json();
        assert_eq!(json_fields(std::slice::from_ref(&grown)), documented_fields(&["volume", "grow"]));
        assert_eq!((&grown["size_before"], &grown["size"]), (&SIZE.into(), &(50u64 << 20).into()));
        assert_eq!(fixture.run("info").json()["blocks"], grown["blocks"]);
        assert!(grown["blocks"].as_u64() > Some(2 * bytes.len() as u64 / 4096), "{format}");
        let exported = fixture.exported();
        assert!(exported[..bytes.len()] == bytes, "{format}");
        assert!(exported[bytes.len()..].iter().all(|byte| *byte == 0), "{format}: new blocks are zeros");
        let (bytes, file) = fixture.content(5);
        fixture.import(text(&file)).success();
        assert!(fixture.exported() == bytes, "{format}");
        fixture.run("check").success();
    }
    for format in ["btt", "btt2", "pmemblk"] {
        let fixture = Fixture::new(format, 4096);
        lode(["volume", "grow", fixture.path(), "--size", "50MiB"])
            .failure(1, &["can't grow in place; create a larger one"]);
    }
}

/// A growth that stopped between the copies of a header is no damage.
#[test]
fn killed_growths_leave_the_old_or_the_new_size() {
    for format in ["atomic", "raw"] {
        for round in 0..scaled(5) {
            let fixture = Fixture::new(format, 4096);
            let (bytes, file) = fixture.content(1);
            fixture.import(text(&file)).success();
            let grow = ["volume", "grow", fixture.path(), "--size", "60MiB"];
            let mut child = command(grow).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
            thread::sleep(Duration::from_millis(2 + 6 * round));
            send(&child, Signal::KILL);
            let is_done = child.wait().unwrap().success();
            fixture.run("check").success();
            let exported = fixture.exported();
            assert!(exported[..bytes.len()] == bytes, "{format}");
            assert!(exported.len() > bytes.len() || !is_done, "{format}");
            lode(grow).success();
            assert!(fixture.exported().len() > 2 * bytes.len(), "{format}");
        }
    }
}

/// The last copy of the header is at the new end already, the old one is zeroed, and the first one has the old size.
#[test]
fn growth_of_a_raw_volume_goes_on_after_a_stop() {
    let fixture = Fixture::new("raw", 4096);
    let (bytes, file) = fixture.content(1);
    fixture.import(text(&file)).success();
    let first = fs::read(&fixture.path).unwrap()[..4096].to_vec();
    let grow = |size: &str| lode(["volume", "grow", fixture.path(), "--size", size]);
    grow("60MiB").success();
    let mut stopped = fs::read(&fixture.path).unwrap();
    stopped[..4096].copy_from_slice(&first);
    for size in ["50MiB", "70MiB"] {
        fs::write(&fixture.path, &stopped).unwrap();
        fixture.run("check").success();
        assert!(fixture.exported() == bytes, "the old size");
        grow(size).success();
        fixture.run("check").success();
        let exported = fixture.exported();
        assert!(
            exported[..bytes.len()] == bytes && exported[bytes.len()..].iter().all(|byte| *byte == 0),
            "{size}"
        );
    }
}

#[test]
fn failed_growths_leave_the_old_size() {
    for format in ["atomic", "raw"] {
        let fixture = Fixture::new(format, 4096);
        let (bytes, file) = fixture.content(1);
        fixture.import(text(&file)).success();
        lode(["volume", "grow", fixture.path(), "--size", "7EiB"]).failure(1, &["volume"]);
        assert_eq!(fs::metadata(&fixture.path).unwrap().len(), SIZE, "{format}");
        fixture.run("check").success();
        assert!(fixture.exported() == bytes, "{format}");
    }
    let Some(disk) = SmallDisk::mount("failed_growths_leave_the_old_size", 12 << 20) else { return };
    for (format, size) in [("raw", "7EiB"), ("atomic", "64MiB")] {
        let path = disk.folder().join(format);
        let create =
            ["volume", "create", text(&path), "--size", "4MiB", "--durability", "none", "--format", format];
        lode(create).success();
        let grow = ["volume", "grow", text(&path), "--durability", "none", "--size", size];
        lode(grow).failure(1, &["volume"]);
        assert_eq!(fs::metadata(&path).unwrap().len(), 4 << 20, "{format}");
        lode(["volume", "check", text(&path)]).success();
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn volumes_and_exports_are_sparse() {
    for format in FORMATS {
        let fixture = Fixture::empty();
        lode(["volume", "create", fixture.path(), "--size", "128MiB", "--format", format]).success();
        let taken = |path| fs::metadata(path).unwrap().blocks() * 512;
        // A pool has its space from the beginning.
        let limit = if format == "atomic" { 256 << 20 } else { 1 << 20 };
        assert!(taken(&fixture.path) < limit, "{format}: {}", taken(&fixture.path));
        let info = fixture.run("info").json();
        let input = fixture.file("zeros");
        File::create_new(&input).unwrap().set_len(info["capacity"].as_u64().unwrap()).unwrap();
        fixture.import(text(&input)).success();
        // The map has an entry for each block of zeros.
        assert!(taken(&fixture.path) < limit.max(4 << 20), "{format}: {}", taken(&fixture.path));
        fixture.exported();
        assert!(taken(&fixture.file("exported")) < 1 << 20, "{format}");
    }
}

#[test]
fn json_fields_of_volumes_are_documented() {
    let fixture = Fixture::empty();
    let size = SIZE.to_string();
    let create = ["--json", "volume", "create", fixture.path(), "--size", &size, "--format", "btt"];
    let created = lode(create).json();
    assert_eq!(json_fields(&[created]), documented_fields(&["volume", "create"]));
    for verb in ["info", "check", "repair"] {
        assert_eq!(json_fields(&[fixture.run(verb).json()]), documented_fields(&["volume", verb]), "{verb}");
    }
    let (_, file) = fixture.content(1);
    let imported = fixture.import(text(&file)).json();
    assert_eq!(json_fields(&[imported]), documented_fields(&["volume", "import"]));
    let exported = lode(["--json", "volume", "export", fixture.path(), text(&fixture.file("out"))]).json();
    assert_eq!(json_fields(&[exported]), documented_fields(&["volume", "export"]));
}

#[test]
fn class_of_a_volume_is_recorded() {
    let fixture = Fixture::empty();
    fixture.create(&["--format", "raw", "--class", "dax"]).success();
    let info = fixture.run("info").json();
    assert_eq!((&info["class"], &info["data_off"]), (&"dax".into(), &(2 << 20).into()));
    let (bytes, file) = fixture.content(1);
    fixture.import(text(&file)).success();
    let media = fs::read(&fixture.path).unwrap();
    assert!(media[2 << 20..][..bytes.len()] == bytes, "block 0 lies where `info` says");
    for format in ["btt", "btt2", "pmemblk", "atomic"] {
        let other = Fixture::empty();
        other.create(&["--format", format, "--class", "dax"]).failure(2, &["--class dax wants --format raw"]);
        assert!(!other.path.exists());
    }
}

#[test]
fn nothing_is_overwritten_or_left_behind() {
    let fixture = Fixture::new("raw", 4096);
    let before = fs::read(&fixture.path).unwrap();
    let exists = ["creating a volume", "exists already"];
    fixture.create(&["--format", "btt"]).failure(1, &exists);
    let (bytes, file) = fixture.content(1);
    lode(["volume", "export", fixture.path(), text(&file)]).failure(1, &["exists already"]);
    assert!(fs::read(&fixture.path).unwrap() == before && fs::read(&file).unwrap() == bytes);
    fixture.import("/nowhere").failure(1, &["importing into a volume", "check the path"]);
    let refused = Fixture::empty();
    let none = || assert_eq!(fs::read_dir(refused.folder.path()).unwrap().count(), 0);
    for (size, options, why) in [
        ("1MiB", "--format btt", "a namespace of"),
        ("8192", "--format raw", "size is 0x2000"),
        ("64MiB", "--format btt --block-size 100", "block"),
        ("64MiB", "--format raw --block-size 520", "a power of two"),
        ("64MiB", "--format pmemblk --block-size 8GiB", "block_size"),
        ("64KiB", "--format atomic", "no room"),
        ("64MiB", "--format atomic --block-size 100", "block"),
        ("4EiB", "--format raw", "can't make a file"),
    ] {
        let words = ["volume", "create", refused.path(), "--size", size];
        lode(words.into_iter().chain(options.split(' '))).failure(1, &["creating a volume", why]);
        none();
    }
    let words = ["volume", "create", refused.path(), "--size", "64MiB"];
    lode(words).failure(2, &["--format"]);
    lode(words.into_iter().chain(["--format", "qcow2"])).failure(2, &["qcow2", "atomic"]);
    none();
    lode(["--json", "volume", "export", fixture.path(), "-"]).failure(2, &["--json"]);
}

#[test]
fn input_of_another_length_is_refused() {
    for format in ["btt", "atomic", "raw"] {
        let fixture = Fixture::new(format, 4096);
        let (bytes, file) = fixture.content(1);
        fixture.import(text(&file)).success();
        let (newer, file) = fixture.content(2);
        for (len, word) in [(bytes.len() - 1, "nothing was written"), (0, "nothing was written")] {
            fs::write(&file, &newer[..len]).unwrap();
            fixture.import(text(&file)).failure(1, &["importing into a volume", word]);
            assert!(fixture.exported() == bytes);
        }
        fs::write(&file, [&newer[..], b"x"].concat()).unwrap();
        fixture.import(text(&file)).failure(1, &["nothing was written"]);
        assert!(fixture.exported() == bytes);
        // The length of a pipe is not known before its end.
        let half = 5 * 4096 + 7;
        let short = lode_with_stdin(["volume", "import", fixture.path(), "-"], &newer[..half]);
        short.failure(1, &[&format!("the input ended after {half} bytes")]);
        assert!(fixture.exported() == [&newer[..5 * 4096], &bytes[5 * 4096..]].concat(), "{format}");
        let long = [&newer[..], b"x"].concat();
        let long = lode_with_stdin(["volume", "import", fixture.path(), "-"], &long);
        long.failure(1, &["the input is longer than"]);
        assert!(fixture.exported() == newer, "{format}");
    }
}

/// A name that is none of a file makes no file of another name.
#[test]
fn odd_names_are_refused() {
    let fixture = Fixture::empty();
    let slash = format!("{}/", fixture.path());
    for format in FORMATS {
        let create = |path| lode(["volume", "create", path, "--size", "20MiB", "--format", format]);
        create(&slash).failure(1, &[&slash, "Is a directory"]);
        create("-").failure(2, &["-: a volume is a file", "./-"]);
    }
    assert_eq!(fs::read_dir(fixture.folder.path()).unwrap().count(), 0);
    let volume = Fixture::new("raw", 4096);
    lode(["volume", "export", volume.path(), &slash]).failure(1, &[&slash, "Is a directory"]);
    assert!(!fixture.path.exists());
}

/// `check` names the command that helps, and none where none does.
#[test]
fn check_names_repair_only_where_it_helps() {
    for format in FORMATS {
        let fixture = Fixture::new(format, 4096);
        let text_of = || lode(["volume", "check", fixture.path()]);
        let sound = fs::read(&fixture.path).unwrap();
        let header = if format == "btt" { 4096 } else { 0 };
        if format != "pmemblk" {
            fixture.damage(header + 20, b"damage");
            let check = fixture.run("check");
            assert_eq!(
                (check.code, &check.json()["repairable"]),
                (Some(3), &true.into()),
                "{format}: {check:?}"
            );
            assert!(text_of().out.contains("damaged; run `lode volume repair`"), "{format}");
            fs::write(&fixture.path, &sound).unwrap();
        }
        File::options().write(true).open(&fixture.path).unwrap().set_len(SIZE - (1 << 20)).unwrap();
        let check = fixture.run("check");
        assert_eq!(
            (check.code, &check.json()["repairable"]),
            (Some(3), &false.into()),
            "{format}: {check:?}"
        );
        let out = text_of().out;
        assert!(
            out.contains("a repair can't help") && !out.contains("lode volume repair"),
            "{format}: {out}"
        );
    }
}

/// A full disk under a sparse volume is no damage, and the same command succeeds when there is space.
#[test]
fn full_disk_is_told_from_damage() {
    let Some(disk) = SmallDisk::mount("full_disk_is_told_from_damage", 12 << 20) else { return };
    for format in ["btt", "btt2", "pmemblk", "raw"] {
        let path = disk.folder().join(format);
        let create = ["volume", "create", text(&path), "--size", "20MiB", "--format", format];
        lode(create.iter().chain(&["--durability", "none"])).success();
        let filler = disk.folder().join("filler");
        let import = |input: &[u8]| {
            lode_with_stdin(["volume", "import", text(&path), "-", "--durability", "none"], input)
        };
        let full = import(&vec![7; 20 << 20]);
        let told = full.failure(1, &["block ", "no space left", "free space"]);
        assert!(!told.contains("poisoned") && !told.contains("lode volume check"), "{format}: {told}");
        // Places that no command has read yet are holes, too.
        let _ = fs::write(&filler, vec![1; 12 << 20]);
        let check = lode(["volume", "check", text(&path)]);
        assert!(
            check.code == Some(0) || check.code == Some(1) && check.err.contains("no space left"),
            "{check:?}"
        );
        fs::remove_file(&filler).unwrap();
        fs::remove_file(&path).unwrap();
        lode(create.iter().chain(&["--durability", "none"])).success();
        lode(["volume", "check", text(&path)]).success();
        import(&vec![7; 5 << 20]).failure(1, &["the input ended after"]);
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn files_without_a_volume_are_refused() {
    let fixture = Fixture::empty();
    for bytes in [&b""[..], b"x", &[0; 70_000], &[0xff; 70_000]] {
        fs::write(&fixture.path, bytes).unwrap();
        for verb in ["info", "check", "repair"] {
            fixture.run(verb).failure(1, &["there is no volume", "lode volume create"]);
        }
        lode(["volume", "export", fixture.path(), "-"]).failure(1, &["there is no volume"]);
        lode(["volume", "import", fixture.path(), "/dev/null"]).failure(1, &["there is no volume"]);
        assert!(fs::read(&fixture.path).unwrap() == bytes);
    }
    lode(["volume", "info", "/nowhere"]).failure(1, &["reading a volume", "/nowhere"]);
    lode(["volume", "info", "/tmp"]).failure(1, &["neither an ordinary file"]);
}

/// Every byte of the headers, and random bytes of the rest: no command panics, and no damage is written over the rest.
#[test]
fn damaged_volumes_never_panic() {
    let mut rng = fastrand::Rng::with_seed(seed(3));
    for format in FORMATS {
        let fixture = Fixture::new(format, 512);
        let (_, file) = fixture.content(1);
        fixture.import(text(&file)).success();
        let sound = fs::read(&fixture.path).unwrap();
        for round in 0..scaled(12) {
            let mut bytes = sound.clone();
            let starts = [0, 4096, 8192, rng.usize(..sound.len()), sound.len() - 8192];
            let start = starts[rng.usize(..starts.len())];
            for _ in 0..rng.usize(1..200) {
                let at = start + rng.usize(..4096.min(sound.len() - start));
                bytes[at] = rng.u8(..);
            }
            if rng.u8(..4) == 0 {
                bytes.truncate(rng.usize(..sound.len()));
            }
            fs::write(&fixture.path, &bytes).unwrap();
            let out = fixture.file("out");
            let _ = fs::remove_file(&out);
            for verb in ["info", "check"] {
                let code = fixture.run(verb).code;
                assert!(
                    matches!(code, Some(0 | 1 | 3)),
                    "{format} {verb} {round}: {code:?}, seed {}",
                    seed(3)
                );
            }
            let code = lode(["volume", "export", fixture.path(), text(&out)]).code;
            assert!(matches!(code, Some(0 | 1 | 3)) && out.exists() == (code == Some(0)), "{format} {round}");
            assert!(fs::read(&fixture.path).unwrap() == bytes, "{format} {round}: a reader changed it");
            let repaired = fixture.run("repair");
            assert!(matches!(repaired.code, Some(0 | 1 | 3)), "{format} {round}: {repaired:?}");
            if repaired.code == Some(0) {
                fixture.run("check").success();
            }
        }
    }
}

#[test]
fn damaged_headers_are_repaired() {
    // Each format, an offset of one of two copies of its header, and the other.
    for (format, places) in [
        ("raw", [0, SIZE - 4096]),
        ("btt", [4096, SIZE - 4096]),
        ("btt2", [0, SIZE - 4096]),
        ("atomic", [0, 4096]),
    ] {
        for place in places {
            let fixture = Fixture::new(format, 4096);
            let (bytes, file) = fixture.content(1);
            fixture.import(text(&file)).success();
            let sound = fs::read(&fixture.path).unwrap();
            fixture.damage(place + 20, b"damage");
            let check = fixture.run("check");
            assert_eq!((check.code, &check.json()["damaged"]), (Some(3), &true.into()), "{format} {place}");
            assert_eq!(check.json()["format"], format);
            assert!(fixture.exported() == bytes, "{format} {place}: the other copy serves");
            fixture.run("repair").success();
            assert!(fs::read(&fixture.path).unwrap() == sound, "{format} {place}");
            fixture.run("check").success();
            places.iter().for_each(|place| fixture.damage(place + 20, b"damage"));
            fixture.run("info").failure(3, &["reading a volume"]);
            assert_eq!(fixture.run("check").code, Some(3));
            fixture.run("repair").failure(3, &["repairing a volume"]);
        }
    }
}

/// A raw volume whose guest writes headers of other formats stays a raw volume.
#[test]
fn guests_cannot_change_the_format() {
    let table = Fixture::new("btt2", 4096);
    let other = fs::read(&table.path).unwrap();
    let fixture = Fixture::new("raw", 4096);
    let capacity = fixture.run("info").json()["capacity"].as_u64().unwrap() as usize;
    lode_with_stdin(["volume", "import", fixture.path(), "-"], &other[..capacity]).success();
    assert_eq!(fixture.run("info").json()["format"], "raw");
    // And a table of version 2.0 all of whose blocks are headers of a raw volume.
    let header = fs::read(&Fixture::new("raw", 512).path).unwrap()[..RawVolume::LEN].to_vec();
    let capacity = table.run("info").json()["capacity"].as_u64().unwrap() as usize;
    let content: Vec<u8> = header.iter().copied().cycle().take(capacity).collect();
    lode_with_stdin(["volume", "import", table.path(), "-"], &content).success();
    assert_eq!(table.run("info").json()["format"], "btt2");
    table.run("check").success();
}

/// Checksums of atomic blocks find rotten content. Other blocks can be read.
#[test]
fn rotten_atomic_blocks_are_found() {
    let fixture = Fixture::new("atomic", 4096);
    let (bytes, file) = fixture.content(1);
    fixture.import(text(&file)).success();
    let media = fs::read(&fixture.path).unwrap();
    let at = media.windows(4096).step_by(512).position(|window| window == &bytes[4096..8192]);
    fixture.damage(at.expect("block 1 is on the media") as u64 * 512 + 100, b"rot");
    let check = fixture.run("check");
    assert_eq!(check.code, Some(3));
    assert!(check.json()["findings"][0].as_str().unwrap().contains("the content of block 1,"), "{check:?}");
    let exported = lode(["volume", "export", fixture.path(), text(&fixture.file("out"))]);
    exported.failure(3, &["block 1 ", "checksum"]);
    fixture.import(text(&file)).success();
    fixture.run("check").success();
    assert!(fixture.exported() == bytes);
}

/// Commands on pools refuse a volume, and commands on volumes a pool. Nothing is changed.
#[test]
fn pools_and_volumes_are_told_apart() {
    let volume = Fixture::new("atomic", 4096);
    let before = fs::read(&volume.path).unwrap();
    for verb in ["check", "repair", "shrink", "stats"] {
        lode(["pool", verb, volume.path()]).failure(1, &["holds no heap", "lode volume"]);
        assert!(fs::read(&volume.path).unwrap() == before, "{verb}");
    }
    // A pool with a heap gets its length back first.
    let cut = &before[..before.len() - 8192];
    fs::write(&volume.path, cut).unwrap();
    lode(["pool", "repair", volume.path()]).failure(1, &["holds no heap", "lode volume"]);
    assert!(fs::read(&volume.path).unwrap() == cut);
    fs::write(&volume.path, &before).unwrap();
    lode(["kv", "get", volume.path(), "key"]).failure(1, &["blocks"]);
    let pool = volume.file("pool");
    for layout in ["blocks", "log"] {
        lode(["pool", "create", text(&pool), "--layout", layout]).failure(1, &["holds no heap"]);
        assert!(!pool.exists());
    }
    lode(["pool", "create", text(&pool)]).success();
    let before = fs::read(&pool).unwrap();
    for verb in ["info", "check", "repair"] {
        lode(["volume", verb, text(&pool)]).failure(1, &["a pool of layout kv"]);
    }
    lode(["volume", "export", text(&pool), "-"]).failure(1, &["a pool of layout kv"]);
    assert!(fs::read(&pool).unwrap() == before);
}

/// No block of a raw volume lies where another format has a header, so the content can be another volume.
#[test]
fn guests_cannot_write_a_table() {
    for format in ["btt", "btt2"] {
        let table = fs::read(&Fixture::new(format, 4096).path).unwrap();
        for damaged in [None, Some(SIZE - 4096), Some(0)] {
            let fixture = Fixture::new("raw", 4096);
            let capacity = fixture.run("info").json()["capacity"].as_u64().unwrap() as usize;
            // Its last block is the last info block, and so is the one where a table of this capacity has it.
            let mut content = table[table.len() - capacity..].to_vec();
            content.copy_within(capacity - 4096.., capacity - 8192);
            let content = &content[..];
            lode_with_stdin(["volume", "import", fixture.path(), "-"], content).success();
            if let Some(at) = damaged {
                fixture.damage(at, b"damage");
            }
            assert_eq!(fixture.run("info").json()["format"], "raw", "{format}, {damaged:?}");
            fixture.run("repair").success();
            fixture.run("check").success();
            assert!(fixture.exported() == content, "{format}, {damaged:?}");
        }
    }
}

/// Block 0 of a table of version 2.0 lies where a pool has the second copy of its header.
#[test]
fn guests_of_a_table_cannot_write_a_pool() {
    let pool = fs::read(&Fixture::new("atomic", 4096).path).unwrap();
    let fixture = Fixture::new("btt2", 4096);
    fixture.damage(4096, &pool[4096..8192]);
    assert_eq!(fixture.run("info").json()["format"], "btt2");
    fixture.damage(0, b"damage");
    let before = fs::read(&fixture.path).unwrap();
    for verb in ["info", "check", "repair"] {
        let refused = fixture.run(verb);
        assert_ne!(refused.code, Some(0), "{verb}");
        assert!(format!("{refused:?}").contains("the format can't be told"), "{verb}: {refused:?}");
        assert!(fs::read(&fixture.path).unwrap() == before, "{verb} has changed it");
    }
}

#[test]
fn one_program_uses_a_volume() {
    let fixture = Fixture::new("btt", 4096);
    let mut import = command(["volume", "import", fixture.path(), "-"]);
    let mut import = import.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let in_use = || fixture.run("info").json()["in_use"] == true;
    // More than a pipe holds: the import has read some, so it has the lock. The pipe stays open.
    let mut pipe = import.stdin.take().unwrap();
    pipe.write_all(&[1; 300_000]).unwrap();
    assert!(in_use());
    let words = [fixture.path(), ": in use by process ", "lode", "; `lode volume info` works meanwhile"];
    fixture.run("check").failure(1, &words);
    fixture.run("repair").failure(1, &words);
    lode(["volume", "export", fixture.path(), "-"]).failure(1, &words);
    fixture.import("/dev/zero").failure(1, &words);
    // The import waits for its input, and a signal ends that.
    send(&import, Signal::INT);
    assert_eq!(import.wait().unwrap().code(), Some(130));
    drop(pipe);
    fixture.run("check").success();
    assert!(!in_use());
}

#[test]
fn killed_imports_leave_sound_volumes() {
    let mut rng = fastrand::Rng::with_seed(seed(1));
    for format in FORMATS {
        let fixture = Fixture::new(format, 4096);
        let (old, file) = fixture.content(1);
        fixture.import(text(&file)).success();
        let (new, file) = fixture.content(2);
        for round in 0..scaled(2) {
            let mut child = command(["volume", "import", fixture.path(), text(&file)]);
            let child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            thread::sleep(Duration::from_micros(rng.u64(..80_000)));
            send(&child, if round % 2 == 0 { Signal::KILL } else { Signal::INT });
            child.wait_with_output().unwrap();
            fixture.run("check").success();
            let found = fixture.exported();
            for (index, block) in found.chunks(4096).enumerate() {
                let at = index * 4096..index * 4096 + 4096;
                // Raw blocks are overwritten in place.
                let is_whole = format == "raw" || block == &old[at.clone()] || block == &new[at];
                assert!(is_whole, "{format}: block {index} is torn");
            }
        }
        fixture.import(text(&file)).success();
        assert!(fixture.exported() == new);
    }
}

#[test]
fn interrupted_creation_and_export_are_atomic() {
    let mut rng = fastrand::Rng::with_seed(seed(2));
    let fixture = Fixture::new("btt", 512);
    let (bytes, file) = fixture.content(1);
    fixture.import(text(&file)).success();
    let folder = fixture.file("new");
    fs::create_dir(&folder).unwrap();
    let new = folder.join("new");
    let create = ["volume", "create", text(&new), "--size", "64MiB", "--format", "pmemblk"];
    let export = ["volume", "export", fixture.path(), text(&new)];
    for round in 0..scaled(12) {
        let words: &[&str] = if round % 2 == 0 { &create } else { &export };
        let mut child = command(words);
        let child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_micros(rng.u64(..40_000)));
        send(&child, if round % 4 < 2 { Signal::KILL } else { Signal::INT });
        child.wait_with_output().unwrap();
        let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty() || left == [new.clone()], "{left:?}");
        if left.is_empty() {
            continue;
        }
        if round % 2 == 0 {
            lode(["volume", "check", text(&new)]).success();
        } else {
            assert!(fs::read(&new).unwrap() == bytes);
        }
        fs::remove_file(&new).unwrap();
    }
}

/// A limit on the size of files stands for a full disk.
#[test]
fn limit_on_file_size_leaves_nothing() {
    let fixture = Fixture::new("raw", 4096);
    let (_, file) = fixture.content(1);
    fixture.import(text(&file)).success();
    let run = |words: &str| {
        let script = format!("ulimit -f 1024; exec {} {words}", env!("CARGO_BIN_EXE_lode"));
        RunResult::of(std::process::Command::new("bash").args(["-c", &script]).output().unwrap())
    };
    let new = fixture.file("new");
    for words in [
        format!("volume create {} --size 64MiB --format btt", text(&new)),
        format!("volume export {} {}", fixture.path(), text(&new)),
    ] {
        run(&words).failure(1, &["volume"]);
        assert!(!new.exists());
    }
    // Longer than any file system can make.
    for format in FORMATS {
        let create = lode(["volume", "create", text(&new), "--size", "8EiB", "--format", format]);
        create.failure(1, &["9223372036854775808", "; choose "]);
        assert!(!new.exists());
    }
}
