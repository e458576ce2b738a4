//! Namespaces are stored in labels and info blocks on the modules, and are read back from them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_nvdimm::{BttGeometry, BttVersion};
use lode_platform::goal::{self, GoalError};
use lode_platform::machine::Machine;
use lode_platform::namespace::{self, NamespaceError};
use lode_platform::ndctl::{self, Included, ListRequest};
use lode_platform::picture::{self, Palette, Scene};
use lode_platform::{
    BttSummary, CreateNamespace, Directory, GoalRequest, LabelVersion, MapLocation, Mode, Platform,
    PlatformError, Purpose, boot, region,
};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use uuid::Uuid;

/// A machine in a directory, its modules configured, with a generator of ascending UUIDs.
struct Emulated {
    _folder: TempDir,
    root: PathBuf,
    next: u128,
}

impl Emulated {
    fn new(machine: &str, labels: LabelVersion) -> Emulated {
        let folder = TempDir::new().unwrap();
        let root = folder.path().join("state");
        let text = Machine::included(machine).unwrap();
        let mut directory = Directory::init(&root, Path::new(machine), text).unwrap();
        directory
            .change(|platform| {
                let goals = goal::plan(platform, &GoalRequest { labels, ..GoalRequest::default() })?;
                goal::create(platform, goals);
                boot::reboot(platform);
                Ok::<_, PlatformError>(())
            })
            .unwrap();
        Emulated { _folder: folder, root, next: 1 }
    }

    fn change<T, E: Into<PlatformError>>(
        &self,
        change: impl FnOnce(&mut Platform) -> Result<T, E>,
    ) -> Result<T, PlatformError> {
        Directory::open(&self.root, Purpose::Change)?.change(change)
    }

    fn create(&mut self, wanted: &CreateNamespace) -> Result<String, PlatformError> {
        let mut next = self.next;
        let made = self.change(|platform| {
            namespace::create(platform, wanted, &mut || {
                next += 1;
                Uuid::from_u128(next)
            })
        });
        self.next = next;
        made.map(|namespace| namespace.device())
    }

    fn list(&self) -> String {
        let directory = Directory::open(&self.root, Purpose::ReadOnly).unwrap();
        let included = Included { regions: true, namespaces: true, idle: true, ..Included::default() };
        ndctl::inventory(directory.platform()).list(&ListRequest { included, ..ListRequest::default() })
    }

    fn namespaces(&self) -> Vec<(String, Mode, u64, bool)> {
        let directory = Directory::open(&self.root, Purpose::ReadOnly).unwrap();
        let platform = directory.platform();
        let all = platform.regions().into_iter().flat_map(|region| platform.namespaces(&region));
        all.map(|one| (one.device(), one.mode(), one.size, one.enabled)).collect()
    }
}

fn wanted(mode: Mode, mib: u64) -> CreateNamespace {
    CreateNamespace { mode, size: Some(mib << 20), ..CreateNamespace::default() }
}

#[test]
fn every_mode_round_trips_through_labels() {
    for labels in [LabelVersion::V1_1, LabelVersion::V1_2] {
        let mut machine = Emulated::new("lab-pair", labels);
        for (mode, mib) in [(Mode::Fsdax, 512), (Mode::Devdax, 256), (Mode::Sector, 128), (Mode::Raw, 32)] {
            machine.create(&wanted(mode, mib)).unwrap();
        }
        let expected = [(Mode::Fsdax, 512), (Mode::Devdax, 256), (Mode::Sector, 128), (Mode::Raw, 32)];
        let expected: Vec<_> = expected
            .into_iter()
            .enumerate()
            .map(|(number, (mode, mib))| (format!("namespace0.{number}"), mode, mib << 20, true))
            .collect();
        assert_eq!(machine.namespaces(), expected, "{labels:?}");
        let list = machine.list();
        assert!(
            list.contains("\"chardev\":\"dax0.1\"") && list.contains("\"blockdev\":\"pmem0.2s\""),
            "{list}"
        );
        let directory = Directory::open(&machine.root, Purpose::ReadOnly).unwrap();
        let picture = picture::terminal(&Scene::of(directory.platform()), 100, Palette::Plain);
        assert!(picture.contains("namespace0.1  devdax  256 MiB, 250 MiB usable  /dev/dax0.1 "), "{picture}");
        drop(directory);
        let free = (2048 - 512 - 256 - 128 - 32) << 20;
        assert!(list.contains(&format!("\"available_size\":{free},")), "{list}");
        machine.change(|platform| Ok::<_, PlatformError>(boot::reboot(platform))).unwrap();
        assert_eq!(machine.namespaces(), expected, "{labels:?}, after a start");
    }
}

