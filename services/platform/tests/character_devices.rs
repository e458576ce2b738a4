//! Character devices change their mode, and reserved memory is divided, as by the kernel and daxctl.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_platform::dax::{
    self, AlreadyDone, DaxError, Destroyed, DeviceId, Driver, MemoryZone, Reconfigured,
};
use lode_platform::machine::Machine;
use lode_platform::namespace::{self, NamespaceError};
use lode_platform::ndctl::{self, DaxRequest};
use lode_platform::sysfs::Sysfs;
use lode_platform::{
    CreateNamespace, Directory, DirectoryError, GoalRequest, Mode, Platform, PlatformError, Purpose,
    StateFault, boot, goal, nmem, region,
};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;
use uuid::Uuid;

const MIB: u64 = 1 << 20;
const RAM: Reconfigured = Reconfigured::SystemRam(Some(MemoryZone::Movable));
const DEVDAX: Reconfigured = Reconfigured::Devdax { force: false };
/// The device of the first namespace.
const STATIC: DeviceId = DeviceId { region: 0, number: 0 };

/// The device with this number in reserved memory, which follows the one nd region.
const fn reserved(number: u32) -> DeviceId {
    DeviceId { region: 1, number }
}

/// Returns a machine with a devdax namespace and 1 GiB of reserved memory, under a kernel of this version.
fn machine(kernel: &str) -> (TempDir, Directory) {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("state");
    let text =
        Machine::included("lab-pair").unwrap().replace("kernel = \"6.1\"", &format!("kernel = \"{kernel}\""));
    let text = text + "\n[[soft_reserved]]\nstart = \"64GiB\"\nsize = \"1GiB\"\n";
    let mut directory = Directory::init(&root, Path::new("test"), &text).unwrap();
    let change = |platform: &mut Platform| {
        let goals = goal::plan(platform, &GoalRequest::default())?;
        goal::create(platform, goals);
        boot::reboot(platform);
        create(platform)?;
        Ok::<_, PlatformError>(())
    };
    directory.change(change).unwrap();
    (folder, directory)
}

