//! Volumes made in files that exist, such as images of namespaces. The lab has those on devices.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{RunResult, command, lode, text};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use tempfile::TempDir;

const FORMATS: [&str; 5] = ["btt", "btt2", "pmemblk", "atomic", "raw"];
/// Size of a file: a multiple of no unit but that of blocks.
const SIZE: u64 = (20 << 20) + 4096;

/// A folder for a file.
struct Fixture {
    folder: TempDir,
    path: PathBuf,
}

impl Fixture {
    fn new() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        Fixture { folder, path }
    }

    /// Makes a file full of bytes that nobody recognises.
    fn filled() -> Fixture {
        let fixture = Fixture::new();
        fs::write(&fixture.path, vec![0xa5; SIZE as usize]).unwrap();
        fixture
    }

    fn file(&self, name: &str) -> String {
        text(&self.folder.path().join(name)).to_owned()
    }

    fn path(&self) -> &str {
        text(&self.path)
    }

    fn create(&self, options: &[&str]) -> RunResult {
        lode(["--json", "volume", "create", self.path(), "--in-place"].iter().chain(options))
    }

    fn run(&self, verb: &str) -> RunResult {
        lode(["--json", "volume", verb, self.path()])
    }

    fn exported(&self) -> Vec<u8> {
        let out = command(["volume", "export", self.path(), "-"]).output().unwrap();
        assert!(out.status.success(), "{out:?}");
        out.stdout
    }

    /// Writes content to all blocks. Returns it.
    fn import(&self, options: &[&str]) -> Vec<u8> {
        let capacity = self.run("info").json()["capacity"].as_u64().unwrap();
        let content: Vec<u8> = (0..capacity).map(|at| (at / 512 * 7 + at) as u8).collect();
        let file = self.file("content");
        fs::write(&file, &content).unwrap();
        lode(["volume", "import", self.path(), &file].iter().chain(options)).success();
        content
    }
}

#[test]
fn volume_takes_all_of_a_file_that_exists() {
    for (format, durability) in FORMATS.into_iter().flat_map(|one| [(one, "line"), (one, "commit")]) {
        let fixture = Fixture::filled();
        let options = ["--format", format, "--block-size", "512", "--durability", durability];
        let made = fixture.create(&options).json();
        let info = fixture.run("info").json();
        assert_eq!(made, info, "{format}");
        assert_eq!((&info["format"], &info["size"]), (&format.into(), &SIZE.into()));
        fixture.run("check").success();
        assert_eq!(fs::metadata(&fixture.path).unwrap().len(), SIZE, "{format}");
        let old = match format {
            "pmemblk" | "atomic" => 0,
            _ => 0xa5,
        };
        // A block of btt2 lies where other formats have a header, which is cleared.
        assert!(fixture.exported()[4096..].iter().all(|byte| *byte == old), "{format}");
        let content = fixture.import(&options[4..]);
        assert!(fixture.exported() == content, "{format}");
        fixture.run("check").success();
    }
}

/// The size is compared, and a name that exists without --in-place is refused.
#[test]
fn files_that_exist_are_kept() {
    let fixture = Fixture::filled();
    let before = fs::read(&fixture.path).unwrap();
    let refused = fixture.create(&["--format", "raw", "--size", "20MiB"]);
    refused.failure(1, &["here 20975616 bytes, not 20971520; leave the size out"]);
    let without = lode(["volume", "create", fixture.path(), "--size", "20MiB", "--format", "raw"]);
    without.failure(1, &["exists already", "make the volume in it with --in-place"]);
    lode(["volume", "create", fixture.path(), "--format", "raw"]).failure(2, &["--size is required"]);
    lode(["volume", "create", &fixture.file("none"), "--in-place", "--format", "raw"])
        .failure(1, &["No such file"]);
    fixture.create(&["--format", "btt", "--class", "dax"]).failure(2, &["--class dax wants --format raw"]);
    let empty = fixture.file("empty");
    File::create(&empty).unwrap();
    lode(["volume", "create", &empty, "--in-place", "--format", "raw"]).failure(1, &["the file is empty"]);
    for format in FORMATS {
        let error = fixture.create(&["--format", format, "--block-size", "100"]);
        assert!(error.code == Some(1), "{format}");
    }
    assert!(fs::read(&fixture.path).unwrap() == before);
    fixture.create(&["--format", "raw", "--size", &SIZE.to_string()]).success();
}

