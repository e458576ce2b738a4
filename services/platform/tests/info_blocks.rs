//! Info blocks are read, verified and written as by ndctl, in namespaces and in files.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_nvdimm::PageMapUser;
use lode_platform::info_block::{self, InfoBlockArea, InfoBlockFault, StoredInfoBlock, WriteInfoBlock};
use lode_platform::machine::Machine;
use lode_platform::media_error::{self, Injection};
use lode_platform::namespace::{self, NamespaceError};
use lode_platform::{
    CreateNamespace, Directory, GoalRequest, MapLocation, Mode, Platform, PlatformError, Purpose, boot, goal,
    ndctl, region,
};
use std::fs;
use std::path::Path;
use tempfile::TempDir;
use uuid::Uuid;

const NAME: &str = "namespace0.0";
const OWN: Uuid = Uuid::from_u128(0xabcd);

/// Returns a machine of two modules with a disabled namespace of 64 MiB.
fn machine(mode: Mode) -> (TempDir, Directory) {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("state");
    let text = Machine::included("lab-pair").unwrap();
    let mut directory = Directory::init(&root, Path::new("lab-pair"), text).unwrap();
    let wanted =
        CreateNamespace { mode, size: Some(64 << 20), uuid: Some(OWN), ..CreateNamespace::default() };
    let change = |platform: &mut Platform| {
        let goals = goal::plan(platform, &GoalRequest::default())?;
        goal::create(platform, goals);
        boot::reboot(platform);
        namespace::create(platform, &wanted, &mut || Uuid::from_u128(0xef))?;
        namespace::enable(platform, NAME, false)?;
        Ok::<_, PlatformError>(())
    };
    directory.change(change).unwrap();
    (folder, directory)
}

fn request() -> WriteInfoBlock {
    WriteInfoBlock {
        user: PageMapUser::Device,
        map: MapLocation::Dev,
        size: None,
        align: Some(2 << 20),
        uuid: Uuid::from_u128(0x1234),
        parent_uuid: None,
        offset: 0,
    }
}

fn write(directory: &mut Directory, request: &WriteInfoBlock) -> Result<(), PlatformError> {
    directory.change(|platform| info_block::write(platform, NAME, request))
}