/// Returns a source of UUIDs, none of which was given out before.
fn uuids() -> impl FnMut() -> Uuid {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    || Uuid::from_u64_pair(0xda, NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A change of namespaces.
type Change = fn(&mut Platform) -> Result<(), NamespaceError>;

fn create(platform: &mut Platform) -> Result<(), NamespaceError> {
    let wanted = CreateNamespace { mode: Mode::Devdax, size: Some(512 * MIB), ..CreateNamespace::default() };
    namespace::create(platform, &wanted, &mut uuids()).map(drop)
}

/// Opens the directory again, so that its files are read.
fn reopened(directory: Directory) -> Directory {
    let root = directory.root().to_owned();
    drop(directory);
    Directory::open(&root, Purpose::Change).unwrap()
}

/// Changes the platform, and returns the refusal.
fn refused<T, E: Into<PlatformError>>(
    directory: &mut Directory,
    change: impl FnOnce(&mut Platform) -> Result<T, E>,
) -> PlatformError {
    let before = directory.platform().state.clone();
    let error = directory.change(change).err().expect("the change is refused");
    assert_eq!(directory.platform().state, before);
    error
}

fn list(directory: &Directory, request: &DaxRequest) -> String {
    ndctl::inventory(directory.platform()).list_dax(request)
}

fn driver(directory: &Directory, id: DeviceId) -> Driver {
    let regions = dax::regions(directory.platform());
    let mut devices = regions.iter().flat_map(|region| &region.devices);
    devices.find(|device| device.id == id).unwrap().driver
}

/// The keys and their order are those of daxctl 76. The device starts after its page map, so the first and the last of
/// its memory blocks are not whole.
#[test]
fn device_of_namespace_becomes_memory() {
    let (_folder, mut directory) = machine("6.1");
    let device = DaxRequest { device: Some(STATIC), ..DaxRequest::default() };
    assert!(list(&directory, &device).contains("\"align\":2097152,\n    \"mode\":\"devdax\"\n  }"));
    directory.change(|platform| dax::reconfigure(platform, STATIC, Reconfigured::SystemRam(None))).unwrap();
    let offline = list(&directory, &device);
    let memory = "\"mode\":\"system-ram\",\n    \"online_memblocks\":0,\n    \"total_memblocks\":3\n  }";
    assert!(offline.contains(memory), "{offline}");
    let count = directory.change(|platform| dax::online(platform, STATIC, MemoryZone::Normal)).unwrap();
    assert_eq!(count, 3);
    let mut directory = reopened(directory);
    let online = list(&directory, &device);
    let memory = "\"online_memblocks\":3,\n    \"total_memblocks\":3,\n    \"movable\":false\n  }";
    assert!(online.contains(memory), "{online}");
    assert_eq!(directory.change(|platform| dax::online(platform, STATIC, MemoryZone::Movable)).unwrap(), 0);
    let again = directory.change(|platform| dax::reconfigure(platform, STATIC, RAM)).unwrap();
    assert_eq!(again, [AlreadyDone::SystemRam, AlreadyDone::Online(3)]);
    let busy = refused(&mut directory, |platform| dax::reconfigure(platform, STATIC, DEVDAX));
    assert!(matches!(busy, PlatformError::Dax(DaxError::Online { blocks: 3, .. })), "{busy}");
    for is_enabled in [true, false] {
        let memory = refused(&mut directory, |platform| dax::enable(platform, STATIC, is_enabled));
        assert!(matches!(memory, PlatformError::Dax(DaxError::IsMemory { .. })), "{memory}");
    }
    directory
        .change(|platform| dax::reconfigure(platform, STATIC, Reconfigured::Devdax { force: true }))
        .unwrap();
    assert!(directory.platform().state.dax_devices.is_empty(), "the device is as at a start");
    let done = directory.change(|platform| dax::reconfigure(platform, STATIC, DEVDAX)).unwrap();
    assert_eq!(done, [AlreadyDone::Devdax]);
    for change in [
        |platform: &mut Platform| dax::offline(platform, STATIC),
        |platform: &mut Platform| dax::online(platform, STATIC, MemoryZone::Movable),
    ] {
        let devdax = refused(&mut directory, change);
        assert!(matches!(devdax, PlatformError::Dax(DaxError::NotMemory { .. })), "{devdax}");
    }
    directory.change(|platform| dax::reconfigure(platform, STATIC, RAM)).unwrap();
    assert_eq!(directory.change(|platform| dax::offline(platform, STATIC)).unwrap(), 3);
    assert_eq!(directory.change(|platform| dax::offline(platform, STATIC)).unwrap(), 0);
    directory.change(|platform| dax::reconfigure(platform, STATIC, DEVDAX)).unwrap();
}

#[test]
fn memory_that_is_online_keeps_its_namespace() {
    let (_folder, mut directory) = machine("6.1");
    directory.change(|platform| dax::reconfigure(platform, STATIC, RAM)).unwrap();
    let name = "namespace0.0";
    let changes: [Change; 4] = [
        |platform| namespace::destroy(platform, "namespace0.0", true),
        |platform| namespace::enable(platform, "namespace0.0", false).map(drop),
        |platform| region::enable(platform, 0, false).map(drop),
        |platform| {
            let parameters = CreateNamespace::default();
            let mut uuids = uuids();
            namespace::reconfigure(platform, "namespace0.0", &parameters, true, true, &mut uuids).map(drop)
        },
    ];
    for change in changes {
        let error = refused(&mut directory, change);
        let is_online =
            matches!(error, PlatformError::Namespace(NamespaceError::MemoryOnline { device: STATIC }));
        assert!(is_online, "{error}");
    }
    directory.change(|platform| dax::offline(platform, STATIC)).unwrap();
    directory.change(|platform| namespace::destroy(platform, name, true)).unwrap();
    directory.change(create).unwrap();
    assert_eq!(driver(&directory, STATIC), Driver::Devdax, "a new namespace has a new device");
    directory.change(|platform| dax::enable(platform, STATIC, false)).unwrap();
    directory.change(|platform| region::enable(platform, 0, false)).unwrap();
    assert!(!list(&directory, &DaxRequest::default()).contains("dax0.0"));
    directory.change(|platform| region::enable(platform, 0, true)).unwrap();
    assert_eq!(driver(&directory, STATIC), Driver::Devdax);
}

/// A region without labels is one namespace, whose device keeps the region from a new mode.
#[test]
fn memory_of_a_region_without_labels_keeps_its_mode() {
    let (_folder, mut directory) = machine("6.1");
    let change = |platform: &mut Platform| {
        namespace::destroy(platform, "namespace0.0", true)?;
        region::enable(platform, 0, false)?;
        for index in 0..2 {
            nmem::check_labels(platform, index)?;
            namespace::write_labels(platform, index, vec![0; 128 << 10])?;
        }
        region::enable(platform, 0, true)?;
        reconfigure(platform, Mode::Devdax)
    };
    fn reconfigure(platform: &mut Platform, mode: Mode) -> Result<(), NamespaceError> {
        let parameters = CreateNamespace { mode, ..CreateNamespace::default() };
        namespace::reconfigure(platform, "namespace0.0", &parameters, true, false, &mut uuids()).map(drop)
    }
    directory.change(change).unwrap();
    directory.change(|platform| dax::reconfigure(platform, STATIC, RAM)).unwrap();
    let error = refused(&mut directory, |platform| reconfigure(platform, Mode::Fsdax));
    assert!(matches!(error, PlatformError::Namespace(NamespaceError::MemoryOnline { .. })), "{error}");
    directory.change(|platform| dax::offline(platform, STATIC)).unwrap();
    directory.change(|platform| reconfigure(platform, Mode::Fsdax)).unwrap();
    assert!(directory.platform().state.dax_devices.is_empty());
}

#[test]
fn reboot_returns_devices_to_their_first_mode() {
    let (_folder, mut directory) = machine("6.1");
    directory.change(|platform| dax::reconfigure(platform, STATIC, RAM)).unwrap();
    directory.change(|platform| dax::enable(platform, reserved(0), false)).unwrap();
    directory.change(|platform| dax::reshape(platform, reserved(0), Some(256 * MIB), None)).unwrap();
    let mut directory = reopened(directory);
    assert_eq!(directory.platform().state.dax_devices.len(), 2);
    directory.change(|platform| Ok::<_, PlatformError>(boot::reboot(platform))).unwrap();
    assert!(directory.platform().state.dax_devices.is_empty());
    assert_eq!(driver(&directory, STATIC), Driver::Devdax);
    assert_eq!(driver(&directory, reserved(0)), Driver::Devdax);
}

/// Linux 6.3 and later take reserved memory as system RAM.
#[test]
fn newer_kernels_take_reserved_memory_themselves() {
    let (_folder, mut directory) = machine("6.3");
    assert_eq!(driver(&directory, STATIC), Driver::Devdax);
    assert_eq!(driver(&directory, reserved(0)), Driver::SystemRam);
    assert_eq!(
        directory.change(|platform| dax::online(platform, reserved(0), MemoryZone::Movable)).unwrap(),
        8
    );
    directory.change(|platform| dax::offline(platform, reserved(0))).unwrap();
    assert!(directory.platform().state.dax_devices.is_empty());
    let older = machine("6.2").1;
    assert_eq!(driver(&older, reserved(0)), Driver::Devdax);
}

/// Space is taken from the lowest free addresses on, and freed from the end of a device.
#[test]
fn reserved_memory_is_divided() {
    let (_folder, mut directory) = machine("6.1");
    let full = refused(&mut directory, |platform| dax::create(platform, 1, Some(2 * MIB), None));
    assert!(matches!(full, PlatformError::Dax(DaxError::NoSpace { available: 0, .. })), "{full}");
    let active = refused(&mut directory, |platform| dax::reshape(platform, reserved(0), Some(0), None));
    assert!(matches!(active, PlatformError::Dax(DaxError::Active { .. })), "{active}");
    let change = |platform: &mut Platform| {
        dax::enable(platform, reserved(0), false)?;
        dax::reshape(platform, reserved(0), Some(256 * MIB), None)?;
        dax::enable(platform, reserved(0), true)?;
        let first = dax::create(platform, 1, Some(256 * MIB), None)?;
        let second = dax::create(platform, 1, Some(256 * MIB), Some(4096))?;
        dax::destroy(platform, first, true)?;
        Ok::<_, DaxError>((first, second))
    };
    assert_eq!(directory.change(change).unwrap(), (reserved(1), reserved(2)));
    let rest = directory.change(|platform| dax::create(platform, 1, None, None)).unwrap();
    assert_eq!(rest, reserved(1), "the lowest free number");
    let directory = &mut reopened(directory);
    let request =
        DaxRequest { region: Some(1), regions: true, devices: true, mappings: true, ..DaxRequest::default() };
    let listed = list(directory, &request);
    let region = "[\n  {\n    \"path\":\"\\/platform\\/hmem.1\",\n    \"id\":1,\n    \"size\":1073741824,\n    \
                  \"align\":2097152,\n    \"devices\":[";
    assert!(listed.starts_with(region), "{listed}");
    // The device continues after the one between its ranges; daxctl lists the later range first.
    let split = "\"chardev\":\"dax1.1\",
        \"size\":536870912,
        \"target_node\":2,
        \"align\":2097152,
        \"mode\":\"devdax\",
        \"mappings\":[
          {
            \"page_offset\":65536,
            \"start\":69524783104,
            \"end\":69793218559,
            \"size\":268435456
          },
          {
            \"page_offset\":0,
            \"start\":68987912192,
            \"end\":69256347647,
            \"size\":268435456
          }
        ]";
    assert!(listed.contains(split), "{listed}");
    assert!(listed.contains("\"target_node\":2,\n        \"align\":4096"), "{listed}");
    // The last range is freed first.
    let change = |platform: &mut Platform| {
        dax::enable(platform, reserved(1), false)?;
        dax::reshape(platform, reserved(1), Some(128 * MIB), None)
    };
    directory.change(change).unwrap();
    let regions = dax::regions(directory.platform());
    let device =
        |number: usize| regions[1].devices.iter().find(|one| one.id == reserved(number as u32)).unwrap();
    let start = 68_987_912_192;
    assert_eq!(device(1).ranges, vec![start..start + 128 * MIB]);
    assert_eq!(regions[1].available(), 384 * MIB);
    let emptied = directory.change(|platform| dax::destroy(platform, reserved(0), true)).unwrap();
    assert_eq!(emptied, Destroyed::Emptied);
    let all = DaxRequest { region: Some(1), devices: true, ..DaxRequest::default() };
    assert!(!list(directory, &all).contains("dax1.0"));
    assert!(list(directory, &DaxRequest { idle: true, ..all }).contains("\"size\":0"));
    let empty = refused(directory, |platform| dax::enable(platform, reserved(0), true));
    assert!(matches!(empty, PlatformError::Dax(DaxError::Empty { .. })), "{empty}");
    let empty = refused(directory, |platform| dax::reconfigure(platform, reserved(0), RAM));
    assert!(matches!(empty, PlatformError::Dax(DaxError::Empty { .. })), "{empty}");
}

/// The files have what daxctl 76.1 printed from a sysfs with the same devices, which a private mount gave it in the
/// kernel's order of names.
fn golden(name: &str) -> String {
    let path = format!("{}/tests/listings/{name}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn emulated_devices_are_listed_as_by_daxctl() {
    let (_folder, mut directory) = machine("6.1");
    let change = |platform: &mut Platform| {
        dax::enable(platform, reserved(0), false)?;
        dax::reshape(platform, reserved(0), Some(256 * MIB), None)?;
        dax::reconfigure(platform, reserved(0), RAM)?;
        dax::create(platform, 1, Some(256 * MIB), None)?;
        dax::create(platform, 1, Some(256 * MIB), None)?;
        dax::enable(platform, reserved(1), false)?;
        dax::reshape(platform, reserved(1), Some(512 * MIB), None)?;
        dax::enable(platform, reserved(1), true)?;
        dax::enable(platform, reserved(2), false)?;
        dax::reshape(platform, reserved(2), Some(0), None)
    };
    directory.change(change).unwrap();
    let request = DaxRequest {
        devices: true,
        regions: true,
        mappings: true,
        idle: true,
        region: Some(1),
        ..DaxRequest::default()
    };
    assert_eq!(list(&directory, &request), golden("daxctl-divided.json"));
    assert_eq!(list(&directory, &DaxRequest { human: true, ..request }), golden("daxctl-divided-human.json"));
}

/// Makes the sysfs from which daxctl printed the golden files.
fn sysfs(root: &Path) {
    let write = |path: &str, text: String| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text + "\n").unwrap();
    };
    let region = "devices/platform/hmem.1";
    for (name, value) in [("id", 1), ("size", 1 << 30), ("align", 2 * MIB), ("available_size", 256 * MIB)] {
        write(&format!("{region}/dax_region/{name}"), value.to_string());
    }
    fs::create_dir_all(root.join("bus/dax/devices")).unwrap();
    let start = 64 << 30;
    let middle = [(start + 256 * MIB, 256 * MIB), (start + 768 * MIB, 256 * MIB)];
    let devices = [
        ("dax1.0", Some("kmem"), vec![(start, 256 * MIB)]),
        ("dax1.1", Some("device_dax"), middle.to_vec()),
        ("dax1.2", None, Vec::new()),
    ];
    for (name, driver, ranges) in devices {
        let folder = format!("{region}/{name}");
        write(&format!("{folder}/size"), ranges.iter().map(|(_, len)| len).sum::<u64>().to_string());
        write(&format!("{folder}/align"), (2 * MIB).to_string());
        write(&format!("{folder}/target_node"), "2".to_owned());
        write(&format!("{folder}/resource"), format!("{:#x}", ranges.first().map_or(0, |(at, _)| *at)));
        let mut page_off = 0;
        for (number, (at, len)) in ranges.iter().enumerate() {
            let mapping = format!("{folder}/mapping{number}");
            write(&format!("{mapping}/start"), format!("{at:#x}"));
            write(&format!("{mapping}/end"), format!("{:#x}", at + len - 1));
            write(&format!("{mapping}/page_offset"), format!("{page_off:#x}"));
            page_off += len / 4096;
        }
        symlink(root.join(&folder), root.join("bus/dax/devices").join(name)).unwrap();
        if let Some(driver) = driver {
            symlink(format!("../../../../bus/dax/drivers/{driver}"), root.join(&folder).join("driver"))
                .unwrap();
        }
    }
    write("devices/system/memory/block_size_bytes", "8000000".to_owned());
    // The last block is after the device.
    for (block, zone) in [(512, "Movable"), (513, "Movable"), (514, "Normal")] {
        write(&format!("devices/system/memory/memory{block}/phys_index"), format!("{block:08x}"));
        write(&format!("devices/system/node/node2/memory{block}/state"), "online".to_owned());
        write(&format!("devices/system/node/node2/memory{block}/valid_zones"), zone.to_owned());
    }
}

