//! Namespaces leave their modules with all their bytes, modules are exchanged, and everything comes back.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, reason = "other tests use the rest")]
mod random;

use lode_platform::dax::{self, DeviceId, MemoryZone, Reconfigured};
use lode_platform::goal::{self, GoalRequest};
use lode_platform::image::{CopyProgress, ExportImage, Image, ImageFormat, ImportImage, QemuSlot};
use lode_platform::machine::{Handle, Health, Module, Security};
use lode_platform::namespace::{self, NamespaceError};
use lode_platform::ndctl;
use lode_platform::plan::{self, NamespaceRequest, PlanRequest, Table};
use lode_platform::relocate::{
    Destination, EvacuationRequest, ExchangeRequest, ExtensionRequest, Place, RelocateError, Stage,
    evacuation_script, extension, real_evacuation,
};
use lode_platform::{CreateNamespace, Directory, MapLocation, Mode, PlatformError, Purpose, boot, region};
use lode_testing::{scaled, seed};
use random::Random;
use rustix::fs::{SeekFrom, seek};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use uuid::Uuid;

const MIB: u64 = 1 << 20;

/// A machine in a directory, with files beside it.
struct Emulated {
    folder: TempDir,
    next: u128,
}

/// Content and parameters of a namespace: mode, usable bytes, and its bytes that are not zero by their offset.
type Content = (Mode, u64, Vec<(u64, Vec<u8>)>);

impl Emulated {
    fn new(text: &str) -> Emulated {
        let machine = Emulated { folder: TempDir::new().unwrap(), next: 1 << 100 };
        Directory::init(&machine.state(), Path::new("text"), text).unwrap();
        machine
    }

    /// Returns a machine with two sockets of two modules each, interleaved.
    fn pairs() -> Emulated {
        let mut machine = Emulated::new(&text_of(&[0x1, 0x101, 0x1001, 0x1101], 1344));
        machine.interleave();
        machine
    }

    fn interleave(&mut self) {
        self.open()
            .change(|platform| {
                let goals = goal::plan(platform, &GoalRequest::default())?;
                goal::create(platform, goals);
                boot::reboot(platform);
                Ok::<_, PlatformError>(())
            })
            .unwrap();
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn open(&self) -> Directory {
        Directory::open(&self.state(), Purpose::Change).unwrap()
    }

    fn uuids(&mut self) -> impl FnMut() -> Uuid + use<> {
        self.next += 1 << 32;
        let mut next = self.next;
        move || {
            next += 1;
            Uuid::from_u128(next)
        }
    }

    /// Makes a namespace, and writes its name and its number all over it.
    fn make(&mut self, wanted: &CreateNamespace) -> Result<String, PlatformError> {
        let uuids = &mut self.uuids();
        let mut directory = self.open();
        let made = directory.change(|platform| namespace::create(platform, wanted, uuids))?;
        let device = made.device();
        let path = self.file("content.img");
        let file = File::create(&path).unwrap();
        file.set_len(made.usable().next_multiple_of(2 * MIB)).unwrap();
        let end = made.usable() - made.usable() % 4096;
        for off in [0, 4096, 3 * MIB + 512, end / 2 / 4096 * 4096, end - 4096] {
            let text = format!("{} {device} {off} ", wanted.name).repeat(60);
            file.write_all_at(&text.as_bytes()[..512], off).unwrap();
        }
        let image = Image::open(&path, Some(0)).unwrap();
        let into = ImportImage { into: Some(device.clone()), ..ImportImage::default() };
        with_progress(|progress| directory.import_image(&image, &into, progress)).unwrap();
        Ok(device)
    }

    /// Returns the contents of all namespaces with a name, by their names.
    fn contents(&self) -> BTreeMap<String, Content> {
        let directory = Directory::open(&self.state(), Purpose::ReadOnly).unwrap();
        let platform = directory.platform();
        let mut found = BTreeMap::new();
        for region in platform.regions() {
            for one in platform.namespaces(&region).into_iter().filter(|one| !one.name.is_empty()) {
                let path = self.file("exported.img");
                let _ = fs::remove_file(&path);
                let (source, format) = (one.device(), ImageFormat::VirtioPmem);
                let wanted = ExportImage { source, format, slot: QemuSlot(0) };
                with_progress(|progress| directory.export_image(&wanted, &path, Uuid::nil(), progress))
                    .unwrap();
                let content = (one.mode(), one.usable(), data(&path));
                assert_eq!(found.insert(one.name.clone(), content), None, "{} is there twice", one.name);
            }
        }
        found
    }

    fn evacuate(&mut self, module: u32, to: &[Destination]) -> Result<(), PlatformError> {
        let request =
            EvacuationRequest { module: Handle(module), to: to.to_vec(), exchange: false, force: false };
        let uuids = &mut self.uuids();
        let mut directory = self.open();
        let plan = directory.plan_evacuation(&request, uuids)?;
        let after = plan.after.clone();
        with_progress(|progress| directory.evacuate(&plan, uuids, progress, &mut |_, _| {}))?;
        assert_eq!(Table::of(&after), Table::of(directory.platform()), "as planned");
        let again = directory.plan_evacuation(&request, uuids)?;
        assert!(again.moves.is_empty(), "nothing is left to do");
        Ok(())
    }

    fn replace(&mut self, request: &ExchangeRequest) -> Result<(), PlatformError> {
        let uuids = &mut self.uuids();
        let mut directory = self.open();
        let plan = directory.plan_exchange(request, uuids)?;
        with_progress(|progress| directory.replace(&plan, uuids, progress, &mut |_, _| {}))?;
        assert_eq!(Table::of(&plan.after), Table::of(directory.platform()), "as planned");
        let left = &directory.platform().state.relocations;
        assert!(left.iter().all(|one| one.module != Some(request.module)), "{left:?}");
        Ok(())
    }
}

fn with_progress<T>(work: impl FnOnce(&mut CopyProgress<'_>) -> T) -> T {
    work(&mut CopyProgress::new(&mut |_| ControlFlow::Continue(())))
}

/// Returns the sectors of a file that are not zero, without reading holes.
fn data(path: &Path) -> Vec<(u64, Vec<u8>)> {
    let file = File::open(path).unwrap();
    let mut found = Vec::new();
    let mut at = 0;
    while let Ok(start) = seek(&file, SeekFrom::Data(at)) {
        at = seek(&file, SeekFrom::Hole(start)).unwrap();
        let mut bytes = vec![0; (at - start) as usize];
        file.read_exact_at(&mut bytes, start).unwrap();
        let sectors = (start..).step_by(512).zip(bytes.chunks(512));
        let sectors = sectors.filter(|(_, one)| one.iter().any(|byte| *byte != 0));
        found.extend(sectors.map(|(off, one)| (off, one.to_vec())));
    }
    found
}

/// Returns the sections of modules in these slots.
fn modules_text(handles: &[u32], mib: u64, serial: u32) -> String {
    let module = |(handle, serial): (&u32, u32)| {
        format!(
            "[[module]]\nhandle = {handle:#06x}\nphysical_id = {serial}\nlocator = \"SLOT{handle:x}\"\n\
             capacity = \"{mib}MiB\"\nid = \"8089-a2-2140-{serial:08x}\"\n"
        )
    };
    handles.iter().zip(serial..).map(module).collect()
}

fn text_of(handles: &[u32], mib: u64) -> String {
    let head =
        "# A machine of tests\nname = \"pairs\"\n[profile]\nipmctl = 3\nndctl = 76\nkernel = \"6.1\"\n";
    let dram = [0, 1].map(|socket| {
        format!(
            "[[dram]]\nsocket = {socket}\nphysical_id = {}\nlocator = \"D{socket}\"\ncapacity = \"1GiB\"\n",
            90 + socket
        )
    });
    format!("{head}{}{}", modules_text(handles, mib, 1), dram.concat())
}

fn wanted(name: &str, mode: Mode, mib: u64, region: u32) -> CreateNamespace {
    let (size, name) = (Some(mib * MIB), name.to_owned());
    CreateNamespace { mode, size, name, region: Some(region), ..CreateNamespace::default() }
}

fn exchange(module: u32) -> ExchangeRequest {
    ExchangeRequest { module: Handle(module), new: None, labels: None, to: Vec::new(), force: false }
}

/// Makes a namespace of each mode in a region.
fn make_each_mode(machine: &mut Emulated, region: u32) {
    for (mode, mib, sector_size) in [
        (Mode::Fsdax, 96, None),
        (Mode::Devdax, 64, None),
        (Mode::Sector, 64, Some(512)),
        (Mode::Sector, 64, Some(4160)),
        (Mode::Raw, 32, None),
    ] {
        let name = format!("{mode:?} {sector_size:?}");
        let wanted = CreateNamespace { sector_size, ..wanted(&name, mode, mib, region) };
        machine.make(&wanted).unwrap();
    }
    let mem = CreateNamespace { map: MapLocation::Mem, ..wanted("in DRAM", Mode::Fsdax, 64, region) };
    machine.make(&mem).unwrap();
}

#[test]
fn evacuation_and_replacement_keep_all_bytes() {
    let mut machine = Emulated::pairs();
    make_each_mode(&mut machine, 0);
    let before = machine.contents();
    assert!(before.values().all(|(.., data)| data.len() >= 5), "each has data");
    machine.evacuate(0x101, &[]).unwrap();
    assert_eq!(machine.contents(), before);
    {
        let directory = machine.open();
        let region = &directory.platform().regions()[0];
        assert_eq!(directory.platform().namespaces(region), [], "the whole set is free");
        assert!(directory.platform().state.relocations.iter().all(|one| one.stage == Stage::Away));
    }
    machine.replace(&exchange(0x101)).unwrap();
    assert_eq!(machine.contents(), before);
    let directory = machine.open();
    let platform = directory.platform();
    assert_eq!(platform.namespaces(&platform.regions()[0]).len(), before.len(), "all are at home");
    assert_eq!(platform.namespaces(&platform.regions()[1]), []);
    let text = fs::read_to_string(machine.state().join("machine.toml")).unwrap();
    assert!(
        text.starts_with(
            "# A machine of tests\n# 0x0101: 8089-a2-2140-00000002 was exchanged for 8089-a2-2140-00000005\n"
        ),
        "{text}"
    );
}

#[test]
fn files_hold_what_no_region_takes() {
    let mut machine = Emulated::new(&text_of(&[0x1, 0x101], 1344));
    machine.interleave();
    make_each_mode(&mut machine, 0);
    let before = machine.contents();
    let refused = machine.evacuate(0x1, &[]).unwrap_err();
    assert!(
        refused.to_string().contains("96 MiB are missing; no other region takes namespaces"),
        "{refused}"
    );
    let folder = machine.file("away");
    let no_folder = machine.evacuate(0x1, &[Destination::Folder(folder.clone())]).unwrap_err();
    assert!(matches!(no_folder, PlatformError::Relocate(RelocateError::NoPlace { .. })), "{no_folder}");
    fs::create_dir(&folder).unwrap();
    machine.evacuate(0x1, &[Destination::Folder(folder.clone())]).unwrap();
    assert_eq!(machine.contents(), BTreeMap::new());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), before.len());
    // The file is an image of the data, as virtual machines take it.
    let files = machine.open().platform().state.relocations.clone();
    for one in files {
        let Place::File(path) = one.place else { panic!("{one:?}") };
        assert_eq!(data(&path), before[&one.name].2, "{}", one.name);
    }
    machine.replace(&exchange(0x1)).unwrap();
    assert_eq!(machine.contents(), before);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "the files are used up");
}

