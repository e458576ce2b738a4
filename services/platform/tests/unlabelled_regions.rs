//! The namespace of a region without labels changes its mode, or the region gets labels.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_nvdimm::BttVersion;
use lode_platform::machine::Machine;
use lode_platform::namespace::{self, NamespaceError};
use lode_platform::{
    CreateNamespace, Directory, GoalRequest, LabelVersion, MapLocation, Mode, Personality, Platform,
    PlatformError, Purpose, boot, goal, region,
};
use std::path::Path;
use tempfile::TempDir;
use uuid::Uuid;

const NAME: &str = "namespace0.0";

/// Returns two modules whose label areas are blank. The modules have one region, or a second one of other size.
fn machine(regions: usize) -> (TempDir, Directory) {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("state");
    let mut text = Machine::included("lab-pair").unwrap().to_owned();
    if regions == 2 {
        text = text.replacen("1344MiB", "3344MiB", 1);
    }
    let mut directory = Directory::init(&root, Path::new("lab-pair"), &text).unwrap();
    let change = |platform: &mut Platform| {
        let goals = goal::plan(platform, &GoalRequest::default())?;
        goal::create(platform, goals);
        boot::reboot(platform);
        for number in 0..regions as u32 {
            region::enable(platform, number, false)?;
        }
        for index in 0..2 {
            namespace::init_labels(platform, index, None, true)?;
        }
        for number in 0..regions as u32 {
            region::enable(platform, number, true)?;
        }
        Ok::<_, PlatformError>(())
    };
    directory.change(change).unwrap();
    assert_eq!(directory.platform().regions().len(), regions);
    (folder, directory)
}

/// Reconfigures the namespace, and opens the directory again.
fn reconfigure(
    directory: Directory,
    wanted: &CreateNamespace,
    autolabel: bool,
) -> (Directory, Result<namespace::Namespace, PlatformError>) {
    let mut directory = directory;
    let mut next = 100;
    let mut uuids = move || {
        next += 1;
        Uuid::from_u128(next)
    };
    let made = directory
        .change(|platform| namespace::reconfigure(platform, NAME, wanted, true, autolabel, &mut uuids));
    let root = directory.root().to_owned();
    drop(directory);
    (Directory::open(&root, Purpose::Change).unwrap(), made)
}

fn wanted(mode: Mode) -> CreateNamespace {
    CreateNamespace { mode, ..CreateNamespace::default() }
}

#[test]
fn mode_changes_without_labels() {
    let (_folder, mut directory) = machine(1);
    let in_use = directory
        .change(|platform| {
            namespace::reconfigure(platform, NAME, &wanted(Mode::Sector), false, false, &mut Uuid::nil)
        })
        .unwrap_err();
    assert!(matches!(in_use, PlatformError::Namespace(NamespaceError::NamespaceActive { .. })), "{in_use}");
    for mode in [Mode::Sector, Mode::Devdax, Mode::Fsdax, Mode::Sector, Mode::Raw] {
        let (reopened, made) = reconfigure(directory, &wanted(mode), false);
        directory = reopened;
        let made = made.unwrap();
        let (region, namespace) = directory.platform().namespace(NAME).unwrap();
        assert_eq!((namespace.mode(), namespace.size, namespace.uuid), (mode, region.size, None));
        assert_eq!(made, namespace);
        if let Personality::Sectors { version, .. } = namespace.personality {
            assert_eq!(version, BttVersion::V1_1, "no label names the BTT");
            directory.check_namespace(NAME).unwrap();
        }
    }
    let mem = CreateNamespace { map: MapLocation::Mem, align: Some(1 << 30), ..wanted(Mode::Devdax) };
    let (directory, made) = reconfigure(directory, &mem, false);
    assert_eq!(made.unwrap().page_map().unwrap().align, 1 << 30);
    let half = CreateNamespace { size: Some(1 << 30), ..wanted(Mode::Fsdax) };
    let (directory, refused) = reconfigure(directory, &half, true);
    let refused = refused.unwrap_err();
    assert!(
        matches!(refused, PlatformError::Namespace(NamespaceError::Undivided { region: 0 })),
        "{refused}"
    );
    let sectors = CreateNamespace { sector_size: Some(4096), ..wanted(Mode::Fsdax) };
    let (directory, refused) = reconfigure(directory, &sectors, true);
    let refused = refused.unwrap_err();
    assert!(
        matches!(refused, PlatformError::Namespace(NamespaceError::SectorSize { size: 4096 })),
        "{refused}"
    );
    assert!(!namespace::has_labels(directory.platform(), &directory.platform().regions()[0]));
}

