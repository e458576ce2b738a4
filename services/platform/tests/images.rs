//! Images contain the modules' data contiguously, with labels of their own, and an import restores it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_nvdimm::{
    BttBlockState, BttDialect, BttFlog, BttInfo, BttMapEntry, InfoBlockError, Interleave, Label, LabelArea,
    LabelError, LabelFlags, LabelFormat, NamespaceLabel,
};
use lode_platform::goal;
use lode_platform::image::{
    CopyProgress, ExportImage, Exported, FileSystemKind, Image, ImageError, ImageErrorKind, ImageFormat,
    ImageLayout, ImportImage, Imported, QemuSlot,
};
use lode_platform::machine::Machine;
use lode_platform::namespace::{self, NamespaceError};
use lode_platform::{
    CreateNamespace, Directory, GoalRequest, LabelVersion, Mode, Namespace, Platform, PlatformError, Purpose,
    boot, region,
};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use uuid::Uuid;

const MIB: u64 = 1 << 20;
/// Offset of the persistent capacity on a module's media.
const MODULE_START: u64 = 256 * MIB;
const LABELS_LEN: u64 = 128 << 10;

/// A machine in a directory, its modules interleaved, with a namespace of each mode.
struct Emulated {
    folder: TempDir,
    ways: u64,
}

impl Emulated {
    fn new(ways: u64, labels: LabelVersion) -> Emulated {
        let machine = Emulated { folder: TempDir::new().unwrap(), ways };
        let text = machine_text(ways);
        let mut directory = Directory::init(&machine.state(), Path::new("text"), &text).unwrap();
        let modes = [Mode::Fsdax, Mode::Sector, Mode::Devdax, Mode::Raw];
        directory
            .change(|platform| {
                let goals = goal::plan(platform, &GoalRequest { labels, ..GoalRequest::default() })?;
                goal::create(platform, goals);
                boot::reboot(platform);
                for (number, mode) in (1..).zip(modes) {
                    let size = Some(96 * MIB);
                    let name = format!("number {number}");
                    let wanted = CreateNamespace { mode, size, name, ..CreateNamespace::default() };
                    namespace::create(platform, &wanted, &mut counted(number * 10))?;
                }
                Ok::<_, PlatformError>(())
            })
            .unwrap();
        machine
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn open(&self, purpose: Purpose) -> Directory {
        Directory::open(&self.state(), purpose).unwrap()
    }

    fn media(&self, position: u64) -> File {
        let path = self.state().join(format!("modules/0x{position:02}01.media"));
        File::options().read(true).write(true).open(path).unwrap()
    }

    /// Returns the module and the offset in its media of a byte of the region.
    fn place(&self, region_off: u64) -> (u64, u64) {
        let (line, rest) = (region_off / Interleave::LINE, region_off % Interleave::LINE);
        (line % self.ways, MODULE_START + line / self.ways * Interleave::LINE + rest)
    }

    fn write(&self, region_off: u64, bytes: &[u8]) {
        let (module, off) = self.place(region_off);
        self.media(module).write_all_at(bytes, off).unwrap();
    }

    fn read(&self, region_off: u64, len: usize) -> Vec<u8> {
        let (module, off) = self.place(region_off);
        let mut bytes = vec![0; len];
        self.media(module).read_exact_at(&mut bytes, off).unwrap();
        bytes
    }

    fn export_as(&self, source: &str, format: ImageFormat, name: &str) -> Result<Exported, PlatformError> {
        let wanted = ExportImage { source: source.to_owned(), format, slot: QemuSlot(2) };
        let mut go_on = |_| ControlFlow::Continue(());
        let uuid = Uuid::from_u128(77);
        self.open(Purpose::ReadOnly).export_image(
            &wanted,
            &self.path(name),
            uuid,
            &mut CopyProgress::new(&mut go_on),
        )
    }

    fn export(&self, source: &str, name: &str) -> Exported {
        self.export_as(source, ImageFormat::Nvdimm, name).unwrap()
    }

    fn import(&self, name: &str, into: Option<&str>) -> Result<Imported, PlatformError> {
        let image = Image::open(&self.path(name), None)?;
        let mut go_on = |_| ControlFlow::Continue(());
        let wanted = ImportImage { into: into.map(str::to_owned), partial: false };
        self.open(Purpose::Change).import_image(&image, &wanted, &mut CopyProgress::new(&mut go_on))
    }

    /// Imports what fits into the origin.
    fn import_partially(&self, name: &str, into: Option<&str>) -> Imported {
        let image = Image::open(&self.path(name), None).unwrap();
        let mut go_on = |_| ControlFlow::Continue(());
        let wanted = ImportImage { into: into.map(str::to_owned), partial: true };
        let progress = &mut CopyProgress::new(&mut go_on);
        self.open(Purpose::Change).import_image(&image, &wanted, progress).unwrap()
    }

    /// Returns names, modes, offsets and sizes.
    fn namespaces(&self) -> Vec<(String, Mode, u64, u64)> {
        let directory = self.open(Purpose::ReadOnly);
        let platform = directory.platform();
        let all = platform.regions().into_iter().flat_map(|region| platform.namespaces(&region));
        all.map(|one| (one.name.clone(), one.mode(), one.offset, one.size)).collect()
    }

    /// Returns all data of the state directory, without holes, by file and offset.
    fn bytes(&self) -> BTreeMap<(PathBuf, u64), Vec<u8>> {
        let mut all = BTreeMap::new();
        let mut folders = vec![self.state()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let file = File::open(&path).unwrap();
                let mut at = 0;
                while let Ok(start) = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(at)) {
                    let end = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(start)).unwrap();
                    let mut bytes = vec![0; (end - start) as usize];
                    file.read_exact_at(&mut bytes, start).unwrap();
                    for (part, off) in bytes.chunks(4096).zip((start..).step_by(4096)) {
                        if part.iter().any(|byte| *byte != 0) {
                            all.insert((path.clone(), off), part.to_vec());
                        }
                    }
                    at = end;
                }
            }
        }
        all
    }

    fn change_image(&self, name: &str, off: u64, bytes: &[u8]) {
        let file = File::options().write(true).open(self.path(name)).unwrap();
        file.write_all_at(bytes, off).unwrap();
    }

    /// Returns the label area of an image, and its offset.
    fn area(&self, name: &str) -> (LabelArea, u64) {
        let file = File::open(self.path(name)).unwrap();
        let layout = ImageLayout::of_file(file.metadata().unwrap().len(), None).unwrap();
        let mut bytes = vec![0; layout.label_len as usize];
        file.read_exact_at(&mut bytes, layout.data_len).unwrap();
        (LabelArea::read(&bytes).unwrap(), layout.data_len)
    }

    /// Puts a label into an image, as a kernel does.
    fn put(&self, name: &str, label: NamespaceLabel) {
        let (area, off) = self.area(name);
        for write in area.put(&Label::Namespace(label)).unwrap().writes {
            self.change_image(name, off + write.off, &write.bytes);
        }
    }

    /// Returns the label in an image of the namespace with this name.
    fn label(&self, image: &str, name: &str) -> NamespaceLabel {
        let (area, _) = self.area(image);
        let mut labels = area.labels().filter_map(|(_, label)| match label {
            Label::Namespace(label) if label.name.text() == name => Some(*label),
            _ => None,
        });
        labels.next().unwrap()
    }
}

