//! Modules are enabled and disabled like the kernel's devices, and their label areas are read as by ndctl.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_platform::machine::Machine;
use lode_platform::namespace::{self, NamespaceError};
use lode_platform::ndctl::{self, Included, LabelAreaBytes, ListRequest};
use lode_platform::{
    CreateNamespace, Directory, GoalRequest, Mode, Platform, PlatformError, Purpose, StateFault, boot, goal,
    nmem, region,
};
use std::fs;
use std::path::Path;
use tempfile::TempDir;
use uuid::Uuid;

/// Returns a machine of two modules with one region.
fn machine() -> (TempDir, Directory) {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("state");
    let text = Machine::included("lab-pair").unwrap();
    let mut directory = Directory::init(&root, Path::new("lab-pair"), text).unwrap();
    let change = |platform: &mut Platform| {
        let goals = goal::plan(platform, &GoalRequest::default())?;
        goal::create(platform, goals);
        boot::reboot(platform);
        Ok::<_, PlatformError>(())
    };
    directory.change(change).unwrap();
    (folder, directory)
}

/// Opens the directory again, so that its files are read.
fn reopened(directory: Directory) -> Directory {
    let root = directory.root().to_owned();
    drop(directory);
    Directory::open(&root, Purpose::Change).unwrap()
}

fn list(directory: &Directory, idle: bool) -> String {
    let included = Included { modules: true, idle, ..Included::default() };
    ndctl::inventory(directory.platform()).list(&ListRequest { included, ..ListRequest::default() })
}

#[test]
fn disabled_module_keeps_its_region_disabled() {
    let (_folder, mut directory) = machine();
    let refused = directory.change(|platform| nmem::enable(platform, 0, false)).unwrap_err();
    assert!(
        matches!(refused, PlatformError::Namespace(NamespaceError::RegionActive { region: 0, .. })),
        "{refused}"
    );
    directory.change(|platform| region::enable(platform, 0, false)).unwrap();
    // A second time is no change and no error.
    for _ in 0..2 {
        directory.change(|platform| nmem::enable(platform, 0, false)).unwrap();
    }
    let mut directory = reopened(directory);
    assert_eq!(directory.platform().state.disabled_modules.len(), 1);
    let listed = list(&directory, false);
    assert!(listed.contains("nmem1") && !listed.contains("nmem0"), "{listed}");
    assert!(list(&directory, true).contains("\"phys_id\":32,\n    \"state\":\"disabled\""));
    let available = ndctl::inventory(directory.platform()).regions()[0].available;
    assert_eq!(available, Some(0), "the labels of a disabled module are not read");
    let refused = directory.change(|platform| region::enable(platform, 0, true)).unwrap_err();
    assert!(
        matches!(refused, PlatformError::Namespace(NamespaceError::ModuleDisabled { region: 0, .. })),
        "{refused}"
    );
    directory.change(|platform| nmem::enable(platform, 0, true)).unwrap();
    directory.change(|platform| region::enable(platform, 0, true)).unwrap();
    assert!(directory.platform().regions()[0].enabled);
    let refused = directory.change(|platform| nmem::enable(platform, 2, true)).unwrap_err();
    assert_eq!(refused.to_string(), "there is no module nmem2");
}

#[test]
fn reboot_enables_modules() {
    let (_folder, mut directory) = machine();
    let change = |platform: &mut Platform| {
        region::enable(platform, 0, false)?;
        nmem::enable(platform, 1, false)?;
        boot::reboot(platform);
        Ok::<_, PlatformError>(())
    };
    directory.change(change).unwrap();
    assert!(directory.platform().state.disabled_modules.is_empty());
    assert!(directory.platform().regions()[0].enabled);
}

/// A user may have edited the state.
#[test]
fn disabled_modules_are_validated() {
    let (_folder, directory) = machine();
    let root = directory.root().to_owned();
    drop(directory);
    let state = fs::read_to_string(root.join("state.toml")).unwrap();
    assert!(!state.contains("disabled_modules"), "states without the field stay as they were");
    for (modules, duplicate) in [("[7]", false), ("[1, 257, 1]", true)] {
        let edited = state.replacen("boots", &format!("disabled_modules = {modules}\nboots"), 1);
        fs::write(root.join("state.toml"), edited).unwrap();
        let refused = Directory::open(&root, Purpose::ReadOnly).unwrap_err();
        let lode_platform::DirectoryError::Invalid { line, fault, .. } = refused else {
            panic!("{refused}");
        };
        assert_eq!(line, Some(2));
        assert_eq!(matches!(fault, StateFault::SecondEntry { .. }), duplicate, "{fault}");
    }
}