#[test]
fn real_devices_are_listed_as_by_daxctl() {
    let folder = TempDir::new().unwrap();
    sysfs(folder.path());
    let list = |mappings, device: Option<DeviceId>| {
        let request = DaxRequest {
            devices: true,
            regions: device.is_none(),
            mappings,
            idle: true,
            device,
            ..DaxRequest::default()
        };
        Sysfs::open(folder.path()).unwrap().inventory().list_dax(&request)
    };
    assert_eq!(list(true, None), golden("daxctl-divided.json"));
    let memory = |count, rest: &str| {
        let listed = list(false, Some(reserved(0)));
        let expected = format!(
            "\"mode\":\"system-ram\",\n    \"online_memblocks\":{count},\n    \"total_memblocks\":2{rest}\n  }}"
        );
        assert!(listed.contains(&expected), "{listed}");
    };
    let node = folder.path().join("devices/system/node/node2");
    fs::write(node.join("memory512/valid_zones"), "Normal\n").unwrap();
    memory(2, ",\n    \"movable\":false");
    fs::write(node.join("memory513/state"), "offline\n").unwrap();
    memory(1, "");
    // Kernels tell the address to root only.
    fs::remove_file(folder.path().join("devices/platform/hmem.1/dax1.0/resource")).unwrap();
    assert!(list(false, Some(reserved(0))).contains("\"mode\":\"system-ram\"\n  }"));
}