fn counted(first: u128) -> impl FnMut() -> Uuid {
    let mut next = first;
    move || {
        next += 1;
        Uuid::from_u128(next)
    }
}

/// Returns the text of a machine with `ways` modules on a socket, which contribute a GiB each.
fn machine_text(ways: u64) -> String {
    let text = Machine::included("lab-one").unwrap();
    let module = &text[text.find("[[module]]").unwrap()..text.find("[[dram]]").unwrap()];
    let more = (1..ways).map(|position| {
        module
            .replace("0x0001", &format!("0x{position:02}01"))
            .replace("2140-00000001", &format!("2140-000000{:02}", position + 1))
            .replace("0x0020", &format!("0x{:04x}", 0x20 + position))
            .replace("DIMM_A2", &format!("DIMM_B{position}"))
    });
    text.replace(module, &(module.to_owned() + &more.collect::<String>()))
}

fn fault(error: PlatformError) -> ImageErrorKind {
    match error {
        PlatformError::Image(ImageError::Image { kind, .. }) => *kind,
        other => panic!("{other}"),
    }
}

#[test]
fn region_image_round_trips() {
    for ways in [1, 2, 3] {
        for labels in [LabelVersion::V1_1, LabelVersion::V1_2] {
            let machine = Emulated::new(ways, labels);
            let offs = [0, 4095, 5000, 8192, 400 * MIB - 1, 600 * MIB + 77, ways * 1024 * MIB - 1];
            for (number, off) in (1..).zip(offs) {
                machine.write(off, &[number]);
            }
            let before = machine.bytes();
            let made = machine.export("region0", "image");
            assert_eq!(made.layout, ImageLayout { data_len: ways << 30, label_len: LABELS_LEN });
            let image = File::open(machine.path("image")).unwrap();
            assert!(image.metadata().unwrap().blocks() * 512 < 2 * MIB, "it is sparse");
            for (number, off) in (1..).zip(offs) {
                let mut byte = [0];
                image.read_exact_at(&mut byte, off).unwrap();
                assert_eq!(byte, [number], "{ways} ways, {off}");
            }
            let done = machine.import("image", None).unwrap();
            assert_eq!((done.destination.as_str(), done.created, done.removed), ("region0", 0, 0));
            assert!(machine.bytes() == before, "{ways} ways, labels {labels}: not as before");
            for (number, off) in (100..).zip(offs) {
                machine.change_image("image", off, &[number]);
            }
            machine.change_image("image", 12 * 4096, &[0; 4096]);
            machine.import("image", None).unwrap();
            for (number, off) in (100..).zip(offs) {
                assert_eq!(machine.read(off, 1), [number], "{ways} ways, {off}");
            }
        }
    }
}