/// Bytes that identify content, each at its offset.
const SIGNATURES: &[(u64, &[u8], &str)] = &[
    (0, b"PMEMOBJ\0", "a pool of PMDK"),
    (0, b"PMEMLOG\0", "a pool of PMDK"),
    (0, b"PMEMBLK\0", "which is damaged"),
    (0, b"LODERAWV", "which is damaged"),
    (SIZE - 4096, b"LODERAWV", "which is damaged"),
    (0, b"BTT_ARENA_INFO\0\0", "which is damaged"),
    (4096, b"BTT_ARENA_INFO\0\0", "which is damaged"),
    (4096, b"NVDIMM_PFN_INFO\0", "a namespace of mode fsdax or devdax"),
    (4096, b"NVDIMM_DAX_INFO\0", "a namespace of mode fsdax or devdax"),
    (16 << 20, b"NAMESPACE_INDEX\0", "the label area of a memory module"),
    (SIZE - (128 << 10), b"NAMESPACE_INDEX\0", "the label area of a memory module"),
    (4086, b"SWAPSPACE2", "swap space"),
    (4096, &[0xfc, 0x4e, 0x2b, 0xa9], "a member of a RAID"),
    (SIZE / 65_536 * 65_536 - 65_536, &[0xfc, 0x4e, 0x2b, 0xa9], "a member of a RAID"),
    ((SIZE - 8192) / 4096 * 4096, &[0xfc, 0x4e, 0x2b, 0xa9], "a member of a RAID"),
    (SIZE - 512, b"EFI PART", "a partition table"),
    (SIZE - 4096, b"EFI PART", "a partition table"),
    (1024, &[0x10, 0x20, 0xf5, 0xf2], "F2FS"),
    (0, b"XFSB", "a file system, XFS"),
    (1024 + 56, &[0x53, 0xef], "ext4"),
    (0x1_0040, b"_BHRfS_M", "btrfs"),
    (512, b"LABELONE", "LVM"),
    (510, &[0x55, 0xaa], "a partition table"),
    (0, b"LUKS\xba\xbe", "an encrypted device"),
];

#[test]
fn recognised_content_is_never_overwritten() {
    let refuses = |fixture: &Fixture, found: &str| {
        let before = fs::read(&fixture.path).unwrap();
        for format in FORMATS {
            for option in ["--json", "--overwrite-device"] {
                let error = fixture.create(&["--format", format, option]).failure(1, &[found]);
                assert!(error.contains("there is ") && !error.contains("overwrite it"), "{error}");
            }
        }
        assert!(fs::read(&fixture.path).unwrap() == before, "{found}");
    };
    for (at, bytes, found) in SIGNATURES {
        let fixture = Fixture::new();
        let file = File::create(&fixture.path).unwrap();
        file.set_len(SIZE).unwrap();
        file.write_all_at(bytes, *at).unwrap();
        refuses(&fixture, found);
    }
    for format in FORMATS {
        let fixture = Fixture::filled();
        fixture.create(&["--format", format]).success();
        refuses(&fixture, &format!("a volume of the format {format} already; choose another file"));
    }
    let fixture = Fixture::new();
    lode(["pool", "create", fixture.path(), "--size", "20MiB"]).success();
    refuses(&fixture, "there is a pool already");
    File::options().write(true).open(&fixture.path).unwrap().write_all_at(&[1; 100], 100).unwrap();
    refuses(&fixture, "there is a pool already");
}

/// A namespace of mode raw on an emulated machine: its image becomes a volume, and goes back into the modules.
#[test]
fn namespace_of_an_emulated_machine_holds_a_volume() {
    for format in FORMATS {
        let fixture = Fixture::new();
        let state = fixture.file("state");
        let run = |words: &str| {
            let mut command = command(words.split(' '));
            RunResult::of(command.env("LODE_STATE", &state).output().unwrap())
        };
        run("platform init lab-pair").success();
        run("ipmctl create -f -goal").success();
        run("platform reboot").success();
        run("ndctl create-namespace -m raw -s 32M").success();
        let export = |form: &str| {
            let _ = fs::remove_file(&fixture.path);
            run(&format!("platform image export namespace0.0 {} --for {form}", fixture.path())).success();
        };
        export("nvdimm");
        let labelled = fixture.create(&["--format", format]);
        labelled.failure(1, &["the label area of a memory module", "--for virtio-pmem"]);
        export("virtio-pmem");
        let made = fixture.create(&["--format", format]).json();
        assert_eq!(made["size"], 32 << 20);
        let content = fixture.import(&[]);
        run(&format!("platform image import {} --into namespace0.0", fixture.path())).success();
        export("virtio-pmem");
        assert_eq!(fixture.run("info").json(), made);
        fixture.run("check").success();
        assert!(fixture.exported() == content, "{format}");
        // The image for a module has the volume, and the labels of the namespace after it.
        export("nvdimm");
        assert_eq!(fixture.run("info").json()["format"], format);
        assert!(fixture.exported() == content, "{format}");
    }
}