fn fault(result: Result<(), PlatformError>) -> InfoBlockFault {
    match result {
        Err(PlatformError::InfoBlock(fault)) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn written_block_decides_on_mode() {
    let (_folder, mut directory) = machine(Mode::Sector);
    let before = directory.info_blocks(NAME).unwrap();
    let is_btt = |block: &StoredInfoBlock| matches!(block, StoredInfoBlock::Btt(_));
    assert_eq!(before.blocks().map(|block| is_btt(&block)).collect::<Vec<_>>(), [true]);
    write(&mut directory, &request()).unwrap();
    let root = directory.root().to_owned();
    drop(directory);
    let mut directory = Directory::open(&root, Purpose::Change).unwrap();
    let area = directory.info_blocks(NAME).unwrap();
    let blocks: Vec<StoredInfoBlock> = area.blocks().collect();
    let [block @ StoredInfoBlock::PageMap(map)] = blocks.as_slice() else {
        panic!("the BTT is erased: {blocks:?}")
    };
    area.verify(block).unwrap();
    assert_eq!((map.align, map.parent_uuid), (2 << 20, OWN.into_bytes()));
    directory.change(|platform| namespace::enable(platform, NAME, true)).unwrap();
    let (_, namespace) = directory.platform().namespace(NAME).unwrap();
    assert_eq!((namespace.mode(), namespace.page_map().unwrap().uuid), (Mode::Devdax, request().uuid));
    assert_eq!(namespace.usable(), (64 << 20) - (2 << 20));
}

/// The kernel ignores a block of another namespace, so the namespace is raw.
#[test]
fn blocks_of_other_namespaces_are_found() {
    let (_folder, mut directory) = machine(Mode::Fsdax);
    let stranger = WriteInfoBlock { parent_uuid: Some(Uuid::from_u128(5)), ..request() };
    write(&mut directory, &stranger).unwrap();
    let area = directory.info_blocks(NAME).unwrap();
    let block = area.blocks().next().unwrap();
    let found = area.verify(&block).unwrap_err();
    assert!(
        matches!(&found, InfoBlockFault::Parent { want, found, .. } if *want == OWN && found.as_u128() == 5),
        "{found}"
    );
    directory.change(|platform| namespace::enable(platform, NAME, true)).unwrap();
    assert_eq!(directory.platform().namespace(NAME).unwrap().1.mode(), Mode::Raw);
    // A file has no UUID.
    InfoBlockArea { uuid: None, ..area.clone() }.verify(&block).unwrap();
    let mut damaged = area;
    damaged.bytes[4096 + 200] ^= 1;
    let block = damaged.blocks().next().unwrap();
    let found = damaged.verify(&block).unwrap_err();
    assert!(matches!(&found, InfoBlockFault::Checksum { .. }), "{found}");
}

#[test]
fn unsuitable_requests_are_refused_unchanged() {
    let (_folder, mut directory) = machine(Mode::Fsdax);
    let before = directory.info_blocks(NAME).unwrap();
    let misaligned = WriteInfoBlock { size: Some((32 << 20) + 4096), ..request() };
    let refused = fault(write(&mut directory, &misaligned));
    assert!(matches!(refused, InfoBlockFault::Misaligned { .. }), "{refused}");
    for wrong in [
        WriteInfoBlock { align: Some(0), ..request() },
        WriteInfoBlock { align: Some(6144), ..request() },
        WriteInfoBlock { align: Some(64 << 20), ..request() },
        WriteInfoBlock { size: Some(2 << 20), ..request() },
        WriteInfoBlock { offset: u64::MAX, ..request() },
    ] {
        let refused = fault(write(&mut directory, &wrong));
        assert!(matches!(refused, InfoBlockFault::Plan { .. }), "{wrong:?}: {refused}");
    }
    assert_eq!(directory.info_blocks(NAME).unwrap(), before);
    directory.change(|platform| region::enable(platform, 0, false)).unwrap();
    let refused = fault(write(&mut directory, &request()));
    assert!(matches!(refused, InfoBlockFault::Namespace(NamespaceError::RegionDisabled { .. })), "{refused}");
    assert!(directory.info_blocks(NAME).is_err());
    let enable = |platform: &mut Platform| {
        region::enable(platform, 0, true)?;
        namespace::enable(platform, NAME, true)
    };
    directory.change(enable).unwrap();
    let refused = fault(write(&mut directory, &request()));
    assert!(matches!(refused, InfoBlockFault::Enabled { .. }), "{refused}");
    let refused = fault(directory.info_blocks(NAME).map(drop));
    assert!(matches!(refused, InfoBlockFault::Enabled { .. }), "{refused}");
}

#[test]
fn poisoned_blocks_are_repaired_by_write() {
    let (_folder, mut directory) = machine(Mode::Raw);
    let inject = |platform: &mut Platform| {
        media_error::inject(platform, NAME, 8, 1, Injection::Inject { notify: true })
    };
    directory.change(inject).unwrap();
    let poisoned = directory.info_blocks(NAME).unwrap_err();
    assert!(matches!(poisoned, PlatformError::Media(_)), "{poisoned}");
    write(&mut directory, &request()).unwrap();
    assert_eq!(directory.info_blocks(NAME).unwrap().blocks().count(), 1);
}

#[test]
fn file_keeps_its_other_bytes() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("image");
    let refused = info_block::write_file(&path, &request()).unwrap_err();
    assert!(matches!(refused, InfoBlockFault::Plan { size: 0, .. }) && !path.exists(), "{refused}");
    fs::write(&path, [7; 10000]).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(64 << 20).unwrap();
    info_block::write_file(&path, &request()).unwrap();
    let bytes = fs::read(&path).unwrap();
    assert_eq!((bytes.len(), bytes[0], bytes[8192], bytes[9999]), (64 << 20, 0, 7, 7));
    let area = InfoBlockArea::read_file(&path).unwrap();
    assert_eq!(area.bytes, request().bytes(64 << 20).unwrap());
    let new = folder.path().join("new");
    info_block::write_file(&new, &WriteInfoBlock { size: Some(1 << 30), ..request() }).unwrap();
    assert_eq!(fs::metadata(&new).unwrap().len(), 8192);
    let refused = info_block::write_file(folder.path(), &request()).unwrap_err();
    assert!(matches!(refused, InfoBlockFault::FileType { .. }), "{refused}");
    fs::write(&new, [0; 8191]).unwrap();
    let short = InfoBlockArea::read_file(&new).unwrap_err();
    assert!(matches!(short, InfoBlockFault::TooShort { len: 8191, .. }), "{short}");
}

/// The manual page of ndctl 76 shows the first listing, but for its UUIDs.
#[test]
fn blocks_are_listed_as_by_ndctl() {
    let request = WriteInfoBlock { user: PageMapUser::FileSystem, align: Some(16 << 20), ..request() };
    let bytes = request.bytes(1 << 40).unwrap();
    let area = InfoBlockArea::read("<stdin>".to_owned(), bytes.as_slice(), Path::new("<stdin>")).unwrap();
    let listed = ndctl::info_blocks(&[area], |_, _| true, false);
    let expected = r#"[
  {
    "file":"<stdin>",
    "signature":"NVDIMM_PFN_INFO",
    "uuid":"00000000-0000-0000-0000-000000001234",
    "parent_uuid":"00000000-0000-0000-0000-000000000000",
    "flags":0,
    "version":"1.4",
    "dataoff":17196646400,
    "npfns":264237056,
    "mode":2,
    "start_pad":0,
    "end_trunc":0,
    "align":16777216,
    "page_size":4096,
    "page_struct_size":64
  }
]
"#;
    assert_eq!(listed, expected);
    let (_folder, directory) = machine(Mode::Sector);
    let area = directory.info_blocks(NAME).unwrap();
    let listed = ndctl::info_blocks(std::slice::from_ref(&area), |_, _| true, true);
    assert!(
        listed.starts_with("[\n  {\n    \"dev\":\"namespace0.0\",\n    \"signature\":\"BTT_ARENA_INFO\""),
        "{listed}"
    );
    assert!(
        listed.contains("\"external_lbasize\":4096,") && listed.contains("\"dataoff\":\"0x1000\""),
        "{listed}"
    );
    assert_eq!(ndctl::info_blocks(&[area], |_, _| false, true), "[\n]\n");
}