#[test]
fn image_listing_matches_region() {
    let machine = Emulated::new(3, LabelVersion::V1_2);
    let made = machine.export("region0", "image");
    assert_eq!(made.namespaces, ["namespace0.0", "namespace0.1", "namespace0.2", "namespace0.3"]);
    let contents = Image::open(&machine.path("image"), None).unwrap().contents().unwrap();
    assert_eq!((contents.slot, contents.version), (Some(QemuSlot(2)), Some(LabelVersion::V1_2)));
    let found = contents.namespaces.iter().map(|one| &one.namespace);
    let found: Vec<_> = found.map(|one| (one.name.clone(), one.mode(), one.offset, one.size)).collect();
    assert_eq!(found, machine.namespaces());
    for (_, label) in &contents.labels {
        assert_eq!((label.label_count, label.position), (1, 0));
        assert_eq!(label.set_cookie, QemuSlot(2).cookie(LabelVersion::V1_2));
    }
    assert!(contents.listing.contains("\"id\":\"8680-58341200\""), "{}", contents.listing);
    assert!(made.qemu.iter().any(|word| word.ends_with("label-size=131072,slot=2")), "{:?}", made.qemu);
}

#[test]
fn namespace_image_holds_one_namespace() {
    let machine = Emulated::new(2, LabelVersion::V1_2);
    machine.write(288 * MIB + 5000, b"of the namespace");
    machine.write(384 * MIB, b"of nobody");
    let made = machine.export("namespace0.3", "image");
    assert_eq!(made.layout.data_len, 96 * MIB);
    machine.change_image("image", 95 * MIB, b"of the kernel");
    let before = machine.namespaces();
    let done = machine.import("image", None).unwrap();
    assert_eq!((done.destination.as_str(), done.namespaces.len()), ("namespace0.3", 1));
    assert_eq!(machine.read(288 * MIB + 5000, 16), b"of the namespace");
    assert_eq!(machine.read((288 + 95) * MIB, 13), b"of the kernel");
    assert_eq!(machine.read(384 * MIB, 9), b"of nobody");
    assert_eq!(machine.namespaces(), before);
    let label = machine.label("image", "number 4");
    assert_eq!((label.dpa, label.raw_size), (0, 96 * MIB));
}

#[test]
fn kernel_label_changes_are_imported() {
    let machine = Emulated::new(2, LabelVersion::V1_2);
    machine.export("region0", "image");
    let old = machine.label("image", "number 2");
    let (area, off) = machine.area("image");
    for write in area.remove(old.uuid).unwrap().writes {
        machine.change_image("image", off + write.off, &write.bytes);
    }
    let name = lode_nvdimm::LabelName::new("of the kernel").unwrap();
    let new = NamespaceLabel { uuid: Uuid::from_u128(99), name, dpa: 512 * MIB, raw_size: 64 * MIB, ..old };
    machine.put("image", new);
    let done = machine.import("image", None).unwrap();
    assert_eq!((done.created, done.removed, done.namespaces.len()), (1, 1, 4));
    let names: Vec<_> = machine.namespaces().into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["number 1", "number 3", "number 4", "of the kernel"]);
    assert_eq!(machine.namespaces()[3].2, 512 * MIB);
    machine.import("image", None).unwrap();
    assert_eq!(machine.namespaces().len(), 4, "a second time changes nothing");
}

#[test]
fn sector_image_holds_user_data() {
    let machine = Emulated::new(3, LabelVersion::V1_2);
    machine.export_as("namespace0.1", ImageFormat::VirtioPmem, "sectors").unwrap();
    let offs = [0, 4096 * 5 + 9, 90 * MIB];
    for (number, off) in (1..).zip(offs) {
        machine.change_image("sectors", off, &[number]);
    }
    machine.import("sectors", Some("namespace0.1")).unwrap();
    machine.export_as("namespace0.1", ImageFormat::VirtioPmem, "again").unwrap();
    assert!(fs::read(machine.path("again")).unwrap() == fs::read(machine.path("sectors")).unwrap());
    machine.open(Purpose::ReadOnly).check_namespace("namespace0.1").unwrap();
    // A sector that became zeros must not be stored in the data area.
    machine.change_image("sectors", 90 * MIB, &[0]);
    machine.import("sectors", Some("namespace0.1")).unwrap();
    fs::remove_file(machine.path("again")).unwrap();
    machine.export_as("namespace0.1", ImageFormat::VirtioPmem, "again").unwrap();
    assert!(fs::read(machine.path("again")).unwrap() == fs::read(machine.path("sectors")).unwrap());
    machine.open(Purpose::ReadOnly).check_namespace("namespace0.1").unwrap();
}