#[test]
fn devices_are_created_of_free_addresses_only() {
    let (_folder, mut directory) = machine("6.1");
    let (start, end) = (64 << 30, 65 << 30);
    let change = |platform: &mut Platform| {
        dax::enable(platform, reserved(0), false)?;
        dax::reshape(platform, reserved(0), Some(256 * MIB), None)
    };
    directory.change(change).unwrap();
    let free = start + 256 * MIB;
    let parts: [(&[(u64, u64)], &str); 7] = [
        (&[(start, 2 * MIB)], "are not free"),
        (&[(free - 2 * MIB, 4 * MIB)], "are not free"),
        (&[(end - 2 * MIB, 4 * MIB)], "are not free"),
        (&[(free, 0)], "are not free"),
        (&[(free, 4 * MIB), (free + 2 * MIB, 4 * MIB)], "are not free"),
        (&[(free, MIB)], "it is a multiple of 2097152 bytes"),
        (&[], "its size is 0"),
    ];
    for (parts, said) in parts {
        let ranges: Vec<_> = parts.iter().map(|(at, len)| *at..at + len).collect();
        let error = refused(&mut directory, |platform| dax::create_of(platform, 1, &ranges, 4096));
        assert!(error.to_string().contains(said), "{ranges:?}: {error}");
    }
    let ranges = [end - 2 * MIB..end, free..free + 2 * MIB];
    let made = directory.change(|platform| dax::create_of(platform, 1, &ranges, 4096)).unwrap();
    assert_eq!(made, reserved(1));
    let regions = dax::regions(reopened(directory).platform());
    let made = regions[1].devices.iter().find(|device| device.id == made).unwrap();
    assert_eq!((made.ranges.as_slice(), made.align), (ranges.as_slice(), 4096));
}