#[test]
fn labels_are_checked_and_written_in_parts() {
    let (_folder, mut directory) = machine();
    nmem::check_labels(directory.platform(), 0).unwrap();
    let active = directory.write_labels_at(0, 0, &[0; 256]).unwrap_err();
    assert!(active.to_string().contains("in use"), "{active}");
    directory.change(|platform| region::enable(platform, 0, false)).unwrap();
    directory.write_labels_at(0, 0, &[0; 256]).unwrap();
    let mut directory = reopened(directory);
    nmem::check_labels(directory.platform(), 0).expect("one index block is enough");
    directory.write_labels_at(0, 256, &[0; 256]).unwrap();
    let blank = nmem::check_labels(directory.platform(), 0).unwrap_err();
    assert!(blank.to_string().ends_with("not initialized"), "{blank}");
    nmem::check_labels(directory.platform(), 1).unwrap();
    let size = directory.label_area(0).unwrap().len() as u64;
    directory.write_labels_at(0, size - 1, &[1]).unwrap();
    for (off, len) in [(size, 1), (size - 1, 2), (u64::MAX, 2), (0, 0)] {
        let outside = directory.write_labels_at(0, off, &vec![0; len]).err();
        let expected = if len == 0 { "there are no 0 from 0 on" } else { "choose a smaller size or offset" };
        assert!(outside.is_some_and(|error| error.to_string().contains(expected)), "{off} {len}");
    }
}

/// The parts of a label area are those that ndctl selects.
#[test]
fn label_extents_end_in_the_area() {
    for (size, offset, expected) in [
        (0, 0, Some(0..4096)),
        (0, 4095, Some(4095..4096)),
        (16, 4080, Some(4080..4096)),
        (17, 4080, None),
        (0, 4096, None),
        (u64::MAX, 1, None),
    ] {
        assert_eq!(namespace::label_extent(4096, size, offset), expected, "{size} {offset}");
    }
}

/// ndctl lists slots that hold their number, used or free: a deleted label is still listed.
#[test]
fn label_areas_are_listed_as_by_ndctl() {
    let (_folder, mut directory) = machine();
    let wanted = CreateNamespace {
        mode: Mode::Devdax,
        size: Some(64 << 20),
        name: "da/ta".to_owned(),
        uuid: Some(Uuid::from_u128(0xabcd)),
        ..CreateNamespace::default()
    };
    directory.change(|platform| namespace::create(platform, &wanted, &mut || Uuid::from_u128(9))).unwrap();
    let area =
        |directory: &Directory| vec![LabelAreaBytes { module: 1, bytes: directory.label_area(1).unwrap() }];
    let listed = ndctl::label_areas(&area(&directory), false, true);
    let index = "      {\n        \"signature\":\"NAMESPACE_INDEX\",\n        \"major\":1,\n        \"minor\":2,\n        \
                 \"labelsize\":256,\n        \"seq\":";
    assert_eq!(listed.matches(index).count(), 2, "{listed}");
    let label = "      {
        \"uuid\":\"00000000-0000-0000-0000-00000000abcd\",
        \"name\":\"da\\/ta\",
        \"slot\":1,
        \"position\":1,
        \"nlabel\":2,
        \"flags\":\"0\",
        \"isetcookie\":\"0xadeeeeb883432444\",
        \"lbasize\":512,
        \"dpa\":\"0x10000000\",
        \"rawsize\":\"32.00 MiB (33.55 MB)\",
        \"type_guid\":\"79d3f066-f3b4-7440-ac43-0d3318b78cdb\",
        \"abstraction_guid\":\"";
    assert!(listed.contains(label), "{listed}");
    directory.change(|platform| namespace::destroy(platform, "namespace0.0", true)).unwrap();
    assert!(ndctl::label_areas(&area(&directory), false, true).contains(label), "free slots are listed");
    let index_only = ndctl::label_areas(&area(&directory), true, false);
    assert!(index_only.contains("NAMESPACE_INDEX") && !index_only.contains("\"label\":"), "{index_only}");
    // A blank area: two blank index blocks, and the blank label of slot 0.
    let blank = vec![LabelAreaBytes { module: 0, bytes: vec![0; 128 << 10] }];
    let listed = ndctl::label_areas(&blank, false, false);
    assert_eq!((listed.matches("\"labelsize\":128").count(), listed.matches("\"slot\"").count()), (2, 1));
    assert!(!listed.contains("guid"));
    assert_eq!(ndctl::index_area_len(128 << 10), 512);
    for len in [0, 1, 300, 600] {
        ndctl::label_areas(&[LabelAreaBytes { module: 0, bytes: vec![0xff; len] }], false, false);
    }
}