/// Returns a machine with a namespace of 32 MiB for each size of sectors.
fn sector_namespaces(sector_sizes: &[u64]) -> (Emulated, Vec<Namespace>) {
    let machine = Emulated::new(1, LabelVersion::V1_2);
    let mut directory = machine.open(Purpose::Change);
    for (number, sector_size) in (900..).zip(sector_sizes) {
        let (size, sector_size) = (Some(32 * MIB), Some(*sector_size));
        let wanted = CreateNamespace { mode: Mode::Sector, size, sector_size, ..CreateNamespace::default() };
        let create = |platform: &mut Platform| namespace::create(platform, &wanted, &mut counted(number));
        directory.change(create).unwrap();
    }
    let platform = directory.platform();
    let mut made = platform.namespaces(&platform.regions()[0]);
    made.retain(|one| one.size == 32 * MIB);
    (machine, made)
}

/// Issue 12: sectors with metadata. An image had the metadata among the data, so a guest read shifted bytes. The kernel
/// shows 512 or 4096 bytes of each sector.
#[test]
fn images_of_sectors_with_metadata_hold_data_only() {
    let (machine, made) = sector_namespaces(&[512, 520, 528, 4096, 4104, 4160, 4224]);
    for one in &made {
        let name = one.device();
        let listed = one.user_sector_size();
        let data = if listed < 4096 { 512 } else { 4096 };
        let block_at = |number: u64| one.offset + 4096 + number * listed.next_multiple_of(64);
        assert_eq!(one.usable() % data, 0, "{name}");
        assert!((one.usable() / data + 256) * (listed.next_multiple_of(64) + 4) < 32 * MIB, "{name}");
        machine.export_as(&name, ImageFormat::VirtioPmem, &name).unwrap();
        for number in [0, 1, 777] {
            machine.write(block_at(number), &[9; 640][..listed.next_multiple_of(64).min(640) as usize]);
            machine.change_image(&name, number * data, &[number as u8 + 1; 512]);
        }
        machine.import(&name, Some(&name)).unwrap();
        for number in [0, 1, 777] {
            let stored = machine.read(block_at(number), listed as usize);
            assert_eq!(stored[..512], [number as u8 + 1; 512], "{name}, sector {number}");
            assert!(stored[512..].iter().all(|byte| *byte == 0), "{name}, sector {number}");
        }
        machine.export_as(&name, ImageFormat::VirtioPmem, "again").unwrap();
        assert!(fs::read(machine.path("again")).unwrap() == fs::read(machine.path(&name)).unwrap(), "{name}");
        fs::remove_file(machine.path("again")).unwrap();
        machine.open(Purpose::ReadOnly).check_namespace(&name).unwrap();
    }
}

/// A kernel that read a page ended at the first sector that was marked as zeros, and left the data after it in the page unread.
/// Found by the scenario `image-random` of the lab.
#[test]
fn zeros_among_data_of_a_page_are_not_marked() {
    let (machine, made) = sector_namespaces(&[512, 528, 4096, 4224]);
    for one in &made {
        let (name, is_page) = (one.device(), one.user_sector_size() >= 4096);
        let data = if is_page { 4096 } else { 512 };
        let info = BttInfo::decode(&machine.read(one.offset, 4096)).unwrap();
        machine.export_as(&name, ImageFormat::VirtioPmem, &name).unwrap();
        let import = |changes: &[(u64, u8)]| -> Vec<BttBlockState> {
            for (sector, byte) in changes {
                machine.change_image(&name, sector * data, &vec![*byte; data as usize]);
            }
            machine.import(&name, Some(&name)).unwrap();
            machine.export_as(&name, ImageFormat::VirtioPmem, "again").unwrap();
            assert!(
                fs::read(machine.path("again")).unwrap() == fs::read(machine.path(&name)).unwrap(),
                "{name}"
            );
            fs::remove_file(machine.path("again")).unwrap();
            let map = machine.read(one.offset + info.geometry.mapoff(), 16);
            map.as_chunks::<4>().0.iter().map(|entry| BttMapEntry::decode(*entry).state).collect()
        };
        use BttBlockState::{Initial, Normal, Zero};
        let (zeros, hole) = if is_page { (Zero, Zero) } else { (Normal, Initial) };
        assert_eq!(import(&[(1, 7), (2, 8)])[1..3], [Normal; 2], "{name}");
        assert_eq!(import(&[(1, 0)])[1..3], [zeros, Normal], "{name}");
        // Beyond the page of these sectors the medium is a hole.
        let map = machine.read(one.offset + info.geometry.mapoff() + 4 * 4000, 4);
        assert_eq!(BttMapEntry::decode(map[..].try_into().unwrap()).state, hole, "{name}");
        machine.open(Purpose::ReadOnly).check_namespace(&name).unwrap();
    }
}

