//! Images of emulated machines: exported, listed and imported.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{PoolFixture, RunResult, documented_fields, json_fields, lode, text};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::process::Command;

/// A machine with a namespace of 512 MiB, mode fsdax, in a directory.
struct Emulated {
    fixture: PoolFixture,
    state: PathBuf,
}

impl Emulated {
    fn new() -> Emulated {
        let fixture = PoolFixture::new();
        let state = fixture.folder.path().join("state");
        let machine = Emulated { fixture, state };
        machine.run("platform init lab-pair").success();
        machine.run("ipmctl create -f -goal").success();
        machine.run("platform reboot").success();
        machine.run("ndctl create-namespace -m fsdax -s 512M -n stone").success();
        machine
    }

    /// Runs a command on the machine; arguments that begin with @ are files beside it.
    fn run(&self, words: &str) -> RunResult {
        let word = |word: &str| match word.strip_prefix('@') {
            Some(name) => text(&self.file(name)).to_owned(),
            None => word.to_owned(),
        };
        let words: Vec<String> = words.split(' ').map(word).collect();
        let mut command = crate::program::command(&words);
        RunResult::of(command.env("LODE_STATE", &self.state).output().unwrap())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.fixture.folder.path().join(name)
    }
}

#[test]
fn region_image_round_trips() {
    let machine = Emulated::new();
    let made = machine.run("--json platform image export region0 @region.img --slot 1").json();
    assert_eq!((&made["data_len"], &made["label_len"]), (&(2_u64 << 30).into(), &(128 << 10).into()));
    assert_eq!(made["namespaces"], serde_json::json!(["namespace0.0"]));
    let words: Vec<&str> =
        made["qemu"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let path = machine.file("region.img");
    let object = format!("memory-backend-file,id=mem1,mem-path={},size=2147614720,share=on", path.display());
    let device = "nvdimm,id=nvdimm1,memdev=mem1,label-size=131072,slot=1";
    let memory = "1024M,slots=2,maxmem=8192M";
    let whole = "q35,nvdimm=on,nvdimm-persistence=mem-ctrl";
    assert_eq!(words, ["-machine", whole, "-m", memory, "-object", &object, "-device", device]);
    assert!(fs::metadata(&path).unwrap().blocks() < 1000, "it is sparse");
    let shown = lode(["--json", "platform", "image", "show", text(&path)]).json();
    assert_eq!((&shown["slot"], &shown["version"]), (&1.into(), &"1.2".into()));
    let namespace = &shown["namespaces"][0];
    assert_eq!((&namespace["mode"], &namespace["name"]), (&"fsdax".into(), &"stone".into()));
    assert_eq!(namespace["file_system"], serde_json::Value::Null);
    assert_eq!(shown["labels"][0]["uuid"], namespace["uuid"]);
    let listing = lode(["platform", "image", "show", text(&path), "--ndctl"]).success();
    assert!(
        listing.contains("\"id\":\"8680-57341200\"") && listing.contains("\"phys_id\":\"0\""),
        "{listing}"
    );
    fs::File::options().write(true).open(&path).unwrap().write_all_at(b"of the kernel", 100 << 20).unwrap();
    let told = machine.run("platform image import @region.img").success();
    assert!(told.ends_with("went into region0: 1 namespaces, 0 of them new, 0 gone\n"), "{told}");
    machine.run("platform image export namespace0.0 @namespace.img").success();
    let bytes = fs::read(machine.file("namespace.img")).unwrap();
    assert_eq!(&bytes[100 << 20..][..13], b"of the kernel");
    let done = machine.run("--json platform image import @namespace.img").json();
    assert_eq!((&done["into"], &done["made"], &done["gone"]), (&"namespace0.0".into(), &0.into(), &0.into()));
}

#[test]
fn poisoned_sectors_block_export_until_import() {
    let machine = Emulated::new();
    machine.run("platform image export region0 @before.img").success();
    machine.run("ndctl inject-error namespace0.0 --block 5000 --count 8").success();
    let lost = "the range of 4096 bytes at";
    for (source, form) in [
        ("region0", "nvdimm"),
        ("namespace0.0", "nvdimm"),
        ("namespace0.0", "virtio-pmem"),
        ("nmem1", "nvdimm"),
        ("nmem0", "nvdimm"),
    ] {
        // The sectors lie on one of the two modules.
        let export = machine.run(&format!("platform image export {source} @lost.img --for {form}"));
        if source == "nmem0" {
            export.success();
        } else {
            export.failure(1, &[lost, "can't be read"]);
        }
        assert_eq!(machine.file("lost.img").exists(), source == "nmem0", "{source}");
    }
    machine.run("platform image import @before.img").success();
    machine.run("platform image export region0 @after.img").success();
}

#[test]
fn mkfs_needs_no_mount() {
    let machine = Emulated::new();
    let made = machine.run("--json platform mkfs namespace0.0 ext4 -- -L lodestone").json();
    assert_eq!((&made["kind"], &made["label"]), (&"ext4".into(), &"lodestone".into()));
    for (form, name) in [("nvdimm", "n.img"), ("virtio-pmem", "v.img"), ("kata-root", "k.img")] {
        machine.run(&format!("platform image export namespace0.0 @{name} --for {form}")).success();
        let shown = machine.run(&format!("--json platform image show @{name}")).json();
        let found = &shown["namespaces"][0]["file_system"];
        assert_eq!((&found["uuid"], &found["label"]), (&made["uuid"], &"lodestone".into()), "{form}");
        assert_eq!(found["offset"], if form == "kata-root" { 1 << 20 } else { 0 });
    }
    let told = Command::new("dumpe2fs").arg("-h").arg(machine.file("v.img")).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    let number = |name: &str| -> u64 {
        let line =
            told.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {told}"));
        line.trim().parse().unwrap()
    };
    let total = (number("Block count:") - number("Overhead clusters:")) * number("Block size:");
    let json = machine.run("--json platform df").json();
    let listed = &json["file_systems"][0];
    assert_eq!((&listed["total"], &listed["uuid"]), (&total.into(), &made["uuid"]));
    assert_eq!(json_fields(&[json]), documented_fields(&["platform", "df"]));
    let table = machine.run("platform df").success();
    assert!(
        table.starts_with("Filesystem     1K-blocks  Used Available Use% Mounted on\n/dev/pmem0 "),
        "{table}"
    );
    assert!(table.ends_with(" /mnt/pmem0\n") && table.contains(&(total >> 10).to_string()), "{table}");
    let mounts = machine.run("platform df --mounts namespace0.0").success();
    assert_eq!(mounts, "/dev/pmem0 on /mnt/pmem0 type ext4 (rw,relatime,dax=always)\n");
    let made = machine.run("--json platform mkfs namespace0.0 xfs").json();
    assert_eq!(made["kind"], "xfs");
    assert!(machine.run("platform df --mounts").success().contains("type xfs"));
    machine.run("platform image import @v.img --into namespace0.0").success();
    machine.run("platform image export namespace0.0 @again.img --for virtio-pmem").success();
    assert!(fs::read(machine.file("v.img")).unwrap() == fs::read(machine.file("again.img")).unwrap());
    machine.run("ndctl disable-namespace namespace0.0").success();
    machine
        .run("platform mkfs namespace0.0 ext4")
        .failure(1, &["namespace0.0 is disabled", "enable-namespace"]);
    machine.run("ndctl enable-namespace namespace0.0").success();
    let failed = machine.run("platform mkfs namespace0.0 ext4 -- -O no-such-feature");
    failed.failure(1, &["mke2fs failed", "no-such-feature"]);
    for (kind, dry_run) in [("ext4", "-n"), ("xfs", "-N"), ("ext4", "-V")] {
        let dry_run = machine.run(&format!("platform mkfs namespace0.0 {kind} -- {dry_run}"));
        dry_run.failure(1, &["it made no file system"]);
    }
    let too_large = machine.run("platform mkfs namespace0.0 xfs -- -d file,size=1g");
    too_large.failure(1, &["the file system is larger than the namespace"]);
    machine.run("platform image export namespace0.0 @kept.img --for virtio-pmem").success();
    assert!(fs::read(machine.file("kept.img")).unwrap() == fs::read(machine.file("v.img")).unwrap());
    machine.run("ndctl create-namespace -m raw -s 64M").success();
    machine.run("platform mkfs namespace0.1 ext4").failure(1, &["namespace0.1 is not in use as fsdax"]);
    assert!(!machine.state.join("staged").exists());
}

/// Any program may have written the names in an image.
#[test]
fn image_names_are_escaped_on_terminal() {
    let machine = Emulated::new();
    machine.run("ndctl create-namespace -m raw -s 64M -n \x1b[2J\nred").success();
    machine.run("platform mkfs namespace0.0 ext4 -- -L \x1b[31m\n").success();
    machine.run("platform image export region0 @region.img").success();
    machine.run("platform image export nmem0 @module.img").success();
    for image in ["region", "module"] {
        let shown = machine.run(&format!("platform image show @{image}.img")).success();
        assert!(shown.contains("\"\u{fffd}[2J\u{fffd}red\"") && !shown.contains('\x1b'), "{shown:?}");
    }
}

#[test]
fn invalid_images_are_rejected_with_hint() {
    let machine = Emulated::new();
    machine.run("platform image export region0 @good.img").success();
    machine.run("platform image export region0 @good.img").failure(1, &["good.img", "is there already"]);
    machine.run("platform image export region7 @x.img").failure(1, &["no region7"]);
    machine.run("platform image export stone @x.img").failure(1, &["neither a region"]);
    machine
        .run("platform image export region0 @x.img --for virtio-pmem")
        .failure(1, &["made of a namespace"]);
    machine.run("platform image import @x.img").failure(1, &["x.img", "No such file"]);
    machine.run("platform image show @state").failure(1, &["state: it is no regular file"]);
    let list = machine.run("ndctl list -RN").success();
    let change = |off: u64, bytes: &[u8]| {
        let file = fs::File::options().write(true).open(machine.file("good.img")).unwrap();
        file.write_all_at(bytes, off).unwrap();
    };
    change((2 << 30) + 512 + 100, b"torn");
    machine.run("platform image import @good.img").failure(1, &["the label in slot 0"]);
    let shown = machine.run("platform image show @good.img");
    assert!(shown.out.contains("  fault: the label in slot 0"), "{shown:?}");
    shown.failure(3, &[]);
    change((2 << 30) + 50, &[0xff; 4]);
    change((2 << 30) + 256 + 50, &[0xff; 4]);
    machine
        .run("platform image import @good.img")
        .failure(1, &["the label area at 0x80000000", "--label-size"]);
    fs::File::options()
        .write(true)
        .open(machine.file("good.img"))
        .unwrap()
        .set_len((2 << 30) + 4096)
        .unwrap();
    machine.run("platform image import @good.img").failure(1, &["was it cut off?"]);
    fs::File::options().write(true).open(machine.file("good.img")).unwrap().set_len(1 << 30).unwrap();
    machine.run("platform image import @good.img").failure(1, &["region, namespace or module", "--into"]);
    machine
        .run("platform image import @good.img --into region0")
        .failure(1, &["an image of region0 has 2147483648"]);
    assert_eq!(machine.run("ndctl list -RN").success(), list);
    assert!(!machine.file("x.img").exists());
}