#[test]
fn invalid_shapes_are_refused() {
    let (_folder, mut directory) = machine("6.1");
    directory.change(|platform| dax::enable(platform, reserved(0), false)).unwrap();
    for (size, align, said) in [
        (Some(MIB), None, "it is a multiple of 2097152 bytes"),
        (Some(2 * MIB + 4096), Some(4096), "it is a multiple of 2097152 bytes"),
        (Some(512 * MIB), Some(1 << 30), "it is a multiple of 1073741824 bytes"),
        (None, Some(8192), "pages have 4K, 2M or 1G"),
        (Some(2 << 30), None, "1073741824 bytes are not free in region 1: it has 0"),
        (Some(u64::MAX - 2 * MIB + 1), None, "are not free in region 1"),
    ] {
        let error = refused(&mut directory, |platform| dax::reshape(platform, reserved(0), size, align));
        assert!(error.to_string().contains(said), "{error}");
    }
    let change = |platform: &mut Platform| {
        dax::reshape(platform, reserved(0), Some(1 << 30), Some(1 << 30))?;
        dax::reshape(platform, reserved(0), Some(126 * MIB), Some(4096))?;
        dax::enable(platform, reserved(0), true)
    };
    directory.change(change).unwrap();
    let small = refused(&mut directory, |platform| dax::reconfigure(platform, reserved(0), RAM));
    assert!(small.to_string().contains("whole blocks of 134217728 bytes"), "{small}");
    let active = refused(&mut directory, |platform| dax::destroy(platform, reserved(0), false));
    assert!(matches!(active, PlatformError::Dax(DaxError::Active { .. })), "{active}");
    let of_namespace = refused(&mut directory, |platform| dax::destroy(platform, STATIC, true));
    assert!(matches!(of_namespace, PlatformError::Dax(DaxError::OfNamespace { .. })), "{of_namespace}");
    let of_namespace = refused(&mut directory, |platform| dax::reshape(platform, STATIC, Some(0), None));
    assert!(matches!(of_namespace, PlatformError::Dax(DaxError::OfNamespace { .. })), "{of_namespace}");
    for (region, said) in [(0, "one device each"), (7, "there is no region 7")] {
        let error = refused(&mut directory, |platform| dax::create(platform, region, None, None));
        assert!(error.to_string().contains(said), "{error}");
    }
    let zero = refused(&mut directory, |platform| dax::create(platform, 1, Some(0), None));
    assert!(matches!(zero, PlatformError::Dax(DaxError::NoSpace { want: 0, .. })), "{zero}");
    let unknown = refused(&mut directory, |platform| dax::enable(platform, reserved(9), true));
    assert_eq!(unknown.to_string(), "there is no device dax1.9");
    let change = |platform: &mut Platform| {
        let id = dax::create(platform, 1, Some(256 * MIB), None)?;
        dax::reconfigure(platform, id, RAM).map(drop)
    };
    directory.change(change).unwrap();
    let online = refused(&mut directory, |platform| dax::destroy(platform, reserved(1), true));
    assert!(matches!(online, PlatformError::Dax(DaxError::Online { .. })), "{online}");
}