/// No tool makes such sectors, but a guest may write an info block that claims them.
#[test]
fn large_sectors_round_trip() {
    let machine = Emulated::new(1, LabelVersion::V1_2);
    let mut directory = machine.open(Purpose::Change);
    let wanted = CreateNamespace { mode: Mode::Sector, size: Some(608 * MIB), ..CreateNamespace::default() };
    let create = |platform: &mut Platform| namespace::create(platform, &wanted, &mut counted(900));
    let start = directory.change(create).unwrap().offset;
    drop(directory);
    let mut block = vec![0; 4096];
    machine.media(0).read_exact_at(&mut block, MODULE_START + start).unwrap();
    let geometry = BttInfo::decode(&block).unwrap().geometry;
    let count = ((geometry.mapoff() - geometry.dataoff()) / (2 * MIB)) as u32;
    let sector = (2 * MIB) as u32;
    for (field, value) in [(0x38, sector), (0x3c, count - 256), (0x40, sector), (0x44, count)] {
        block[field..field + 4].copy_from_slice(&value.to_le_bytes());
    }
    let Err(InfoBlockError::Checksum { want, .. }) = BttInfo::decode(&block) else { panic!("no other sum") };
    block[4088..].copy_from_slice(&want.to_le_bytes());
    machine.write(start, &block);
    let geometry = BttInfo::decode(&block).unwrap().geometry;
    let mut flog = BttFlog::new(&geometry, BttDialect::Kernel).encode();
    // There are fewer sectors than lanes: the last write of each lane was to the first sector.
    for lane in flog.chunks_mut(BttFlog::LANE_LEN as usize) {
        lane[..4].fill(0);
    }
    machine.write(start + geometry.flogoff(), &flog);
    machine.export_as("namespace0.4", ImageFormat::VirtioPmem, "bare").unwrap();
    // The kernel takes 4096 bytes of such a sector as data.
    machine.change_image("bare", 3 * 4096 + 7, b"in the fourth sector");
    machine.import("bare", Some("namespace0.4")).unwrap();
    let stored = machine.read(start + geometry.dataoff() + 3 * 2 * MIB + 7, 20);
    assert_eq!(stored, b"in the fourth sector");
    machine.export_as("namespace0.4", ImageFormat::VirtioPmem, "again").unwrap();
    assert!(fs::read(machine.path("bare")).unwrap() == fs::read(machine.path("again")).unwrap());
}

#[test]
fn module_image_round_trips() {
    let machine = Emulated::new(2, LabelVersion::V1_2);
    machine.write(4096 + 7, b"on the second module");
    let before = machine.bytes();
    let made = machine.export("nmem1", "module");
    assert!(made.qemu.is_empty());
    let contents = Image::open(&machine.path("module"), None).unwrap().contents().unwrap();
    assert_eq!((contents.slot, contents.labels.len()), (None, 4));
    let done = machine.import("module", None).unwrap();
    assert_eq!(done.destination, "0x0101");
    assert!(machine.bytes() == before);
    let wrong = machine.import("module", Some("0x0001")).unwrap_err();
    assert!(matches!(fault(wrong), ImageErrorKind::ForeignLabel { .. }));
    assert!(machine.bytes() == before);
}

/// The import used to report only the difference of the counts: nothing for one new and one removed namespace.
#[test]
fn module_import_counts_changes() {
    let machine = Emulated::new(1, LabelVersion::V1_2);
    machine.export("nmem0", "module");
    let mut directory = machine.open(Purpose::Change);
    let another = |platform: &mut Platform| {
        namespace::destroy(platform, "namespace0.3", true)?;
        let wanted = CreateNamespace { mode: Mode::Raw, size: Some(48 * MIB), ..CreateNamespace::default() };
        namespace::create(platform, &wanted, &mut counted(900)).map(drop)
    };
    directory.change(another).unwrap();
    drop(directory);
    let done = machine.import("module", None).unwrap();
    assert_eq!((done.namespaces.len(), done.created, done.removed), (4, 1, 1));
}

#[test]
fn disabled_region_refuses_import() {
    let machine = Emulated::new(2, LabelVersion::V1_2);
    machine.export("region0", "region");
    machine.export("namespace0.0", "namespace");
    let mut directory = machine.open(Purpose::Change);
    directory.change(|platform| region::enable(platform, 0, false)).unwrap();
    let mut go_on = |_| ControlFlow::Continue(());
    let progress = &mut CopyProgress::new(&mut go_on);
    let no_mkfs = directory.make_file_system("namespace0.0", FileSystemKind::Ext4, &[], progress);
    drop(directory);
    assert!(
        matches!(no_mkfs, Err(PlatformError::Namespace(NamespaceError::RegionDisabled { region: 0 }))),
        "{no_mkfs:?}"
    );
    for (image, into) in [("region", None), ("namespace", None), ("region", Some("region0"))] {
        let refused = machine.import(image, into);
        assert!(
            matches!(refused, Err(PlatformError::Namespace(NamespaceError::RegionDisabled { region: 0 }))),
            "{refused:?}"
        );
    }
}