/// After a reboot no numbers are recorded, and still the other namespaces keep theirs when one is destroyed.
#[test]
fn numbers_survive_destroy_of_another() {
    let mut machine = Emulated::new("lab-pair", LabelVersion::V1_2);
    for _ in 0..3 {
        machine.create(&wanted(Mode::Raw, 32)).unwrap();
    }
    machine.change(|platform| Ok::<_, PlatformError>(boot::reboot(platform))).unwrap();
    machine.change(|platform| namespace::destroy(platform, "namespace0.0", true)).unwrap();
    let names: Vec<String> = machine.namespaces().into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["namespace0.1", "namespace0.2"]);
    machine.change(|platform| namespace::destroy(platform, "namespace0.2", true)).unwrap();
    machine.change(|platform| Ok::<_, PlatformError>(boot::reboot(platform))).unwrap();
    assert_eq!(machine.namespaces()[0].0, "namespace0.0", "numbered as they lie");
}

/// Overwrites bytes of every module in region0, at an offset in the module's share.
fn scribble(machine: &Emulated, off: u64, bytes: &[u8]) {
    let directory = Directory::open(&machine.root, Purpose::ReadOnly).unwrap();
    for member in directory.platform().regions()[0].members() {
        let media = machine.root.join(format!("modules/{}.media", member.module));
        File::options().write(true).open(media).unwrap().write_all_at(bytes, member.offset + off).unwrap();
    }
}

#[test]
fn btt_is_valid_and_damage_is_found() {
    let mut machine = Emulated::new("lab-one", LabelVersion::V1_2);
    let check = |machine: &Emulated, name: &str| {
        Directory::open(&machine.root, Purpose::ReadOnly).unwrap().check_namespace(name)
    };
    let (_, arena) = BttGeometry::plan(64 << 20, 4096, BttVersion::V2_0).unwrap()[0];
    // The future range of the map holds data, for example of a former namespace.
    scribble(&machine, arena.mapoff(), &[0xff; 8192]);
    machine.create(&wanted(Mode::Sector, 64)).unwrap();
    let sectors = u64::from(arena.external_nlba());
    assert_eq!(check(&machine, "namespace0.0").unwrap(), BttSummary { arenas: 1, sectors });
    machine.create(&wanted(Mode::Raw, 32)).unwrap();
    let refused = check(&machine, "namespace0.1").unwrap_err().to_string();
    assert!(refused.contains("namespace0.1 has no atomic sectors"), "{refused}");
    for (off, bytes, sound, says) in [
        (arena.mapoff() + 4, [2, 0, 0, 0xc0], [0; 4], "block 2 of the data is in use twice"),
        (arena.flogoff() + 12, [2, 0, 0, 0], [1, 0, 0, 0], ""),
        (arena.flogoff() + 12, [4, 0, 0, 0], [1, 0, 0, 0], "seq in the flog of lane 0 is 4"),
        (arena.infooff(), [0; 4], *b"BTT_", "at its start and its end differ"),
        (0x30, [1, 0, 0, 0], [0; 4], "has no atomic sectors"),
    ] {
        scribble(&machine, off, &bytes);
        match check(&machine, "namespace0.0") {
            Ok(_) => assert_eq!(says, ""),
            Err(error) => assert!(!says.is_empty() && error.to_string().contains(says), "{says}: {error}"),
        }
        scribble(&machine, off, &sound);
    }
    assert!(check(&machine, "namespace0.0").is_ok());
}