/// A user may have edited the state.
#[test]
fn devices_in_the_state_are_validated() {
    let (_folder, directory) = machine("6.1");
    let root = directory.root().to_owned();
    drop(directory);
    let state = fs::read_to_string(root.join("state.toml")).unwrap();
    assert!(!state.contains("dax_device"), "states without devices stay as they were");
    let entry = |region: u32, number: u32, rest: &str| {
        format!("\n[[dax_device]]\nregion = {region}\nnumber = {number}\n{rest}")
    };
    let divided = |number, ranges: &str| {
        entry(1, number, &format!("driver = \"devdax\"\nalign = 4096\nranges = [{ranges}]\n"))
    };
    let memory = "driver = \"system-ram\"\nonline = \"movable\"\n";
    for (added, said) in [
        (entry(0, 0, memory) + &entry(0, 0, memory), "dax0.0 is named twice"),
        (entry(0, 0, "driver = \"none\"\nonline = \"normal\"\n"), "only a device with driver system-ram"),
        (entry(0, 0, "driver = \"none\"\nalign = 4096\n"), "a namespace has the range"),
        (entry(2, 0, "driver = \"none\"\n"), "no region of its number"),
        (entry(1, 0, "driver = \"none\"\nalign = 5\n"), "its alignment is 4096"),
        (entry(1, 0, "driver = \"devdax\"\nalign = 4096\n"), "a device without ranges has no driver"),
        (divided(0, "{ off = 0, len = 0 }"), "is empty or ends after"),
        (divided(0, "{ off = 4096, len = 1073741824 }"), "is empty or ends after"),
        (divided(0, "{ off = 4096, len = 9223372036854775807 }"), "is empty or ends after"),
        (divided(0, "{ off = 0, len = 8192 }") + &divided(1, "{ off = 4096, len = 8192 }"), "overlap"),
    ] {
        fs::write(root.join("state.toml"), format!("{state}{added}")).unwrap();
        let error = Directory::open(&root, Purpose::ReadOnly).unwrap_err();
        let DirectoryError::Invalid { line, fault, .. } = error else { panic!("{error}") };
        assert!(fault.to_string().contains(said), "{fault}");
        assert!(matches!(fault, StateFault::Device { .. } | StateFault::SecondDevice { .. }));
        let first = state.lines().count() + 2;
        assert_eq!(line, Some(first), "{added}");
    }
    // A device without a namespace is of one that is gone.
    fs::write(root.join("state.toml"), state + &entry(0, 7, memory) + &divided(3, "{ off = 0, len = 4096 }"))
        .unwrap();
    let mut directory = Directory::open(&root, Purpose::Change).unwrap();
    assert!(!list(&directory, &DaxRequest::default()).contains("dax0.7"));
    directory.change(|platform| dax::destroy(platform, reserved(3), true)).unwrap();
    assert_eq!(driver(&directory, reserved(0)), Driver::Devdax);
}