#[test]
fn kata_root_has_two_partition_tables() {
    let machine = Emulated::new(2, LabelVersion::V1_2);
    // A superblock of ext4: the magic number, and the feature flag of extents.
    let data = 2 * MIB;
    let (start, mut block) = (data + 1024, vec![0; 1024]);
    block[0x38..0x3a].copy_from_slice(&[0x53, 0xef]);
    block[0x60] = 0x40;
    machine.write(start, &block);
    let made = machine.export_as("namespace0.0", ImageFormat::KataRoot, "root").unwrap();
    assert_eq!(made.layout, ImageLayout { data_len: 128 * MIB, label_len: 0 });
    let contents = Image::open(&machine.path("root"), None).unwrap().contents().unwrap();
    let [found] = contents.namespaces.as_slice() else { panic!("{contents:?}") };
    assert_eq!(found.namespace.mode(), Mode::Fsdax);
    assert_eq!(found.file_system.as_ref().map(|found| (found.kind, found.off)), Some(("ext4", MIB)));
    let refused = machine.export_as("namespace0.3", ImageFormat::KataRoot, "none").unwrap_err();
    assert!(matches!(fault(refused), ImageErrorKind::Format { .. }));
}

/// Each image is changed once, in a way that no kernel would, and is refused. Nothing is changed here.
#[test]
fn bad_images_are_refused_unchanged() {
    let machine = Emulated::new(3, LabelVersion::V1_2);
    let before = machine.bytes();
    let data_len = 3 << 30;
    let area_off = data_len;
    let refused = |what: &str, change: &dyn Fn(&str)| {
        machine.export("region0", what);
        change(what);
        let refused = fault(machine.import(what, None).unwrap_err());
        // A listing names the same fault, and has the namespaces that a kernel finds.
        let listed = Image::open(&machine.path(what), None).and_then(|image| image.contents());
        match (&refused, listed) {
            (ImageErrorKind::Length { .. } | ImageErrorKind::Labels { .. }, Err(error)) => {
                assert_eq!(fault(error), refused, "{what}");
            }
            (ImageErrorKind::NoOrigin | ImageErrorKind::Misaligned { .. }, Ok(contents)) => {
                assert!(
                    contents.faults.is_empty() && !contents.namespaces.is_empty(),
                    "{what}: {contents:?}"
                );
            }
            (refused, Ok(contents)) => {
                assert_eq!(contents.faults, std::slice::from_ref(refused), "{what}");
                let count = contents.namespaces.len();
                let names =
                    contents.namespaces.iter().filter(|one| one.namespace.name.starts_with("number "));
                let expected = match refused {
                    // The region as a whole.
                    ImageErrorKind::OverlappingLabels { .. } => (1, 0),
                    ImageErrorKind::DuplicateLabels { .. }
                    | ImageErrorKind::EmptyLabel { .. }
                    | ImageErrorKind::OtherMembers { .. } => (0, 0),
                    ImageErrorKind::TornLabel { .. } | ImageErrorKind::HalfWritten { .. } => (3, 3),
                    _ => (4, 4),
                };
                assert_eq!((count, names.count()), expected, "{what}: {contents:?}");
            }
            (_, Err(error)) => panic!("{what}: {error}"),
        }
        assert!(machine.bytes() == before, "{what}: something was changed");
        fs::remove_file(machine.path(what)).unwrap();
        refused
    };
    let cut = |what: &str, len: u64| {
        File::options().write(true).open(machine.path(what)).unwrap().set_len(len).unwrap();
    };
    let found = refused("cut-in-labels", &|what| cut(what, data_len + 4096));
    assert_eq!(found, ImageErrorKind::Length { len: data_len + 4096 });
    let found = refused("cut-in-data", &|what| cut(what, data_len - 4096));
    assert_eq!(found, ImageErrorKind::NoOrigin);
    assert_eq!(refused("cut-behind-data", &|what| cut(what, data_len)), ImageErrorKind::NoOrigin);
    let found = refused("torn-index", &|what| {
        machine.change_image(what, area_off + 100, &[0x5a; 8]);
        machine.change_image(what, area_off + 256 + 100, &[0x5a; 8]);
    });
    assert!(matches!(found, ImageErrorKind::Labels { error: LabelError::NoIndex { .. }, .. }), "{found}");
    let found = refused("torn-label", &|what| machine.change_image(what, area_off + 512 + 256 + 20, b"torn"));
    assert!(matches!(found, ImageErrorKind::TornLabel { slot: 1, .. }), "{found}");
    let of_kernel = |label: NamespaceLabel| NamespaceLabel { uuid: Uuid::from_u128(99), ..label };
    let found = refused("half-written", &|what| {
        let label = machine.label(what, "number 1");
        machine.put(what, NamespaceLabel { flags: LabelFlags::UPDATING, ..label });
    });
    assert!(matches!(found, ImageErrorKind::HalfWritten { .. }), "{found}");
    let found = refused("foreign", &|what| {
        let label = of_kernel(machine.label(what, "number 1"));
        machine.put(what, NamespaceLabel { set_cookie: 7, dpa: 512 * MIB, ..label });
    });
    assert_eq!(found, ImageErrorKind::ForeignLabel { slot: 4, cookie: 7 });
    let found = refused("members", &|what| {
        let label = of_kernel(machine.label(what, "number 1"));
        machine.put(what, NamespaceLabel { position: 1, dpa: 512 * MIB, ..label });
    });
    assert_eq!(found, ImageErrorKind::OtherMembers { slot: 4, position: 1, count: 1 });
    let found = refused("behind", &|what| {
        let label = of_kernel(machine.label(what, "number 1"));
        machine.put(what, NamespaceLabel { dpa: data_len - 48 * MIB, ..label });
    });
    assert!(matches!(found, ImageErrorKind::BeyondEnd { .. }), "{found}");
    let found = refused("uneven", &|what| {
        let label = of_kernel(machine.label(what, "number 1"));
        machine.put(what, NamespaceLabel { dpa: 512 * MIB, raw_size: 64 * MIB, ..label });
    });
    assert!(matches!(found, ImageErrorKind::Misaligned { unit: 12288, .. }), "{found}");
    let found = refused("uneven-start", &|what| {
        let label = of_kernel(machine.label(what, "number 1"));
        machine.put(what, NamespaceLabel { dpa: 512 * MIB, raw_size: 48 * MIB, ..label });
    });
    assert!(matches!(found, ImageErrorKind::Misaligned { unit: 12288, .. }), "{found}");
    let found = refused("overlapping", &|what| put_fifth(&machine, what, 4096, 204));
    assert_eq!(found, ImageErrorKind::OverlappingLabels { slots: (0, 4) });
    let found = refused("twins", &|what| put_fifth(&machine, what, 1024 * MIB, 200));
    assert_eq!(found, ImageErrorKind::DuplicateLabels { slots: (0, 4), uuid: Uuid::from_u128(200) });
    let found = refused("empty", &|what| {
        let label = of_kernel(machine.label(what, "number 1"));
        machine.put(what, NamespaceLabel { dpa: 512 * MIB, raw_size: 0, ..label });
    });
    assert_eq!(found, ImageErrorKind::EmptyLabel { slot: 4 });
}