#[test]
fn btt_over_two_modules_is_valid() {
    // The maps have an odd number of interleave lines: one module has one more of them than the other.
    for (labels, mib, sector_size, lines) in
        [(LabelVersion::V1_1, 64, 512, 127), (LabelVersion::V1_2, 112, 4224, 27)]
    {
        let mut machine = Emulated::new("lab-pair", labels);
        let one = CreateNamespace { sector_size: Some(sector_size), ..wanted(Mode::Sector, mib) };
        let version = if labels == LabelVersion::V1_1 { BttVersion::V1_1 } else { BttVersion::V2_0 };
        let (start, arena) = BttGeometry::plan(mib << 20, sector_size as u32, version).unwrap()[0];
        assert_eq!((arena.flogoff() - arena.mapoff()) / 4096, lines);
        // The future range of map and flog holds data on both modules.
        let first = (start + arena.mapoff()) / 8192 * 4096;
        let last = (start + arena.flogoff()) / 8192 * 4096 + 8192;
        scribble(&machine, first, &vec![0xff; (last - first) as usize]);
        machine.create(&one).unwrap();
        machine.create(&one).unwrap();
        let directory = Directory::open(&machine.root, Purpose::ReadOnly).unwrap();
        for name in ["namespace0.0", "namespace0.1"] {
            assert_eq!(directory.check_namespace(name).unwrap().arenas, 1, "{labels:?}");
        }
    }
}

#[test]
fn destroy_frees_space_and_number() {
    let mut machine = Emulated::new("lab-pair", LabelVersion::V1_2);
    for _ in 0..3 {
        machine.create(&wanted(Mode::Fsdax, 512)).unwrap();
    }
    let refused = machine.change(|platform| namespace::destroy(platform, "namespace0.1", false));
    assert!(
        matches!(refused, Err(PlatformError::Namespace(NamespaceError::NamespaceActive { .. }))),
        "{refused:?}"
    );
    machine.change(|platform| namespace::enable(platform, "namespace0.1", false)).unwrap();
    assert!(!machine.namespaces()[1].3);
    machine.change(|platform| namespace::destroy(platform, "namespace0.1", false)).unwrap();
    let left: Vec<_> = machine.namespaces().into_iter().map(|(name, ..)| name).collect();
    assert_eq!(left, ["namespace0.0", "namespace0.2"]);
    // A raw namespace takes its place: the info block of the page map is cleared.
    assert_eq!(machine.create(&wanted(Mode::Raw, 512)).unwrap(), "namespace0.1");
    assert_eq!(machine.namespaces()[1].1, Mode::Raw);
    machine.change(|platform| namespace::destroy(platform, "namespace0.0", true)).unwrap();
    machine.change(|platform| Ok::<_, PlatformError>(boot::reboot(platform))).unwrap();
    let numbered: Vec<_> = machine.namespaces().into_iter().map(|(name, mode, ..)| (name, mode)).collect();
    assert_eq!(numbered, [("namespace0.0".into(), Mode::Raw), ("namespace0.1".into(), Mode::Fsdax)]);
}

#[test]
fn reconfigure_keeps_place() {
    let mut machine = Emulated::new("lab-one", LabelVersion::V1_2);
    let name = "data".to_owned();
    machine.create(&CreateNamespace { name, map: MapLocation::Mem, ..wanted(Mode::Fsdax, 256) }).unwrap();
    let devdax = CreateNamespace { mode: Mode::Devdax, ..CreateNamespace::default() };
    let mut next = 100;
    let mut uuids = || {
        next += 1;
        Uuid::from_u128(next)
    };
    machine
        .change(|platform| namespace::reconfigure(platform, "namespace0.0", &devdax, true, true, &mut uuids))
        .unwrap();
    let list = machine.list();
    for part in ["\"mode\":\"devdax\"", "\"map\":\"mem\"", "\"name\":\"data\"", "\"chardev\":\"dax0.0\""] {
        assert!(list.contains(part), "no {part} in {list}");
    }
}

/// Kernels keep the device of a reconfigured namespace, and its place; both tell the kernel's order at the next start.
#[test]
fn reconfigured_namespace_keeps_number_and_offset() {
    let mut machine = Emulated::new("lab-one", LabelVersion::V1_2);
    for _ in 0..3 {
        machine.create(&wanted(Mode::Raw, 64)).unwrap();
    }
    machine.change(|platform| namespace::destroy(platform, "namespace0.0", true)).unwrap();
    let mut next = 100;
    let mut reconfigure = |mib| {
        let change = machine.change(|platform| {
            next += 1;
            let parameters = wanted(Mode::Sector, mib);
            let mut uuids = || Uuid::from_u128(u128::from(mib) << 64 | next);
            namespace::reconfigure(platform, "namespace0.2", &parameters, true, true, &mut uuids)
        });
        let changed = change.unwrap();
        (changed.number, changed.offset >> 20)
    };
    assert_eq!(reconfigure(64), (2, 128));
    assert_eq!(reconfigure(32), (2, 128));
    assert_eq!(reconfigure(256), (2, 128), "the room after it is free");
}