#[test]
fn refusals_name_what_is_missing_and_change_nothing() {
    let mut machine = Emulated::pairs();
    machine.make(&wanted("large", Mode::Fsdax, 1024, 0)).unwrap();
    machine.make(&wanted("other", Mode::Fsdax, 1536, 1)).unwrap();
    let before = machine.contents();
    let said = |error: PlatformError| error.to_string();
    let refused = said(machine.evacuate(0x1, &[]).unwrap_err());
    assert!(refused.contains("512 MiB are missing; region1 has 512 MiB free at once"), "{refused}");
    let unknown = machine.evacuate(0x77, &[]).unwrap_err();
    assert!(said(unknown).contains("there is no module 0x0077"));
    let own = machine.evacuate(0x1, &[Destination::Region(0)]).unwrap_err();
    assert!(said(own).contains("region0 has a part on 0x0001"));
    let none = machine.evacuate(0x1, &[Destination::Region(9)]).unwrap_err();
    assert!(matches!(none, PlatformError::Namespace(NamespaceError::UnknownRegion { region: 9 })));
    let new = |change: &dyn Fn(&mut Module)| {
        let mut new = Module::parse_all(&modules_text(&[0x1], 1344, 77)).unwrap().remove(0);
        change(&mut new);
        ExchangeRequest {
            new: Some(new),
            to: vec![Destination::Folder(machine.folder.path().into())],
            ..exchange(0x1)
        }
    };
    type Change = dyn Fn(&mut Module);
    let all_dead: &Change = &|new| new.health = Health::NonFunctional;
    let requests = [
        (new(all_dead), "is dead; take another one"),
        (new(&|new| new.security = Security::Locked), "is locked; unlock and erase it"),
        (new(&|new| new.security = Security::Unlocked), "has a passphrase; remove the passphrase"),
        (new(&|new| new.handle = Handle(2)), "is described for slot 0x0002"),
        (new(&|new| new.identity = "8089-a2-2140-00000001".parse().ok()), "is the one that is in the slot"),
        (new(&|new| new.identity = "8089-a2-2140-00000003".parse().ok()), "has the identity of 0x1001"),
        (new(&|new| new.capacity = 769 * MIB), "no room"),
    ];
    for (request, fault) in requests {
        let refused = said(machine.replace(&request).unwrap_err());
        assert!(refused.contains(fault), "{refused}");
    }
    assert_eq!(machine.contents(), before);
    assert!(machine.open().platform().state.relocations.is_empty());
}

#[test]
fn smaller_module_is_taken_if_all_comes_back() {
    let mut machine = Emulated::new(&text_of(&[0x1, 0x101, 0x1001, 0x1101], 2368));
    machine.interleave();
    machine.make(&wanted("small", Mode::Fsdax, 512, 0)).unwrap();
    let before = machine.contents();
    let smaller = |machine: &Emulated| {
        let new = Module::parse_all(&modules_text(&[0x101], 1344, 77)).unwrap().remove(0);
        let _ = machine;
        ExchangeRequest { new: Some(new), ..exchange(0x101) }
    };
    machine.replace(&smaller(&machine)).unwrap();
    assert_eq!(machine.contents(), before);
    let sizes: Vec<u64> = machine.open().platform().regions().iter().map(|one| one.size / MIB).collect();
    assert_eq!(sizes, [2048, 1024, 4096], "the rest of the larger module is a second set");

    let mut machine = Emulated::new(&text_of(&[0x1, 0x101, 0x1001, 0x1101], 2368));
    machine.interleave();
    machine.make(&wanted("large", Mode::Fsdax, 3072, 0)).unwrap();
    let before = machine.contents();
    let refused = machine.replace(&smaller(&machine)).unwrap_err().to_string();
    assert!(
        refused.contains("after the exchange namespace0.0 (3 GiB) has no room: 1 GiB are missing"),
        "{refused}"
    );
    assert_eq!(machine.contents(), before);
}

