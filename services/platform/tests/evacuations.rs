//! Namespaces leave their modules with all their bytes, modules are exchanged, and everything comes back.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod random;

use lode_platform::goal::{self, GoalRequest};
use lode_platform::image::{CopyProgress, ExportImage, Image, ImageFormat, ImportImage, QemuSlot};
use lode_platform::machine::{Handle, Module};
use lode_platform::namespace::{self, NamespaceError};
use lode_platform::plan::{self, NamespaceRequest, PlanRequest};
use lode_platform::relocate::{
    Destination, EvacuationRequest, ExchangeRequest, ExtensionRequest, Place, RelocateError, Stage, extension,
};
use lode_platform::{CreateNamespace, Directory, MapLocation, Mode, PlatformError, Purpose, boot};
use lode_testing::{budget, seed};
use random::Random;
use rustix::fs::{SeekFrom, seek};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
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
        assert_eq!(plan::Table::of(&after), plan::Table::of(directory.platform()), "as planned");
        let again = directory.plan_evacuation(&request, uuids)?;
        assert!(again.moves.is_empty(), "nothing is left to do");
        Ok(())
    }

    fn replace(&mut self, request: &ExchangeRequest) -> Result<(), PlatformError> {
        let uuids = &mut self.uuids();
        let mut directory = self.open();
        let plan = directory.plan_exchange(request, uuids)?;
        with_progress(|progress| directory.replace(&plan, uuids, progress, &mut |_, _| {}))?;
        assert_eq!(plan::Table::of(&plan.after), plan::Table::of(directory.platform()), "as planned");
        assert!(directory.platform().state.relocations.is_empty());
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