/// A region that is enabled again finds its namespaces in the order of their places, all enabled.
#[test]
fn enabled_region_finds_namespaces_anew() {
    let mut machine = Emulated::new("lab-one", LabelVersion::V1_2);
    for mode in [Mode::Raw, Mode::Fsdax, Mode::Sector] {
        machine.create(&wanted(mode, 64)).unwrap();
    }
    machine.change(|platform| namespace::destroy(platform, "namespace0.0", true)).unwrap();
    machine.change(|platform| namespace::enable(platform, "namespace0.2", false)).unwrap();
    machine.change(|platform| region::enable(platform, 0, false)).unwrap();
    machine.change(|platform| region::enable(platform, 0, true)).unwrap();
    let found: Vec<_> =
        machine.namespaces().into_iter().map(|(name, mode, _, on)| (name, mode, on)).collect();
    let expected =
        [("namespace0.0".to_owned(), Mode::Fsdax, true), ("namespace0.1".to_owned(), Mode::Sector, true)];
    assert_eq!(found, expected);
}

/// Labels have the sector size that devices can have: ndctl sets it from that of a table, if it can.
#[test]
fn labels_have_sector_sizes_of_devices() {
    let mut machine = Emulated::new("lab-one", LabelVersion::V1_2);
    let mut sizes = Vec::new();
    for sector_size in [None, Some(512), Some(520), Some(4096), Some(4160)] {
        machine.create(&CreateNamespace { sector_size, ..wanted(Mode::Sector, 64) }).unwrap();
        let area = Directory::open(&machine.root, Purpose::ReadOnly).unwrap().label_area(0).unwrap();
        let area = lode_nvdimm::LabelArea::read(&area).unwrap();
        let found = area.labels().filter_map(|(_, label)| match label {
            lode_nvdimm::Label::Namespace(label) => Some((label.dpa, label.lba_size)),
            _ => None,
        });
        sizes.push(found.max().unwrap().1);
    }
    assert_eq!(sizes, [4096, 512, 0, 4096, 0]);
}

#[test]
fn unfit_namespaces_are_refused_unchanged() {
    let mut machine = Emulated::new("lab-pair", LabelVersion::V1_2);
    let before = machine.list();
    use NamespaceError as E;
    let refused = machine.create(&wanted(Mode::Fsdax, 24));
    assert!(
        matches!(refused, Err(PlatformError::Namespace(E::Misaligned { ways: 2, fitting, .. })) if fitting == 32 << 20),
        "{refused:?}"
    );
    let refused = machine.create(&wanted(Mode::Fsdax, 4096));
    assert!(
        matches!(refused, Err(PlatformError::Namespace(E::NoSpace { region: None, largest, .. })) if largest == 2 << 30),
        "{refused:?}"
    );
    let refused = machine.create(&CreateNamespace { region: Some(7), ..CreateNamespace::default() });
    assert!(matches!(refused, Err(PlatformError::Namespace(E::UnknownRegion { region: 7 }))), "{refused:?}");
    let refused = machine.create(&CreateNamespace { align: Some(3 << 20), ..wanted(Mode::Fsdax, 64) });
    assert!(matches!(refused, Err(PlatformError::Namespace(E::Align { .. }))), "{refused:?}");
    let refused = machine.create(&CreateNamespace { sector_size: Some(1000), ..wanted(Mode::Sector, 64) });
    assert!(matches!(refused, Err(PlatformError::Namespace(E::SectorSize { size: 1000 }))), "{refused:?}");
    let refused = machine.create(&CreateNamespace { name: "n".repeat(64), ..wanted(Mode::Raw, 64) });
    assert!(matches!(refused, Err(PlatformError::Namespace(E::Labels { .. }))), "{refused:?}");
    assert_eq!(machine.list(), before);
    machine.change(|platform| region::enable(platform, 0, false)).unwrap();
    let refused = machine.create(&CreateNamespace { region: Some(0), ..CreateNamespace::default() });
    assert!(matches!(refused, Err(PlatformError::Namespace(E::RegionDisabled { region: 0 }))), "{refused:?}");
}