/// Labels of a module from another set, and of one from the same set.
#[test]
fn foreign_labels_are_erased_by_force_only() {
    let mut machine = Emulated::pairs();
    machine.make(&wanted("one", Mode::Raw, 64, 0)).unwrap();
    machine.make(&wanted("two", Mode::Raw, 64, 1)).unwrap();
    let before = machine.contents();
    for (index, fault) in
        [(2, "of 1 namespaces of the interleave set 0x"), (1, "of the set that it is exchanged in")]
    {
        let labels = Some(machine.open().label_area(index).unwrap());
        let request = ExchangeRequest { labels, ..exchange(0x1) };
        let refused = machine.replace(&request).unwrap_err().to_string();
        assert!(refused.contains(fault), "{refused}");
    }
    assert_eq!(machine.contents(), before);
    let labels = Some(machine.open().label_area(2).unwrap());
    machine.replace(&ExchangeRequest { labels, force: true, ..exchange(0x1) }).unwrap();
    assert_eq!(machine.contents(), before);
}

#[test]
fn dead_module_loses_its_set_by_force_only() {
    let mut machine = Emulated::pairs();
    machine.make(&wanted("lost", Mode::Raw, 64, 0)).unwrap();
    machine.make(&wanted("kept", Mode::Raw, 64, 1)).unwrap();
    let path = machine.state().join("machine.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("locator", "health = \"Non-functional\"\nlocator", 1)).unwrap();
    for refused in [machine.evacuate(0x101, &[]), machine.replace(&exchange(0x1))] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("0x0001 is dead, so namespace0.0 can't be read"), "{refused}");
    }
    machine.replace(&ExchangeRequest { force: true, ..exchange(0x1) }).unwrap();
    assert_eq!(machine.contents().keys().collect::<Vec<_>>(), ["kept"]);
    let directory = machine.open();
    let region = &directory.platform().regions()[0];
    assert!(region.enabled && directory.platform().namespaces(region).is_empty());
}

/// A passphrase on a module of the set keeps firmware from applying goals, and one elsewhere locks what is there.
#[test]
fn passphrases_are_regarded() {
    let secured = |slot: usize| {
        let mut machine = Emulated::pairs();
        machine.make(&wanted("data", Mode::Raw, 64, 0)).unwrap();
        let path = machine.state().join("machine.toml");
        let text = fs::read_to_string(&path).unwrap();
        let parts: Vec<&str> = text.split("locator = \"SLOT").collect();
        let security = |index: usize| {
            if index == slot { "security = \"Unlocked\"\nlocator = \"SLOT" } else { "locator = \"SLOT" }
        };
        let mut joined = parts[0].to_owned();
        (0..).zip(&parts[1..]).for_each(|(index, part)| joined += &format!("{}{part}", security(index)));
        fs::write(&path, joined).unwrap();
        machine
    };
    let mut of_set = secured(1);
    let refused = of_set.replace(&exchange(0x1)).unwrap_err().to_string();
    assert!(refused.contains("0x0101 has a passphrase"), "{refused}");
    let mut elsewhere = secured(2);
    let refused = elsewhere.replace(&exchange(0x1)).unwrap_err().to_string();
    assert!(refused.contains("no other region takes namespaces"), "{refused}");
    let refused = elsewhere.replace(&ExchangeRequest { to: vec![Destination::Region(1)], ..exchange(0x1) });
    assert!(refused.unwrap_err().to_string().contains("0x1001 has a passphrase"));
    elsewhere.evacuate(0x1, &[]).unwrap();
}

#[test]
fn memory_that_is_online_and_disabled_regions_stay() {
    let mut machine = Emulated::pairs();
    let device = machine.make(&wanted("memory", Mode::Devdax, 256, 0)).unwrap();
    let mut directory = machine.open();
    let id = DeviceId { region: 0, number: 0 };
    directory
        .change(|platform| dax::reconfigure(platform, id, Reconfigured::SystemRam(Some(MemoryZone::Movable))))
        .unwrap();
    drop(directory);
    let refused = machine.evacuate(0x1, &[]).unwrap_err();
    assert!(refused.to_string().contains("dax0.0 is busy"), "{refused}");
    let grown = machine.open().plan_growth(&device, None, &mut Uuid::nil).unwrap_err();
    assert!(grown.to_string().contains("dax0.0 is busy"), "{grown}");
    machine.open().change(|platform| dax::offline(platform, id)).unwrap();
    machine.open().change(|platform| region::enable(platform, 0, false)).unwrap();
    let refused = machine.evacuate(0x1, &[]).unwrap_err();
    assert!(refused.to_string().contains("region0 is disabled"), "{refused}");
}

/// Without labels a namespace is its region, and can't be destroyed. An empty one is no data.
#[test]
fn unlabelled_and_mapped_namespaces_stay() {
    let mut machine = Emulated::pairs();
    machine.make(&wanted("data", Mode::Raw, 64, 0)).unwrap();
    let media = machine.state().join("modules/0x0101.media");
    let mapping = lode_pmem::Mapping::options().open(&media).unwrap();
    let refused = machine.evacuate(0x1, &[]).unwrap_err();
    let PlatformError::Relocate(RelocateError::Mapped { pid, .. }) = refused else { panic!("{refused}") };
    assert_eq!(pid, std::process::id());
    let refused = machine.replace(&exchange(0x1)).unwrap_err();
    assert!(refused.to_string().contains("maps it; end that process first"), "{refused}");
    drop(mapping);
    let mut directory = machine.open();
    for (region, indices) in [(0, [0, 1]), (1, [2, 3])] {
        directory
            .change(|platform| {
                region::enable(platform, region, false)?;
                indices.iter().try_for_each(|index| namespace::init_labels(platform, *index, None, true))?;
                region::enable(platform, region, true)
            })
            .unwrap();
    }
    drop(directory);
    let refused = machine.evacuate(0x1, &[]).unwrap_err();
    assert!(refused.to_string().contains("namespace0.0 has no labels"), "{refused}");
    machine.evacuate(0x1001, &[]).unwrap();
}

#[test]
fn evacuated_copies_move_on_and_come_home() {
    let mut machine = Emulated::new(&text_of(&[0x1, 0x1001, 0x2001], 1344));
    machine.interleave();
    machine.make(&wanted("data", Mode::Fsdax, 128, 0)).unwrap();
    machine.make(&wanted("more", Mode::Sector, 64, 0)).unwrap();
    let before = machine.contents();
    machine.evacuate(0x1, &[Destination::Region(1)]).unwrap();
    machine.evacuate(0x1001, &[Destination::Region(2)]).unwrap();
    assert_eq!(machine.contents(), before);
    // What is on the module belongs to another one, so it stays where it went.
    machine.replace(&exchange(0x1001)).unwrap();
    assert_eq!(machine.contents(), before);
    {
        let directory = machine.open();
        let platform = directory.platform();
        assert_eq!(platform.namespaces(&platform.regions()[1]), [], "nothing came back to it");
    }
    let uuids = &mut machine.uuids();
    let mut directory = machine.open();
    assert!(matches!(
        directory.plan_back(Handle(0x1001), false, uuids),
        Err(PlatformError::Relocate(RelocateError::NothingAway { .. }))
    ));
    let plan = directory.plan_back(Handle(1), false, uuids).unwrap();
    with_progress(|progress| directory.replace(&plan, uuids, progress, &mut |_, _| {})).unwrap();
    let platform = directory.platform();
    assert_eq!(platform.namespaces(&platform.regions()[0]).len(), 2);
    assert!(platform.state.relocations.is_empty());
    drop(directory);
    assert_eq!(machine.contents(), before);
}

