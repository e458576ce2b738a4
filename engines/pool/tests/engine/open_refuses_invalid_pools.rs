//! Open refuses a file that is not a whole pool, or is another pool. The error names the reason and the next step.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::fixture::{SIZE, create, creating, folder, no_content, opening};
use lode_layout::{Durability, HeaderError, LayoutName, header};
use lode_pmem::{Medium, Sysfs};
use lode_pool::{
    Access, CreateOptions, Damage, DirtyShutdown, HeaderCopy, HeaderCopyError, Headers, OpenOptions,
    PoolError, PoolFile, check_headers, map_unchecked, repair_headers,
};
use lode_testing::{SmallDisk, skip};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions as FileOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

const BOTH: [Access; 2] = [Access::ReadOnly, Access::ReadWrite];

fn refusal(path: &Path, options: &OpenOptions) -> PoolError {
    match PoolFile::open(path, options).expect_err("it was opened") {
        PoolError::At { path: named, error } => {
            assert_eq!(named, path);
            *error
        }
        error => panic!("no path: {error}"),
    }
}

/// Makes a pool, and changes its file.
fn changed(path: &Path, change: impl FnOnce(&File)) {
    drop(create(path));
    change(&FileOptions::new().read(true).write(true).open(path).unwrap());
}

fn flip(file: &File, at: u64) {
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

#[test]
fn files_without_pool_are_refused() {
    let folder = folder();
    let path = folder.path().join("file");
    for content in [&b""[..], b"short", &[0x5a; 20_000]] {
        fs::write(&path, content).unwrap();
        for access in BOTH {
            let error = refusal(&path, &opening(access));
            assert!(matches!(error, PoolError::Headers { .. }), "{error}");
            assert!(error.to_string().ends_with("or make a pool"), "{error}");
        }
    }
    let pipe = folder.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    for path in [folder.path(), &pipe] {
        assert!(matches!(refusal(path, &opening(Access::ReadOnly)), PoolError::NotAFile));
    }
    let error = refusal(&folder.path().join("nothing"), &opening(Access::ReadOnly));
    assert!(matches!(error, PoolError::Io { errno, .. } if errno == Errno::NOENT.raw_os_error()), "{error}");
}

#[test]
fn truncated_pool_is_refused() {
    let folder = folder();
    let path = folder.path().join("pool");
    changed(&path, |file| file.set_len(SIZE - 1).unwrap());
    for access in BOTH {
        let error = refusal(&path, &opening(access));
        let PoolError::Truncated { want: SIZE, found } = error else { panic!("{error}") };
        assert_eq!(found, SIZE - 1);
        assert!(error.to_string().ends_with("repair the pool to keep what is left"), "{error}");
    }
    // Cut inside of the second header, and of the first.
    for len in [header::LEN as u64 + 1, 100] {
        fs::remove_file(&path).unwrap();
        changed(&path, |file| file.set_len(len).unwrap());
        let error = refusal(&path, &opening(Access::ReadOnly));
        assert!(matches!(error, PoolError::Truncated { .. } | PoolError::Headers { .. }), "{error}");
    }
}

#[test]
fn one_corrupt_copy_is_reported_and_repaired() {
    let folder = folder();
    let path = folder.path().join("pool");
    changed(&path, |file| flip(file, 77));
    let before = fs::read(&path).unwrap();
    for access in BOTH {
        let pool = PoolFile::open(&path, &opening(access)).unwrap();
        let (copy, fault) = pool.damage().unwrap();
        assert_eq!(copy, HeaderCopy::A);
        assert!(matches!(fault, HeaderCopyError::Invalid(HeaderError::Checksum { .. })));
    }
    let view = map_unchecked(&path, &OpenOptions::new(Access::ReadOnly)).unwrap();
    assert!(matches!(check_headers(&view)[..], [Damage::Copy { copy: HeaderCopy::A, .. }]));
    drop(view);
    assert!(fs::read(&path).unwrap() == before, "something was written");
    let pool = map_unchecked(&path, &OpenOptions::new(Access::ReadWrite)).unwrap();
    assert_eq!(repair_headers(&pool).unwrap(), Some(HeaderCopy::A));
    drop(pool);
    assert_eq!(PoolFile::open(&path, &opening(Access::ReadOnly)).unwrap().damage(), None);
}

#[test]
fn two_corrupt_copies_are_refused() {
    let folder = folder();
    let path = folder.path().join("pool");
    changed(&path, |file| [77, 0x1000 + 78].iter().for_each(|at| flip(file, *at)));
    for access in BOTH {
        let error = refusal(&path, &opening(access));
        assert!(matches!(error, PoolError::Headers { .. }), "{error}");
        assert!(error.to_string().contains("both copies of the header are damaged"), "{error}");
    }
    let view = map_unchecked(&path, &OpenOptions::new(Access::ReadOnly)).unwrap();
    assert_eq!(check_headers(&view).len(), 2);
}

#[test]
fn incompatible_headers_are_refused() {
    let folder = folder();
    let path = folder.path().join("pool");
    changed(&path, |file| {
        let mut copy = [0; header::LEN];
        file.read_exact_at(&mut copy, 0).unwrap();
        copy[0x10] = 9;
        let sum = crc32c::crc32c_append(crc32c::crc32c(&copy[..header::LEN - 4]), &[0; 4]);
        copy[header::LEN - 4..].copy_from_slice(&sum.to_le_bytes());
        file.write_all_at(&copy, 0).unwrap();
    });
    let error = refusal(&path, &opening(Access::ReadWrite));
    assert_eq!(
        error.to_string(),
        "the pool has format 9.0, this program knows format 1; use the version of Lodestone that made the \
         pool, or a newer one"
    );
    fs::remove_file(&path).unwrap();
    changed(&path, |file| file.write_all_at(&[1, 2, 3, 4, 5, 6, 7, 8], 8).unwrap());
    let error = refusal(&path, &opening(Access::ReadWrite));
    assert!(matches!(error, PoolError::Incompatible { error: HeaderError::OtherEndian, .. }), "{error}");
}

#[test]
fn other_layout_is_refused() {
    let folder = folder();
    let path = folder.path().join("pool");
    drop(create(&path));
    for (name, opens) in [("kv", true), ("queue", false)] {
        let layout = LayoutName::new(name).unwrap();
        let options = OpenOptions { layout: Some(layout), ..opening(Access::ReadOnly) };
        if opens {
            PoolFile::open(&path, &options).unwrap();
        } else {
            let error = refusal(&path, &options);
            let PoolError::Layout { want, found } = error else { panic!("{error}") };
            assert_eq!((want.as_str(), found.as_str()), ("queue", "kv"));
        }
    }
}

#[test]
fn read_only_file_opens_for_reading_only() {
    let Some(disk) = SmallDisk::mount("small_disk", 1 << 20) else { return };
    drop(create(&disk.pool()));
    disk.make_read_only();
    let error = refusal(&disk.pool(), &opening(Access::ReadWrite));
    assert!(matches!(error, PoolError::Io { op: "open", errno } if errno == Errno::ROFS.raw_os_error()));
    assert!(error.to_string().contains("open it for reading"), "{error}");
    let pool = PoolFile::open(&disk.pool(), &opening(Access::ReadOnly)).unwrap();
    // Recovery may store into its view.
    let at = pool.header().geometry.log_off();
    pool.medium().store8(at, 7);
    assert_eq!(pool.medium().memory().reading(|memory| memory.load8(at)).unwrap(), 7);
}

#[test]
fn weaker_durability_needs_force() {
    let Some(disk) = SmallDisk::mount("small_disk", 1 << 20) else { return };
    let path = disk.pool();
    let line = CreateOptions { durability: Some(Durability::Line), ..creating(SIZE) };
    let pool = PoolFile::create(&path, &line, no_content).unwrap();
    assert_eq!(
        (pool.header().durability_min, pool.header().durability_forced),
        (Durability::Line, Some(Durability::Line))
    );
    drop(pool);
    let error = refusal(&path, &OpenOptions::new(Access::ReadWrite));
    assert!(
        matches!(error, PoolError::DurabilityTooWeak { want: Durability::Line, found: Durability::None }),
        "{error}"
    );
    assert!(error.to_string().ends_with("force a durability"), "{error}");
    let forced = OpenOptions { durability: Some(Durability::Commit), ..OpenOptions::new(Access::ReadWrite) };
    let pool = PoolFile::open(&path, &forced).unwrap();
    assert_eq!(pool.medium().durability(), Durability::Commit);
    drop(pool);
    let header = PoolFile::open(&path, &OpenOptions::new(Access::ReadOnly)).unwrap().header();
    assert_eq!(
        (header.durability_min, header.durability_forced),
        (Durability::Line, Some(Durability::Commit))
    );
}

#[test]
fn volatile_pool_reopens_without_option() {
    let Some(disk) = SmallDisk::mount("small_disk", 1 << 20) else { return };
    let none = CreateOptions { durability: Some(Durability::None), ..creating(SIZE) };
    drop(PoolFile::create(&disk.pool(), &none, no_content).unwrap());
    let pool = PoolFile::open(&disk.pool(), &OpenOptions::new(Access::ReadWrite)).unwrap();
    assert_eq!((pool.medium().durability(), pool.header().durability_forced), (Durability::None, None));
}

/// Makes a sysfs in which the disk of `path` lies on one module that counted `count` dirty shutdowns.
fn counting(tree: &Path, path: &Path, count: u64) -> Sysfs {
    let dev = fs::metadata(path).unwrap().dev();
    let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
    let region = tree.join("devices/region0");
    let block = region.join("namespace0.0/block/pmem0");
    let module = tree.join("bus/nd/devices/nmem0");
    for folder in [&block, &module, &tree.join("dev/block")] {
        fs::create_dir_all(folder).unwrap();
    }
    let link = tree.join(format!("dev/block/{major}:{minor}"));
    let _ = std::os::unix::fs::symlink(&block, link);
    fs::write(region.join("mappings"), "1\n").unwrap();
    fs::write(region.join("mapping0"), "nmem0,0,1073741824,0\n").unwrap();
    fs::write(region.join("devtype"), "nd_pmem\n").unwrap();
    fs::write(module.join("dirty_shutdown"), format!("{count}\n")).unwrap();
    Sysfs::at(tree)
}

#[test]
fn dirty_shutdown_refuses_open() {
    let (folder, tree) = (folder(), folder());
    let path = folder.path().join("pool");
    let counted = |count| counting(tree.path(), folder.path(), count);
    let open = |access, count| OpenOptions { sysfs: counted(count), ..opening(access) };
    let pool =
        PoolFile::create(&path, &CreateOptions { sysfs: counted(3), ..creating(SIZE) }, no_content).unwrap();
    if pool.medium().dirty_shutdowns().is_none() {
        let reason = "the build folder is on no block device";
        return skip("dirty_shutdown_refuses_open", reason);
    }
    assert_eq!(pool.header().dirty_shutdowns, Some(3));
    // Later dirty shutdowns do not concern a pool that was closed.
    pool.close().unwrap();
    let pool = PoolFile::open(&path, &open(Access::ReadWrite, 4)).unwrap();
    assert_eq!(pool.header().dirty_shutdowns, Some(4));
    // A crash, without a dirty shutdown.
    drop(pool);
    drop(PoolFile::open(&path, &open(Access::ReadWrite, 4)).unwrap());
    // A crash with one.
    let shutdown = DirtyShutdown { was: 4, now: 5 };
    for access in BOTH {
        let error = refusal(&path, &open(access, 5));
        assert!(matches!(error, PoolError::DirtyShutdown(found) if found == shutdown), "{error}");
        assert!(error.to_string().contains("repair the pool"), "{error}");
        let mapping = map_unchecked(&path, &open(access, 5)).unwrap();
        assert_eq!(check_headers(&mapping), [Damage::DirtyShutdown(shutdown)]);
    }
    // Clear the dirty shutdown.
    let mapping = map_unchecked(&path, &open(Access::ReadWrite, 5)).unwrap();
    assert_eq!(repair_headers(&mapping).unwrap(), None, "the content has not been looked at");
    let mut headers = Headers::read(&mapping).unwrap();
    assert_eq!(headers.dirty_shutdown(&mapping), Some(shutdown));
    headers.set_dirty_shutdowns(&mapping, None).unwrap();
    drop(mapping);
    let pool = PoolFile::open(&path, &open(Access::ReadWrite, 5)).unwrap();
    assert_eq!(pool.header().dirty_shutdowns, Some(5));
}