#[test]
fn stale_info_blocks_are_ignored() {
    let mut machine = Emulated::new("lab-one", LabelVersion::V1_2);
    for mode in [Mode::Fsdax, Mode::Sector] {
        machine.create(&wanted(mode, 256)).unwrap();
        machine.change(|platform| region::enable(platform, 0, false)).unwrap();
        machine
            .change(|platform| namespace::init_labels(platform, 0, Some(LabelVersion::V1_2), true))
            .unwrap();
        machine.change(|platform| region::enable(platform, 0, true)).unwrap();
        machine.create(&wanted(Mode::Raw, 256)).unwrap();
        assert_eq!(machine.namespaces()[0].1, Mode::Raw);
        machine.change(|platform| namespace::destroy(platform, "namespace0.0", true)).unwrap();
    }
}

#[test]
fn goal_refuses_modules_with_namespaces() {
    let mut machine = Emulated::new("lab-pair", LabelVersion::V1_2);
    machine.create(&wanted(Mode::Raw, 64)).unwrap();
    let refused = machine.change(|platform| goal::plan(platform, &GoalRequest::default()));
    let Err(PlatformError::Goal(GoalError::ModuleInUse { namespace, .. })) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(namespace, "namespace0.0");
}

#[test]
fn label_slots_limit_namespaces() {
    let text = Machine::included("lab-one").unwrap().replace("firmware", "label_area = \"2KiB\"\nfirmware");
    let folder = TempDir::new().unwrap();
    let mut directory = Directory::init(&folder.path().join("s"), Path::new("small"), &text).unwrap();
    let mut next = 0;
    let mut made = 0;
    let refused = directory.change(|platform| {
        let goals = goal::plan(platform, &GoalRequest::default())?;
        goal::create(platform, goals);
        boot::reboot(platform);
        Ok::<_, PlatformError>(())
    });
    refused.unwrap();
    let error = loop {
        let change = directory.change(|platform| {
            namespace::create(platform, &wanted(Mode::Raw, 16), &mut || {
                next += 1;
                Uuid::from_u128(next)
            })
        });
        match change {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("label slots are in use"), "{error}");
    assert!((1..10).contains(&made), "{made}");
}

#[test]
fn label_areas_are_initialized_copied_and_torn() {
    let mut machine = Emulated::new("lab-pair", LabelVersion::V1_2);
    machine.create(&wanted(Mode::Fsdax, 512)).unwrap();
    let area = Directory::open(&machine.root, Purpose::ReadOnly).unwrap().label_area(1).unwrap();
    let refused =
        machine.change(|platform| namespace::init_labels(platform, 1, Some(LabelVersion::V1_2), true));
    assert!(
        matches!(refused, Err(PlatformError::Namespace(NamespaceError::RegionActive { .. }))),
        "{refused:?}"
    );
    machine.change(|platform| region::enable(platform, 0, false)).unwrap();
    let refused =
        machine.change(|platform| namespace::init_labels(platform, 1, Some(LabelVersion::V1_2), false));
    assert!(
        matches!(refused, Err(PlatformError::Namespace(NamespaceError::LabelsExist { .. }))),
        "{refused:?}"
    );
    machine.change(|platform| namespace::init_labels(platform, 1, Some(LabelVersion::V1_2), true)).unwrap();
    assert!(machine.namespaces().is_empty(), "a namespace with half of its labels is none");
    let refused = machine.change(|platform| namespace::write_labels(platform, 1, vec![0; 100]));
    assert!(
        matches!(refused, Err(PlatformError::Namespace(NamespaceError::LabelAreaSize { found: 100, .. }))),
        "{refused:?}"
    );
    machine.change(|platform| namespace::write_labels(platform, 1, area)).unwrap();
    assert_eq!(machine.namespaces().len(), 1, "back again");
    // Both index blocks are torn: the region has no usable labels, and the error reports this.
    machine.change(|platform| namespace::write_labels(platform, 1, vec![0x5a; 128 << 10])).unwrap();
    machine.change(|platform| region::enable(platform, 0, true)).unwrap();
    let refused = machine.create(&wanted(Mode::Raw, 64));
    assert!(matches!(refused, Err(PlatformError::Namespace(NamespaceError::Labels { .. }))), "{refused:?}");
    machine.change(|platform| region::enable(platform, 0, false)).unwrap();
    machine.change(|platform| namespace::init_labels(platform, 1, None, true)).unwrap();
    let area = Directory::open(&machine.root, Purpose::ReadOnly).unwrap().label_area(1).unwrap();
    assert!(area.iter().all(|byte| *byte == 0), "what was torn is gone, too");
    assert_eq!(machine.namespaces()[0].1, Mode::Raw, "without labels a region is one namespace");
}