#[test]
fn growing_namespaces_keep_content_name_and_number() {
    let mut machine = Emulated::pairs();
    make_each_mode(&mut machine, 0);
    let before = machine.contents();
    let names: Vec<String> = {
        let directory = machine.open();
        let region = &directory.platform().regions()[0];
        directory.platform().namespaces(region).iter().map(|one| one.device()).collect()
    };
    for device in &names {
        let uuids = &mut machine.uuids();
        let mut directory = machine.open();
        let (_, old) = directory.platform().namespace(device).unwrap();
        let plan = directory.plan_growth(device, Some(old.size + MIB), uuids).unwrap();
        assert!(plan.size > old.size && plan.size.is_multiple_of(16 * MIB), "rounded up");
        with_progress(|progress| directory.grow(&plan, uuids, progress)).unwrap();
        let (_, new) = directory.platform().namespace(device).unwrap();
        assert_eq!((new.uuid, &new.name, new.mode(), new.size), (old.uuid, &old.name, old.mode(), plan.size));
        assert!(
            new.usable() > old.usable()
                && new.page_map().map(|map| map.location) == old.page_map().map(|map| map.location)
        );
        let refused = directory.plan_growth(device, Some(new.size), uuids).unwrap_err();
        assert!(matches!(refused, PlatformError::Relocate(RelocateError::NoGrowth { .. })), "{refused}");
        let refused = directory.plan_growth(device, Some(64 << 30), uuids).unwrap_err();
        assert!(matches!(refused, PlatformError::Namespace(NamespaceError::NoSpace { .. })), "{refused}");
    }
    let data = |contents: BTreeMap<String, Content>| -> BTreeMap<String, Vec<(u64, Vec<u8>)>> {
        contents.into_iter().map(|(name, (.., data))| (name, data)).collect()
    };
    assert_eq!(data(machine.contents()), data(before));
    assert!(!machine.state().join("growing").exists());
}

#[test]
fn added_modules_leave_the_others_alone() {
    let mut machine = Emulated::pairs();
    machine.make(&wanted("data", Mode::Fsdax, 128, 0)).unwrap();
    machine.make(&wanted("more", Mode::Raw, 64, 1)).unwrap();
    let before = machine.contents();
    let text = |handles: &[u32], serial| modules_text(handles, 1344, serial);
    let request = |text: &str| ExtensionRequest {
        new: Module::parse_all(text).unwrap(),
        ..ExtensionRequest::default()
    };
    for (new, fault) in [
        (text(&[0x101], 50), "slot 0x0101 has a module already"),
        (text(&[0x201], 3), "the new module for 0x0201 has the identity of 0x1001"),
        (text(&[0x201], 50).replacen("locator", "health = \"Non-functional\"\nlocator", 1), "is dead"),
        (text(&[0x201], 50).replacen("locator", "security = \"Locked\"\nlocator", 1), "is locked"),
        (String::new(), "all modules of the machine are configured"),
    ] {
        let refused = extension(machine.open().platform(), &request(&new)).unwrap_err().to_string();
        assert!(refused.contains(fault), "{refused}");
    }
    let mut directory = machine.open();
    let plan = extension(directory.platform(), &request(&text(&[0x201, 0x301], 50))).unwrap();
    directory.extend(&plan).unwrap();
    let found = Table::of(directory.platform());
    assert_eq!(found, Table::of(&plan.after));
    drop(directory);
    let reopened = machine.open();
    let sizes: Vec<(u16, u64)> =
        reopened.platform().regions().iter().map(|one| (one.socket, one.size / MIB)).collect();
    assert_eq!(sizes, [(0, 2048), (0, 2048), (1, 2048)]);
    drop(reopened);
    assert_eq!(machine.contents(), before);
    // Now the machine can be evacuated to the new set, and back.
    machine.evacuate(0x101, &[]).unwrap();
    assert_eq!(machine.contents(), before);
}

