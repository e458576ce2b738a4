//! Create makes a whole pool or no file, no matter where it is stopped, and never replaces a file.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::fixture::{SIZE, create, creating, folder, names, no_content, opening};
use lode_layout::{CHUNK, Durability, GeometryError, LayoutName, PoolOffset};
use lode_pmem::Medium;
use lode_pool::{Access, CreateOptions, PoolError, PoolFile, SpaceLimit};
use lode_testing::SmallDisk;
use rustix::io::Errno;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn refusal(path: &Path, options: &CreateOptions) -> PoolError {
    let error = PoolFile::create(path, options, no_content).expect_err("a pool was made");
    let PoolError::At { path: named, error } = error else { panic!("no path: {error}") };
    assert_eq!(named, path);
    *error
}

#[test]
fn new_pool_is_writable_and_reopens() {
    let folder = folder();
    let path = folder.path().join("pool");
    let options = creating(SIZE + 5);
    let content = |mapping: &lode_pmem::Mapping, header: &lode_layout::Header| {
        let extent = header.geometry.extents()[0];
        mapping.store8(extent.start.plus(extent.table_len), 42);
        mapping.flush(extent.start.plus(extent.table_len), 8);
        Ok::<(), PoolError>(())
    };
    let pool = PoolFile::create(&path, &options, content).unwrap();
    assert_eq!((pool.access(), pool.path()), (Access::ReadWrite, path.as_path()));
    let header = pool.header();
    assert_eq!(header.geometry.size(), SIZE);
    assert_eq!(fs::metadata(&path).unwrap().len(), SIZE);
    assert_eq!((header.layout.as_str(), header.durability_min), ("kv", Durability::Commit));
    drop(pool);
    let pool = PoolFile::open(&path, &opening(Access::ReadWrite)).unwrap();
    assert_eq!(pool.header(), header);
    let extent = header.geometry.extents()[0];
    assert_eq!(
        pool.medium().memory().reading(|memory| memory.load8(extent.start.plus(extent.table_len))).unwrap(),
        42
    );
    assert_eq!(names(folder.path()), ["pool"]);
}

#[test]
fn pool_uuids_are_unique() {
    let folder = folder();
    let [one, two] = ["one", "two"].map(|name| create(&folder.path().join(name)).header().uuid);
    assert_ne!(one, two);
}

#[test]
fn existing_files_are_not_replaced() {
    let folder = folder();
    let path = folder.path().join("pool");
    fs::write(&path, "mine").unwrap();
    assert!(matches!(refusal(&path, &creating(SIZE)), PoolError::Exists));
    assert!(matches!(refusal(folder.path(), &creating(SIZE)), PoolError::Exists));
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    let nowhere = folder.path().join("no/pool");
    let error = refusal(&nowhere, &creating(SIZE));
    assert!(matches!(error, PoolError::Io { errno, .. } if errno == Errno::NOENT.raw_os_error()), "{error}");
}

#[test]
fn concurrently_created_file_is_not_replaced() {
    let folder = folder();
    let path = folder.path().join("pool");
    let made = PoolFile::create(&path, &creating(SIZE), |_, _| {
        fs::write(&path, "mine").unwrap();
        Ok::<(), PoolError>(())
    });
    assert!(matches!(made.unwrap_err().cause(), PoolError::Exists));
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    assert_eq!(names(folder.path()), ["pool"]);
}

#[test]
fn invalid_sizes_are_refused() {
    let folder = folder();
    let path = folder.path().join("pool");
    let error = refusal(&path, &creating(4 * CHUNK - 1));
    assert!(matches!(error, PoolError::Geometry(GeometryError::TooSmall { .. })), "{error}");
    assert!(names(folder.path()).is_empty());
}

#[test]
fn failed_content_leaves_no_file() {
    let folder = folder();
    let path = folder.path().join("pool");
    let refused = PoolFile::create(&path, &creating(SIZE), |mapping, _| {
        mapping.store8(PoolOffset::new(SIZE), 1);
        Ok::<(), PoolError>(())
    });
    assert!(matches!(refused.unwrap_err().cause(), PoolError::Memory { .. }));
    let refused = PoolFile::create(&path, &creating(SIZE), |_, _| Err(PoolError::Poisoned));
    assert!(matches!(refused, Err(PoolError::Poisoned)));
    assert!(names(folder.path()).is_empty());
}

#[test]
fn full_disk_fails_create_without_file() {
    let Some(disk) = SmallDisk::mount("small_disk", 512 << 10) else { return };
    let error = refusal(&disk.pool(), &creating(2 << 20));
    assert!(matches!(error, PoolError::NoSpace { limit: SpaceLimit::Disk, .. }));
    assert!(error.to_string().ends_with("free space, or choose a smaller size"), "{error}");
    assert!(names(disk.folder()).is_empty());
    PoolFile::create(&disk.pool(), &creating(SIZE), no_content).unwrap();
}

#[test]
fn read_only_folder_is_reported() {
    let Some(disk) = SmallDisk::mount("small_disk", 1 << 20) else { return };
    disk.make_read_only();
    let error = refusal(&disk.pool(), &creating(SIZE));
    assert!(matches!(error, PoolError::Io { errno, .. } if errno == Errno::ROFS.raw_os_error()), "{error}");
}

#[test]
fn volatile_medium_needs_explicit_durability() {
    let Some(disk) = SmallDisk::mount("small_disk", 1 << 20) else { return };
    let plain = CreateOptions::new(SIZE, LayoutName::new("kv").unwrap());
    let error = refusal(&disk.pool(), &plain);
    assert!(matches!(error, PoolError::NotDurable { .. }), "{error}");
    assert!(
        error.to_string().contains("tmpfs") && error.to_string().ends_with("ask for durability none"),
        "{error}"
    );
    assert!(names(disk.folder()).is_empty());
    let named = CreateOptions { durability: Some(Durability::None), ..plain };
    let header = PoolFile::create(&disk.pool(), &named, no_content).unwrap().header();
    assert_eq!((header.durability_min, header.durability_forced), (Durability::None, None));
}

#[test]
fn killed_creator_leaves_no_file() {
    let folder = folder();
    let path = folder.path().join("pool");
    let mut creator = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "create_is_atomic::creator", "--ignored", "--nocapture"])
        .env("LODE_TEST_POOL", &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(creator.stdout.take().unwrap());
    assert!(output.lines().any(|line| line.unwrap().ends_with("half-way")));
    creator.kill().unwrap();
    creator.wait().unwrap();
    assert!(names(folder.path()).is_empty());
    create(&path);
}

#[test]
#[ignore = "the process that killed_creator_leaves_no_file kills"]
fn creator() {
    let path = PathBuf::from(std::env::var_os("LODE_TEST_POOL").expect("started by the other test"));
    let _ = PoolFile::create(&path, &creating(SIZE), |_, _| -> Result<(), PoolError> {
        println!("half-way");
        loop {
            std::thread::park();
        }
    });
}