#[test]
fn region_gets_labels() {
    let (_folder, directory) = machine(1);
    let (directory, made) = reconfigure(directory, &wanted(Mode::Sector), false);
    made.unwrap();
    let named = CreateNamespace { name: "data".to_owned(), ..wanted(Mode::Fsdax) };
    let (directory, made) = reconfigure(directory, &named, true);
    let made = made.unwrap();
    let region = &directory.platform().regions()[0];
    assert!(namespace::has_labels(directory.platform(), region));
    assert_eq!(directory.platform().state.sets[0].labels, LabelVersion::V1_2);
    assert_eq!((made.mode(), made.size, made.name.as_str()), (Mode::Fsdax, region.size, "data"));
    assert!(made.uuid.is_some());
    assert_eq!(directory.platform().namespace(NAME).unwrap().1, made);
}

/// New labels would be those of the module's other region, too.
#[test]
fn other_regions_of_modules_are_protected() {
    let (_folder, directory) = machine(2);
    let (mut directory, refused) = reconfigure(directory, &wanted(Mode::Fsdax), true);
    let refused = refused.unwrap_err();
    let PlatformError::Namespace(NamespaceError::Autolabel { region: 0, other: 1, .. }) = refused else {
        panic!("{refused}");
    };
    assert!(!namespace::has_labels(directory.platform(), &directory.platform().regions()[0]));
    directory.change(|platform| region::enable(platform, 1, false)).unwrap();
    reconfigure(directory, &wanted(Mode::Fsdax), true).1.unwrap();
}

/// Errors of a region leave other regions to try; errors of the request do not.
#[test]
fn refusals_of_regions_are_told_from_others() {
    let (_folder, mut directory) = machine(2);
    let mut refusal = |wanted: CreateNamespace| {
        let wanted = CreateNamespace { region: Some(1), ..wanted };
        match directory.change(|platform| namespace::create(platform, &wanted, &mut Uuid::nil)) {
            Err(PlatformError::Namespace(error)) => error.is_of_region(),
            other => panic!("{other:?}"),
        }
    };
    assert!(refusal(wanted(Mode::Raw)), "no labels");
    let (_folder, mut directory) = machine(1);
    reconfigure_in(&mut directory);
    let mut refusal = |wanted: CreateNamespace| match directory
        .change(|platform| namespace::create(platform, &wanted, &mut Uuid::nil))
    {
        Err(PlatformError::Namespace(error)) => error.is_of_region(),
        other => panic!("{other:?}"),
    };
    assert!(refusal(CreateNamespace { region: Some(0), size: Some(1 << 40), ..wanted(Mode::Raw) }));
    assert!(!refusal(CreateNamespace { region: Some(0), size: Some(1), ..wanted(Mode::Raw) }));
    assert_eq!(namespace::candidates(directory.platform()), [0]);
}

/// Gives the region labels.
fn reconfigure_in(directory: &mut Directory) {
    directory
        .change(|platform| {
            namespace::reconfigure(platform, NAME, &wanted(Mode::Raw), true, true, &mut Uuid::max)?;
            namespace::destroy(platform, NAME, true)
        })
        .unwrap();
}