/// Stops the copies at every report of progress, as Ctrl-C does. Each time the next command goes on.
#[test]
fn stopped_replacement_goes_on() {
    let mut machine = Emulated::pairs();
    machine.make(&wanted("data", Mode::Fsdax, 64, 0)).unwrap();
    machine.make(&wanted("log", Mode::Sector, 64, 0)).unwrap();
    machine.make(&wanted("raw", Mode::Raw, 64, 1)).unwrap();
    let before = machine.contents();
    let mut stops = 0;
    for limit in 0.. {
        let uuids = &mut machine.uuids();
        let mut directory = machine.open();
        directory.settle_moves().unwrap();
        let plan = directory.plan_exchange(&exchange(0x1), uuids).unwrap();
        let mut left = limit % 23;
        let mut report = |_| {
            left -= 1;
            if left < 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        match directory.replace(&plan, uuids, &mut CopyProgress::new(&mut report), &mut |_, _| {}) {
            Ok(()) => break,
            Err(PlatformError::Cancelled(_)) => stops += 1,
            Err(error) => panic!("{error}"),
        }
        assert!(limit < 400, "it does not end");
    }
    assert!(stops > 10, "{stops}");
    assert_eq!(machine.contents(), before);
    assert!(machine.open().platform().state.relocations.is_empty());
}

/// A copy that is damaged after it was written is found, and nothing is destroyed.
#[test]
fn damaged_copies_are_found_before_anything_is_destroyed() {
    let mut machine = Emulated::pairs();
    machine.make(&wanted("data", Mode::Fsdax, 64, 0)).unwrap();
    let before = machine.contents();
    let folder = machine.file("away");
    fs::create_dir(&folder).unwrap();
    let request = EvacuationRequest {
        module: Handle(1),
        to: vec![Destination::Folder(folder)],
        exchange: false,
        force: false,
    };
    let uuids = &mut machine.uuids();
    let mut directory = machine.open();
    let plan = directory.plan_evacuation(&request, uuids).unwrap();
    let one = plan.moves[0].relocation.clone();
    let Place::File(path) = &one.place else { panic!("{one:?}") };
    directory.begin_move(&plan.moves[0], uuids).unwrap();
    let advance = |directory: &mut Directory| {
        with_progress(|progress| directory.advance_move(one.uuid, &mut Uuid::nil, progress))
    };
    let damage = || File::options().write(true).open(path).unwrap().write_all_at(b"damage", 5000).unwrap();
    assert_eq!(advance(&mut directory).unwrap(), Some(Stage::Copied));
    damage();
    let refused = advance(&mut directory).unwrap_err();
    assert!(matches!(refused, PlatformError::Relocate(RelocateError::CopyDiffers { .. })), "{refused}");
    assert_eq!(advance(&mut directory).unwrap(), Some(Stage::Copied), "it is copied again");
    assert_eq!(advance(&mut directory).unwrap(), Some(Stage::Away));
    assert_eq!(advance(&mut directory).unwrap(), None);
    let intact = fs::read(path).unwrap();
    damage();
    let uuids = &mut machine.uuids();
    let plan = directory.plan_back(Handle(1), false, uuids).unwrap();
    let back = |directory: &mut Directory, uuids: &mut dyn FnMut() -> Uuid| {
        with_progress(|progress| directory.replace(&plan, uuids, progress, &mut |_, _| {}))
    };
    let refused = back(&mut directory, uuids).unwrap_err();
    assert!(matches!(refused, PlatformError::Relocate(RelocateError::FileChanged { .. })), "{refused}");
    fs::write(path, intact).unwrap();
    back(&mut directory, uuids).unwrap();
    drop(directory);
    assert_eq!(machine.contents(), before);
}

/// Runs a script with these programs. Returns whether it succeeded, and what it destroyed.
fn run_script(machine: &Emulated, script: &str, tools: &[(&str, &str)]) -> (bool, String) {
    let (bin, log) = (machine.file("bin"), machine.file("destroyed"));
    let _ = fs::remove_dir_all(&bin);
    fs::create_dir(&bin).unwrap();
    fs::write(&log, "").unwrap();
    let ndctl = format!("case $1 in destroy-namespace) echo $3 >> {};; esac", log.display());
    let idle = [("findmnt", "exit 1"), ("fuser", "exit 1"), ("ndctl", ndctl.as_str())];
    for (name, body) in idle.iter().chain(tools) {
        let path = bin.join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    (shell.output().unwrap().status.success(), fs::read_to_string(log).unwrap())
}

/// A tool that fails in the middle, twice at the same byte, has not copied.
#[test]
fn scripts_destroy_nothing_that_was_not_copied() {
    let mut machine = Emulated::pairs();
    machine.make(&wanted("table", Mode::Devdax, 64, 0)).unwrap();
    let plan = |machine: &mut Emulated, to| {
        let request = EvacuationRequest { module: Handle(1), to: vec![to], exchange: false, force: false };
        machine.open().plan_evacuation(&request, &mut machine.uuids()).unwrap()
    };
    let arguments =
        "while [ $# -gt 0 ]; do case $1 in -i) from=$2;; -o) to=$2;; -l) len=$2;; esac; shift 2; done";
    let truncated = format!("{arguments}; printf part > ${{to:-/dev/stdout}}; kill -BUS $$");
    let short = format!("{arguments}; printf part > ${{to:-/dev/stdout}}");
    let mute = format!("{arguments}; test -n \"$to\"");
    let whole = format!("{arguments}; head -c $len /dev/zero > ${{to:-/dev/stdout}}");
    for (number, daxio) in [truncated, short, mute, whole.clone()].iter().enumerate() {
        let folder = machine.file(&format!("away{number}"));
        fs::create_dir(&folder).unwrap();
        let planned = plan(&mut machine, Destination::Folder(folder));
        let script = evacuation_script(&[], &planned.moves);
        let expected = if number == 3 { (true, "namespace0.0\n") } else { (false, "") };
        let (success, destroyed) = run_script(&machine, &script, &[("daxio", daxio)]);
        assert_eq!((success, destroyed.as_str()), expected, "{daxio}: {script}");
    }
    // A partition is mounted, or a process has the device open.
    let folder = machine.file("away4");
    fs::create_dir(&folder).unwrap();
    let planned = plan(&mut machine, Destination::Folder(folder));
    let script = evacuation_script(&[], &planned.moves);
    for user in [("lsblk", "echo; echo /data"), ("fuser", "exit 0")] {
        let destroyed = run_script(&machine, &script, &[("daxio", &whole), user]);
        assert_eq!(destroyed, (false, String::new()), "{user:?}: {script}");
    }
    // Both reads fail.
    let planned = plan(&mut machine, Destination::Region(1));
    let script = evacuation_script(&[], &planned.moves);
    let daxio = format!("{arguments}; test -n \"$to\"");
    let destroyed = run_script(&machine, &script, &[("daxio", &daxio)]);
    assert_eq!(destroyed, (false, String::new()), "{script}");
}

/// A namespace in use ends the script before the copy of another one is made.
#[test]
fn scripts_make_nothing_before_all_are_unused() {
    let mut machine = Emulated::pairs();
    machine.make(&wanted("first", Mode::Raw, 64, 0)).unwrap();
    machine.make(&wanted("second", Mode::Raw, 64, 0)).unwrap();
    let to = vec![Destination::Region(1)];
    let request = EvacuationRequest { module: Handle(1), to, exchange: false, force: false };
    let planned = machine.open().plan_evacuation(&request, &mut machine.uuids()).unwrap();
    let script = evacuation_script(&[], &planned.moves);
    let made = machine.file("made");
    let ndctl = format!("case $1 in create-namespace) echo made >> {};; esac", made.display());
    for mounted in ["/dev/pmem0", "/dev/pmem0.1"] {
        let findmnt = format!("test \"$2\" = {mounted}");
        let (success, _) = run_script(&machine, &script, &[("ndctl", &ndctl), ("findmnt", &findmnt)]);
        assert!(!success && !made.exists(), "{mounted}: {script}");
    }
}

/// Without the programs that see users of a device, a script ends before its first command.
#[test]
fn scripts_need_the_programs_that_see_users() {
    let mut machine = Emulated::pairs();
    machine.make(&wanted("data", Mode::Fsdax, 64, 0)).unwrap();
    let to = vec![Destination::Region(1)];
    let request = EvacuationRequest { module: Handle(1), to, exchange: false, force: false };
    let planned = machine.open().plan_evacuation(&request, &mut machine.uuids()).unwrap();
    let script = evacuation_script(&[], &planned.moves);
    let bin = machine.file("few");
    fs::create_dir(&bin).unwrap();
    // Each program is there when the next one is missed.
    let of_packages = [
        ("findmnt", "util-linux"),
        ("lsblk", "util-linux"),
        ("fuser", "psmisc"),
        ("ndctl", "ndctl"),
        ("awk", "mawk"),
        ("cmp", "diffutils"),
    ];
    for (program, package) in of_packages {
        let ended = Command::new("/bin/sh").args(["-c", &script]).env("PATH", &bin).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        let expected = format!("{program} is missing: install {package}\n");
        assert!(!ended.status.success() && said == expected, "{said}");
        let path = bin.join(program);
        fs::write(&path, "#!/bin/sh\nexit 1\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// A process that opens a device during the hours of its copy, or mounts it, ends the script before the data is destroyed.
#[test]
fn scripts_look_for_users_before_they_destroy() {
    let mut machine = Emulated::pairs();
    machine.make(&wanted("table", Mode::Devdax, 64, 0)).unwrap();
    let request = |to| EvacuationRequest { module: Handle(1), to: vec![to], exchange: false, force: false };
    let copied = machine.file("copied");
    let daxio = format!(
        "while [ $# -gt 0 ]; do case $1 in -o) to=$2;; -l) len=$2;; esac; shift 2; done; touch {}; \
         head -c $len /dev/zero > ${{to:-/dev/stdout}}",
        copied.display()
    );
    let when_copied = format!("test -e {}", copied.display());
    for (number, user) in ["fuser", "findmnt"].into_iter().enumerate() {
        let folder = machine.file(&format!("away{number}"));
        fs::create_dir(&folder).unwrap();
        let planned =
            machine.open().plan_evacuation(&request(Destination::Folder(folder)), &mut machine.uuids());
        let script = evacuation_script(&[], &planned.unwrap().moves);
        let tools = [("daxio", daxio.as_str()), (user, when_copied.as_str())];
        let (success, destroyed) = run_script(&machine, &script, &tools);
        assert!(!success && destroyed.is_empty() && copied.exists(), "{user}: {script}");
        fs::remove_file(&copied).unwrap();
    }
}

/// A disabled namespace has no device: its copy failed after those of others had been made.
#[test]
fn disabled_namespaces_of_real_machines_are_refused() {
    let mut machine = Emulated::pairs();
    machine.make(&wanted("first", Mode::Raw, 64, 0)).unwrap();
    let disabled = machine.make(&wanted("second", Mode::Raw, 64, 0)).unwrap();
    let real = |machine: &mut Emulated| {
        let inventory = ndctl::inventory(machine.open().platform());
        real_evacuation(&inventory, 0, &[], &mut machine.uuids())
    };
    assert_eq!(real(&mut machine).unwrap().moves.len(), 2);
    machine.open().change(|platform| namespace::enable(platform, &disabled, false)).unwrap();
    let refused = real(&mut machine).unwrap_err().to_string();
    assert!(refused.contains(&disabled) && refused.contains("enable it, or destroy it"), "{refused}");
}

/// A namespace without device does not hide the next one.
#[test]
fn scripts_find_the_device_of_the_namespace_itself() {
    let mut machine = Emulated::pairs();
    machine.make(&wanted("data", Mode::Devdax, 64, 0)).unwrap();
    let request = EvacuationRequest {
        module: Handle(1),
        to: vec![Destination::Region(1)],
        exchange: false,
        force: false,
    };
    let planned = machine.open().plan_evacuation(&request, &mut machine.uuids()).unwrap();
    let Place::Namespace(copy) = planned.moves[0].relocation.place else { panic!("a namespace") };
    let listed = format!(
        "[{{\n\"dev\":\"namespace1.0\",\n\"uuid\":\"{copy}\"\n}},{{\n\"dev\":\"namespace1.1\",\n\"chardev\":\"dax1.1\"\n}}]"
    );
    let ndctl = format!("case $1 in list) cat <<'END'\n{listed}\nEND\nesac");
    let used = machine.file("used");
    let daxio = format!(
        "echo \"$@\" >> {}; case \"$*\" in *no-device*) exit 1;; esac; head -c $((64 << 20)) /dev/zero",
        used.display()
    );
    let script = evacuation_script(&[], &planned.moves);
    let (success, _) = run_script(&machine, &script, &[("ndctl", &ndctl), ("daxio", &daxio)]);
    let used = fs::read_to_string(used).unwrap_or_default();
    assert!(!success && !used.contains("dax1.1"), "{used}");
}

#[test]
fn modules_that_no_machine_file_may_have_are_refused() {
    let mut machine = Emulated::pairs();
    machine.make(&wanted("data", Mode::Fsdax, 64, 0)).unwrap();
    let before = machine.contents();
    for capacity in [1_500_000_000, 1, 0, 1 << 60] {
        let mut new = Module::parse_all(&modules_text(&[0x1], 1344, 77)).unwrap().remove(0);
        new.capacity = capacity;
        let request = ExchangeRequest { new: Some(new), ..exchange(0x1) };
        let refused = machine.replace(&request).unwrap_err().to_string();
        assert!(refused.contains("whole pieces of 64 KiB"), "{capacity}: {refused}");
        assert_eq!(machine.contents(), before);
    }
    // The machine file with all modules is read before it is written.
    let mut new = Module::parse_all(&modules_text(&[0x201, 0x301], 1344, 50)).unwrap();
    new[1].identity = new[0].identity;
    let request = ExtensionRequest { new, ..ExtensionRequest::default() };
    let mut directory = machine.open();
    let plan = extension(directory.platform(), &request).unwrap();
    let refused = directory.extend(&plan).unwrap_err().to_string();
    assert!(refused.contains("the identity of a second module"), "{refused}");
    drop(directory);
    assert_eq!(machine.contents(), before);
}

fn mapped(machine: &Emulated, module: &str) -> lode_pmem::Mapping {
    let path = machine.state().join(format!("modules/{module}.media"));
    lode_pmem::Mapping::options().open(&path).unwrap()
}

#[track_caller]
fn assert_mapped<T: std::fmt::Debug>(result: Result<T, PlatformError>) {
    let refused = result.unwrap_err();
    assert!(matches!(refused, PlatformError::Relocate(RelocateError::Mapped { .. })), "{refused}");
}

/// Media that a process maps are not exchanged under it, also where data goes to.
#[test]
fn mapped_media_stay() {
    let mut machine = Emulated::pairs();
    machine.make(&wanted("data", Mode::Fsdax, 64, 0)).unwrap();
    let before = machine.contents();
    let mapping = mapped(&machine, "0x1001");
    assert_mapped(machine.evacuate(0x1, &[Destination::Region(1)]));
    drop(mapping);
    machine.open().settle_moves().unwrap();
    machine.evacuate(0x1, &[Destination::Region(1)]).unwrap();
    let uuids = &mut machine.uuids();
    let mut directory = machine.open();
    let plan = directory.plan_back(Handle(1), false, uuids).unwrap();
    let mapping = mapped(&machine, "0x0101");
    assert_mapped(with_progress(|progress| directory.replace(&plan, uuids, progress, &mut |_, _| {})));
    drop(mapping);
    let plan = directory.plan_back(Handle(1), false, uuids).unwrap();
    with_progress(|progress| directory.replace(&plan, uuids, progress, &mut |_, _| {})).unwrap();
    drop(directory);
    assert_eq!(machine.contents(), before);

    // What is mapped after the plan was made.
    let request = EvacuationRequest {
        module: Handle(1),
        to: vec![Destination::Region(1)],
        exchange: false,
        force: false,
    };
    let mut directory = machine.open();
    let plan = directory.plan_evacuation(&request, uuids).unwrap();
    let uuid = plan.moves[0].relocation.uuid;
    let advance = |directory: &mut Directory| {
        with_progress(|progress| directory.advance_move(uuid, &mut Uuid::nil, progress))
    };
    directory.begin_move(&plan.moves[0], uuids).unwrap();
    assert_eq!(advance(&mut directory).unwrap(), Some(Stage::Copied));
    let mapping = mapped(&machine, "0x0101");
    assert_mapped(advance(&mut directory));
    drop(mapping);
    assert_eq!(advance(&mut directory).unwrap(), Some(Stage::Away));
    let new = directory.successor_of(Handle(1)).unwrap();
    let mapping = mapped(&machine, "0x0101");
    assert_mapped(directory.exchange_module(&new));
    drop(mapping);
    directory.exchange_module(&new).unwrap();
}

#[test]
fn growth_that_goes_on_regards_processes_and_the_size() {
    let mut machine = Emulated::pairs();
    let device = machine.make(&wanted("data", Mode::Fsdax, 64, 0)).unwrap();
    let before = machine.contents();
    let uuids = &mut machine.uuids();
    let mut directory = machine.open();
    let plan = directory.plan_growth(&device, Some(128 * MIB), uuids).unwrap();
    directory.begin_move(&plan.step, uuids).unwrap();
    let mapping = mapped(&machine, "0x0101");
    let plan = directory.plan_growth(&device, Some(128 * MIB), uuids);
    assert_mapped(plan.and_then(|plan| with_progress(|progress| directory.grow(&plan, uuids, progress))));
    drop(mapping);
    let refused = directory.plan_growth(&device, Some(1024 * MIB), uuids).unwrap_err().to_string();
    assert!(refused.contains("grows to 128 MiB"), "{refused}");
    let plan = directory.plan_growth(&device, Some(128 * MIB), uuids).unwrap();
    with_progress(|progress| directory.grow(&plan, uuids, progress)).unwrap();
    drop(directory);
    assert_eq!(machine.contents().keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
}

/// Data without labels is regarded even if its region is disabled.
#[test]
fn unlabelled_data_of_disabled_regions_stays() {
    let mut machine = Emulated::pairs();
    let mut directory = machine.open();
    let change = |platform: &mut lode_platform::Platform| {
        region::enable(platform, 0, false)?;
        [0, 1].iter().try_for_each(|index| namespace::init_labels(platform, *index, None, true))?;
        region::enable(platform, 0, true)
    };
    directory.change(change).unwrap();
    drop(directory);
    let media = machine.state().join("modules/0x0001.media");
    File::options().write(true).open(media).unwrap().write_all_at(b"PRECIOUS", 400 * MIB).unwrap();
    let refused = machine.replace(&exchange(0x1)).unwrap_err().to_string();
    assert!(refused.contains("namespace0.0 has no labels"), "{refused}");
    machine.open().change(|platform| region::enable(platform, 0, false)).unwrap();
    let refused = machine.replace(&exchange(0x1)).unwrap_err().to_string();
    assert!(refused.contains("namespace0.0 has no labels"), "{refused}");
    machine.open().change(|platform| region::enable(platform, 0, true)).unwrap();
    let uuids = &mut machine.uuids();
    let forced = ExchangeRequest { force: true, ..exchange(0x1) };
    let plan = machine.open().plan_exchange(&forced, uuids).unwrap();
    assert_eq!(plan.evacuation.lost, ["namespace0.0"]);
}

/// What moved away and is gone is missed before a module is exchanged, and given up by force.
#[test]
fn missing_copies_are_missed_before_the_exchange() {
    let mut machine = Emulated::pairs();
    machine.make(&wanted("data", Mode::Fsdax, 64, 0)).unwrap();
    let folder = machine.file("away");
    fs::create_dir(&folder).unwrap();
    machine.evacuate(0x1, &[Destination::Folder(folder.clone())]).unwrap();
    let Place::File(path) = machine.open().platform().state.relocations[0].place.clone() else {
        panic!("a file")
    };
    fs::remove_file(&path).unwrap();
    let slot = |machine: &Emulated| machine.open().platform().machine.modules[0].identity;
    let before = slot(&machine);
    let refused = machine.replace(&exchange(0x1)).unwrap_err().to_string();
    assert!(refused.contains("does not exist any more"), "{refused}");
    assert_eq!(slot(&machine), before, "not exchanged");
    let forced = ExchangeRequest { force: true, ..exchange(0x1) };
    let plan = machine.open().plan_exchange(&forced, &mut machine.uuids()).unwrap();
    assert_eq!(plan.evacuation.lost, ["namespace0.0"]);
    machine.replace(&forced).unwrap();
    assert_ne!(slot(&machine), before);
    assert!(machine.open().platform().state.relocations.is_empty());
    machine.replace(&exchange(0x1)).unwrap();
}

#[test]
fn changed_copies_are_taken_by_force() {
    let mut machine = Emulated::pairs();
    machine.make(&wanted("data", Mode::Raw, 64, 0)).unwrap();
    let folder = machine.file("away");
    fs::create_dir(&folder).unwrap();
    machine.evacuate(0x1, &[Destination::Folder(folder)]).unwrap();
    let Place::File(path) = machine.open().platform().state.relocations[0].place.clone() else {
        panic!("a file")
    };
    File::options().write(true).open(&path).unwrap().write_all_at(b"changed", 12 * 512).unwrap();
    let uuids = &mut machine.uuids();
    let mut directory = machine.open();
    let mut back = |force| {
        let plan = directory.plan_back(Handle(1), force, uuids)?;
        with_progress(|progress| directory.replace(&plan, uuids, progress, &mut |_, _| {}))
    };
    let refused = back(false).unwrap_err();
    assert!(matches!(refused, PlatformError::Relocate(RelocateError::FileChanged { .. })), "{refused}");
    back(true).unwrap();
    drop(directory);
    assert!(machine.contents()["data"].2.iter().any(|(_, bytes)| bytes.starts_with(b"changed")));
}

/// Returns the stage that the only move has after one more step.
fn advance(directory: &mut Directory) -> Result<Option<Stage>, PlatformError> {
    let uuid = directory.platform().state.relocations[0].uuid;
    let mut next = 1_u128 << 90;
    let uuids = &mut || {
        next += 1;
        Uuid::from_u128(next)
    };
    with_progress(|progress| directory.advance_move(uuid, uuids, progress))
}

/// A return that was stopped is no exchange.
#[test]
fn replacement_after_a_stopped_return_does_not_claim_an_exchange() {
    let mut machine = Emulated::pairs();
    machine.make(&wanted("data", Mode::Fsdax, 64, 0)).unwrap();
    machine.evacuate(0x1, &[Destination::Region(1)]).unwrap();
    machine.open().begin_return(Handle(1)).unwrap();
    let refused = machine.replace(&exchange(0x1)).unwrap_err();
    assert!(matches!(refused, PlatformError::Relocate(RelocateError::ReturnBegun { .. })), "{refused}");

    // An exchange that was done goes on with the module that is in the slot only.
    let mut machine = Emulated::pairs();
    machine.make(&wanted("data", Mode::Fsdax, 64, 0)).unwrap();
    machine.evacuate(0x1, &[Destination::Region(1)]).unwrap();
    let described = |serial| Some(Module::parse_all(&modules_text(&[0x1], 1344, serial)).unwrap().remove(0));
    machine.open().exchange_module(&described(77).unwrap()).unwrap();
    let other = ExchangeRequest { new: described(79), ..exchange(0x1) };
    let refused = machine.replace(&other).unwrap_err().to_string();
    assert!(refused.contains("is not the one that is in the slot"), "{refused}");
    machine.replace(&ExchangeRequest { new: described(77), ..exchange(0x1) }).unwrap();
}

/// Who uses a namespace that is home again, while its copy is still there, keeps what was written.
#[test]
fn data_written_at_home_before_the_copy_is_gone_stays() {
    for force in [true, false] {
        let mut machine = Emulated::pairs();
        machine.make(&wanted("data", Mode::Raw, 64, 0)).unwrap();
        let before = machine.contents();
        let folder = machine.file("away");
        fs::create_dir(&folder).unwrap();
        machine.evacuate(0x1, &[Destination::Folder(folder.clone())]).unwrap();
        let mut directory = machine.open();
        directory.begin_return(Handle(1)).unwrap();
        while advance(&mut directory).unwrap() != Some(Stage::Returned) {}
        let (region, namespace) = directory.platform().namespace("namespace0.0").unwrap();
        let first = region.members()[0];
        let media = machine.state().join(format!("modules/{}.media", first.module));
        let file = File::options().write(true).open(media).unwrap();
        file.write_all_at(b"written", first.offset + namespace.offset).unwrap();
        let refused = advance(&mut directory).unwrap_err().to_string();
        assert!(refused.contains("destroy namespace0.0 to take the copy again"), "{refused}");
        let uuids = &mut machine.uuids();
        if !force {
            let destroy = |platform: &mut _| namespace::destroy(platform, "namespace0.0", true);
            directory.change(destroy).unwrap();
            directory.settle_moves().unwrap();
        }
        let plan = directory.plan_back(Handle(1), force, uuids).unwrap();
        with_progress(|progress| directory.replace(&plan, uuids, progress, &mut |_, _| {})).unwrap();
        assert!(directory.platform().state.relocations.is_empty());
        drop(directory);
        assert_eq!(machine.contents() != before, force);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), usize::from(force), "the copy stays by force");
    }
}

#[test]
fn deleted_copies_are_made_again() {
    let mut machine = Emulated::pairs();
    machine.make(&wanted("data", Mode::Fsdax, 64, 0)).unwrap();
    let before = machine.contents();
    let folder = machine.file("away");
    fs::create_dir(&folder).unwrap();
    let to = vec![Destination::Folder(folder.clone())];
    let request = EvacuationRequest { module: Handle(1), to, exchange: false, force: false };
    let uuids = &mut machine.uuids();
    let mut directory = machine.open();
    let plan = directory.plan_evacuation(&request, uuids).unwrap();
    directory.begin_move(&plan.moves[0], uuids).unwrap();
    assert_eq!(advance(&mut directory).unwrap(), Some(Stage::Copied));
    fs::remove_dir_all(&folder).unwrap();
    fs::create_dir(&folder).unwrap();
    let refused = advance(&mut directory).unwrap_err();
    assert!(matches!(refused, PlatformError::Relocate(RelocateError::CopyDiffers { .. })), "{refused}");
    assert_eq!(advance(&mut directory).unwrap(), Some(Stage::Copied));
    assert_eq!(advance(&mut directory).unwrap(), Some(Stage::Away));
    drop(directory);
    machine.replace(&exchange(0x1)).unwrap();
    assert_eq!(machine.contents(), before);
}

/// All of a set left, so all of it comes back, whichever module is exchanged.
#[test]
fn sets_come_back_whichever_module_is_exchanged() {
    let mut machine = Emulated::pairs();
    machine.make(&wanted("data", Mode::Fsdax, 1536, 0)).unwrap();
    let before = machine.contents();
    let folder = machine.file("away");
    fs::create_dir(&folder).unwrap();
    machine.evacuate(0x101, &[Destination::Folder(folder)]).unwrap();
    let new = Module::parse_all(&modules_text(&[0x1], 769, 77)).unwrap().remove(0);
    let refused = machine.replace(&ExchangeRequest { new: Some(new), ..exchange(0x1) }).unwrap_err();
    assert!(matches!(refused, PlatformError::Relocate(RelocateError::NoRoomAtHome { .. })), "{refused}");
    machine.replace(&exchange(0x1)).unwrap();
    assert_eq!(machine.contents(), before);
    assert!(machine.open().platform().state.relocations.is_empty());
}

/// A namespace that was destroyed while it grew comes back from the file, also if another one has its name.
#[test]
fn destroyed_growth_is_finished() {
    for other in [false, true] {
        let mut machine = Emulated::pairs();
        machine.make(&wanted("data", Mode::Raw, 64, 0)).unwrap();
        let before = machine.contents()["data"].2.clone();
        let uuids = &mut machine.uuids();
        let mut directory = machine.open();
        let plan = directory.plan_growth("namespace0.0", Some(128 * MIB), uuids).unwrap();
        directory.begin_move(&plan.step, uuids).unwrap();
        while advance(&mut directory).unwrap() != Some(Stage::Returning) {}
        directory.change(|platform| namespace::destroy(platform, "namespace0.0", true)).unwrap();
        let mut name = "namespace0.0".to_owned();
        if other {
            let wanted = wanted("other", Mode::Raw, 64, 0);
            directory.change(|platform| namespace::create(platform, &wanted, uuids)).unwrap();
            directory.settle_moves().unwrap();
            let refused = directory.plan_growth(&name, Some(128 * MIB), uuids).unwrap_err().to_string();
            name = plan.step.relocation.uuid.to_string();
            assert!(refused.contains(&name), "{refused}");
        }
        directory.settle_moves().unwrap();
        let plan = directory.plan_growth(&name, Some(128 * MIB), uuids).unwrap();
        with_progress(|progress| directory.grow(&plan, uuids, progress)).unwrap();
        assert!(directory.platform().state.relocations.is_empty());
        drop(directory);
        assert_eq!(machine.contents()["data"].2, before);
    }
}

/// A copy of a directory is a machine of its own: its growth takes its own file.
#[test]
fn growths_of_copied_directories_are_apart() {
    let mut machine = Emulated::pairs();
    machine.make(&wanted("data", Mode::Raw, 64, 0)).unwrap();
    let before = machine.contents()["data"].2.clone();
    let uuids = &mut machine.uuids();
    let mut directory = machine.open();
    let plan = directory.plan_growth("namespace0.0", Some(128 * MIB), uuids).unwrap();
    directory.begin_move(&plan.step, uuids).unwrap();
    while advance(&mut directory).unwrap() != Some(Stage::Returning) {}
    drop(directory);
    let (original, other) = (machine.state(), machine.file("other"));
    let copied = Command::new("cp").arg("-a").args([&original, &other]).status().unwrap();
    assert!(copied.success());
    for path in [&other, &original] {
        let mut directory = Directory::open(path, Purpose::Change).unwrap();
        let plan = directory.plan_growth("namespace0.0", Some(128 * MIB), uuids).unwrap();
        with_progress(|progress| directory.grow(&plan, uuids, progress)).unwrap();
    }
    assert_eq!(machine.contents()["data"].2, before);
}

/// Records that would destroy what they copy are refused when the state is read.
#[test]
fn damaged_records_of_moves_are_refused() {
    let mut machine = Emulated::pairs();
    machine.make(&wanted("data", Mode::Fsdax, 64, 0)).unwrap();
    machine.make(&wanted("more", Mode::Fsdax, 64, 0)).unwrap();
    machine.evacuate(0x1, &[Destination::Region(1)]).unwrap();
    let path = machine.state().join("state.toml");
    let text = fs::read_to_string(&path).unwrap();
    let records = machine.open().platform().state.relocations.clone();
    let place = |index: usize| match &records[index].place {
        Place::Namespace(uuid) => uuid.to_string(),
        Place::File(path) => panic!("{path:?}"),
    };
    let namespace = format!("namespace = \"{}\"", place(0));
    assert_eq!(text.matches(&namespace).count(), 1, "{text}");
    for (bad, fault) in [
        (format!("namespace = \"{}\"", records[0].uuid), "its copy is the namespace itself"),
        (format!("namespace = \"{}\"", place(1)), "its copy is that of another namespace"),
        ("file = \"copy.img\"".to_owned(), "its copy is no absolute path"),
    ] {
        fs::write(&path, text.replace(&namespace, &bad)).unwrap();
        let refused = Directory::open(&machine.state(), Purpose::ReadOnly).unwrap_err().to_string();
        assert!(refused.contains(fault) && refused.contains("state.toml, line"), "{refused}");
    }
    let lines = text.lines().filter(|line| !line.starts_with("digest = ")).map(|line| format!("{line}\n"));
    fs::write(&path, lines.collect::<String>().replace("stage = \"away\"", "stage = \"copied\"")).unwrap();
    let refused = Directory::open(&machine.state(), Purpose::ReadOnly).unwrap_err().to_string();
    assert!(refused.contains("its copy has no digest"), "{refused}");
    fs::write(&path, text).unwrap();
    Directory::open(&machine.state(), Purpose::ReadOnly).unwrap();
}

/// Random machines: a module is evacuated and replaced, all bytes are the same, and plans by name have nothing to do.
#[test]
fn random_machines_are_evacuated_and_replaced() {
    let first = seed(8);
    for round in 0..scaled(6) {
        println!("LODE_SEED={first}, round {round}");
        let mut random = Random::new(first.wrapping_add(round));
        let handles: Vec<u32> = (0..2 + random.below(2) as u32)
            .flat_map(|socket| (0..1 + random.below(3) as u32).map(move |slot| socket << 12 | slot << 8 | 1))
            .collect();
        let mib = 1344 + 1024 * random.below(2);
        let mut machine = Emulated::new(&text_of(&handles, mib));
        machine.interleave();
        let regions = machine.open().platform().regions().len() as u64;
        let mut names = Vec::new();
        for number in 0..3 + random.below(4) {
            let mode = *random.pick(&[Mode::Fsdax, Mode::Devdax, Mode::Sector, Mode::Raw]);
            let name = format!("n{number}");
            let sector_size = (mode == Mode::Sector).then(|| *random.pick(&[512, 520, 4096, 4224]));
            let ways = 6;
            let wanted = CreateNamespace {
                sector_size,
                ..wanted(&name, mode, 16 * ways * (1 + random.below(2)), random.below(regions) as u32)
            };
            match machine.make(&wanted) {
                Ok(_) => names.push(name),
                Err(PlatformError::Namespace(NamespaceError::NoSpace { .. })) => {}
                Err(error) => panic!("{error}"),
            }
        }
        let before = machine.contents();
        let module = *random.pick(&handles);
        let folder = machine.file("away");
        fs::create_dir(&folder).unwrap();
        let to: Vec<Destination> =
            if random.one_in(2) { vec![Destination::Folder(folder)] } else { Vec::new() };
        if random.one_in(2) {
            machine.evacuate(module, &to).unwrap();
            let kept = machine.contents();
            assert!(kept.iter().all(|(name, one)| before[name] == *one));
            assert!(kept.len() == before.len() || !to.is_empty());
        }
        machine.replace(&ExchangeRequest { to, ..exchange(module) }).unwrap();
        assert_eq!(machine.contents(), before);
        let directory = machine.open();
        let platform = directory.platform();
        for region in platform.regions() {
            for one in platform.namespaces(&region) {
                let namespace = CreateNamespace {
                    mode: one.mode(),
                    size: Some(one.size),
                    name: one.name.clone(),
                    sector_size: (one.mode() == Mode::Sector).then(|| one.user_sector_size()),
                    ..CreateNamespace::default()
                };
                let socket = Some(region.socket);
                let namespaces = vec![NamespaceRequest { namespace, socket, ..NamespaceRequest::default() }];
                let request = PlanRequest { namespaces, ..PlanRequest::default() };
                let plan = plan::for_emulated(platform, &request, &mut Uuid::nil).unwrap();
                assert!(plan.steps.is_empty(), "{:?}", plan.steps);
            }
        }
    }
}