/// Issue 12: what a guest makes in the padding of an image is refused before anything is written. On request, the rest is
/// imported.
#[test]
fn namespaces_in_padding_are_refused_or_skipped() {
    let machine = Emulated::new(1, LabelVersion::V1_2);
    // An image has a multiple of 16 MiB. Kernels before 5.7 do not align namespaces to that.
    let file = machine.state().join("machine.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("kernel = \"6.1\"", "kernel = \"4.20\"")).unwrap();
    let size = 98 * MIB;
    let wanted = CreateNamespace { mode: Mode::Raw, size: Some(size), ..CreateNamespace::default() };
    let create = |platform: &mut Platform| namespace::create(platform, &wanted, &mut counted(900));
    machine.open(Purpose::Change).change(create).unwrap();
    let layout = machine.export("namespace0.4", "image").layout;
    assert_eq!(layout.data_len, 112 * MIB);
    machine.change_image("image", 5000, b"inside");
    let own = Image::open(&machine.path("image"), None).unwrap().contents().unwrap().labels[0].1;
    let guests = NamespaceLabel { uuid: Uuid::from_u128(99), dpa: size, raw_size: 14 * MIB, ..own };
    let (area, area_off) = machine.area("image");
    for write in area.put(&Label::Namespace(guests)).unwrap().writes {
        machine.change_image("image", area_off + write.off, &write.bytes);
    }
    let before = machine.bytes();
    let refused = fault(machine.import("image", None).unwrap_err());
    let beyond = ImageErrorKind::BeyondEnd { uuid: guests.uuid, end: 112 * MIB, len: size };
    assert_eq!(refused, beyond);
    assert!(machine.bytes() == before, "something was written");
    let done = machine.import_partially("image", None);
    assert_eq!((done.skipped, done.created, done.removed), (vec![beyond], 0, 0));
    assert_eq!(machine.namespaces().len(), 5);
    let offset = machine.namespaces()[4].2;
    assert_eq!(machine.read(offset + 5000, 6), b"inside");
    // Without labels, data tells that the padding is used.
    let odd = CreateNamespace { mode: Mode::Raw, size: Some(17 * MIB), ..CreateNamespace::default() };
    let create = |platform: &mut Platform| namespace::create(platform, &odd, &mut counted(910));
    let name = machine.open(Purpose::Change).change(create).unwrap().device();
    let layout = machine.export_as(&name, ImageFormat::VirtioPmem, "bare").unwrap().layout;
    assert_eq!(layout.data_len, 18 * MIB);
    machine.change_image("bare", 9, b"nine");
    machine.import("bare", Some(&name)).unwrap();
    machine.change_image("bare", 17 * MIB + 77, b"lost");
    let before = machine.bytes();
    let refused = fault(machine.import("bare", Some(&name)).unwrap_err());
    assert_eq!(refused, ImageErrorKind::DataInPadding { off: 17 * MIB + 77, range: 0..17 * MIB });
    assert!(machine.bytes() == before, "something was written");
    assert_eq!(machine.import_partially("bare", Some(&name)).skipped, [refused]);
}

/// Formats the area with five labels, of the namespaces 200 to 204. The fifth then gets `uuid` and `dpa`, with the
/// bytes of its label from another area, in which it does not conflict.
fn put_fifth(machine: &Emulated, what: &str, dpa: u64, uuid: u128) {
    let label = machine.label(what, "number 1");
    let area = |(others, others_dpa): (u128, u64), fifth: u128, fifth_dpa: u64| {
        let mut update = LabelArea::format(LABELS_LEN, LabelFormat::V1_2).unwrap();
        let others = (0..4).map(|number| (others + u128::from(number), others_dpa + number * 96 * MIB));
        for (uuid, dpa) in others.chain([(fifth, fifth_dpa)]) {
            let label = NamespaceLabel { uuid: Uuid::from_u128(uuid), dpa, ..label };
            let next = update.after.put(&Label::Namespace(label)).unwrap();
            update.writes.extend(next.writes);
            update.after = next.after;
        }
        update.writes
    };
    let area_off = machine.ways << 30;
    for write in area((200, 0), 204, 1024 * MIB) {
        machine.change_image(what, area_off + write.off, &write.bytes);
    }
    let slot = 512 + 4 * 256;
    let write = area((300, 1536 * MIB), uuid, dpa).into_iter().find(|write| write.off == slot).unwrap();
    machine.change_image(what, area_off + slot, &write.bytes);
}

#[test]
fn import_needs_a_fitting_target() {
    let machine = Emulated::new(2, LabelVersion::V1_2);
    machine.export("namespace0.0", "one");
    machine.export_as("namespace0.0", ImageFormat::VirtioPmem, "bare").unwrap();
    let before = machine.bytes();
    let refused = |name: &str, into| fault(machine.import(name, into).unwrap_err());
    let found = refused("one", Some("region0"));
    let ImageErrorKind::Size { into, want, found } = found else { panic!("{found}") };
    assert_eq!((into.as_str(), want, found), ("region0", 2 << 30, 96 * MIB));
    assert_eq!(refused("bare", None), ImageErrorKind::NoOrigin);
    assert!(matches!(refused("bare", Some("namespace0.1")), ImageErrorKind::Size { .. }));
    assert!(matches!(refused("one", Some("volume0")), ImageErrorKind::UnknownSource { .. }));
    let taken = machine.import("one", Some("namespace0.3")).unwrap_err();
    assert!(matches!(taken, PlatformError::Namespace(NamespaceError::UuidExists { .. })), "{taken}");
    assert!(machine.bytes() == before);
}

#[test]
fn interrupted_copies_leave_no_files() {
    let machine = Emulated::new(2, LabelVersion::V1_2);
    machine.export("region0", "image");
    let exists = machine.export_as("region0", ImageFormat::Nvdimm, "image").unwrap_err();
    assert_eq!(fault(exists), ImageErrorKind::Exists);
    let before = machine.bytes();
    let image = Image::open(&machine.path("image"), None).unwrap();
    let mut stop = |_| ControlFlow::Break(());
    let mut directory = machine.open(Purpose::Change);
    let stopped = directory.import_image(&image, &ImportImage::default(), &mut CopyProgress::new(&mut stop));
    assert!(matches!(stopped, Err(PlatformError::Cancelled(_))), "{stopped:?}");
    let wanted =
        ExportImage { source: "region0".to_owned(), format: ImageFormat::Nvdimm, slot: QemuSlot::default() };
    let path = machine.path("second");
    let names = || fs::read_dir(machine.folder.path()).unwrap().count();
    let before_export = names();
    // A process that is killed at this moment leaves these files.
    let mut stop = |_| {
        assert_eq!(names(), before_export, "a file has a name before it is whole");
        ControlFlow::Break(())
    };
    let stopped = directory.export_image(&wanted, &path, Uuid::nil(), &mut CopyProgress::new(&mut stop));
    assert!(matches!(stopped, Err(PlatformError::Cancelled(_))), "{stopped:?}");
    drop(directory);
    assert!(machine.bytes() == before);
    let names: Vec<_> =
        fs::read_dir(machine.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    // The next command removes the files of a killed one.
    fs::create_dir(machine.state().join("staged")).unwrap();
    fs::write(machine.state().join("staged/0x0001.media"), "half").unwrap();
    drop(machine.open(Purpose::ReadOnly));
    assert!(!machine.state().join("staged").exists());
    assert!(machine.bytes() == before);
}
