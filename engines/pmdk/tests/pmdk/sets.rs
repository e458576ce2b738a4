//! Single files, and sets of parts, in both directions.

use crate::judge::{Pmdk, hash};
use crate::{create, folder, get, names, open, options, put, write_set};
use lode_layout::{PmdkFeatures, PmdkKind, PmdkLog, PoolOffset};
use lode_pmdk::{CreateOptions, OpenOptions, PmdkAccess, PmdkError, PmdkPool, SetError};
use lode_pmem::{ByAddress, Cpu, FaultScope, Medium};
use std::fs;
use std::path::Path;
use uuid::Uuid;

/// The lines of sets of files, and the net size of each.
const SETS: [(&str, u64); 5] = [
    ("2M @/a\n4M @/b\n", (6 << 20) - 4096),
    ("2M @/a\n3M @/b\n4MB @/c\n", (5 << 20) + (3_997_696) - 2 * 4096),
    ("OPTION SINGLEHDR\n2M @/a\n2100000 @/b\n", (2 << 20) + 2_097_152),
    ("OPTION SINGLEHDR\n64M @/folder\n", 2 << 20),
    ("OPTION SINGLEHDR\n64M @/folder\n64M @/other\n", 2 << 20),
];

/// Appends on both sides over the ends of parts, and compares what each reads.
fn exchange(pmdk: Pmdk, path: &Path, size: u64) {
    let pool = open(PmdkKind::Log, path);
    assert_eq!(pool.size(), size);
    let descriptor =
        PmdkLog::decode(get(&**pool.medium(), 4096, PmdkLog::LEN).try_into().unwrap(), size).unwrap();
    let (start, end) = (descriptor.write.get(), descriptor.end.get());
    pool.close().unwrap();
    // Theirs, over the end of the first part if there are more.
    let theirs = (end - start) / 3 * 2;
    pmdk.run("log-append", path, &[&theirs.to_string(), "3"]).unwrap();
    let pool = open(PmdkKind::Log, path);
    assert!(get(&**pool.medium(), start, theirs as usize).iter().all(|byte| *byte == 3));
    // Ours, to the end.
    let ours = end - start - theirs;
    put(&**pool.medium(), start + theirs, &vec![4; ours as usize]);
    put(&**pool.medium(), 4096 + 16, &end.to_le_bytes());
    pool.close().unwrap();
    let all = [vec![3; theirs as usize], vec![4; ours as usize]].concat();
    assert_eq!(start, PmdkLog::START.get());
    assert_eq!(pmdk.read_log(path), (end - 8192, hash(&all)));
    pmdk.assert_consistent(path);
}

#[test]
fn our_files_are_theirs() {
    let Some(pmdk) = Pmdk::find() else { return };
    let folder = folder();
    let path = folder.path().join("log");
    let size = (2 << 20) + 1000;
    let pool = create(PmdkKind::Log, &path, Some(size)).unwrap();
    assert_eq!((pool.size(), pool.medium().replica_count()), (2 << 20, 0));
    let uuid = pool.header().poolset_uuid;
    pool.close().unwrap();
    assert_eq!(names(folder.path()), ["log"]);
    pmdk.assert_consistent(&path);
    let info = pmdk.info(&path);
    // PMDK shows the first fields as numbers of the machine.
    let uuid = Uuid::from_bytes_le(uuid.into_bytes());
    assert_eq!(uuid.get_version_num(), 4);
    assert!(info.contains(&uuid.to_string()) && info.contains("clean"), "{info}");
    exchange(pmdk, &path, 2 << 20);

    let path = folder.path().join("blocks");
    create(PmdkKind::Blocks, &path, Some(20 << 20)).unwrap().close().unwrap();
    pmdk.run("blk-write", &path, &["77", "9"]).unwrap();
    assert_eq!(pmdk.run("blk-read", &path, &["77"]).unwrap(), "9");
    pmdk.assert_consistent(&path);
    open(PmdkKind::Blocks, &path).close().unwrap();
}

#[test]
fn their_files_are_ours() {
    let Some(pmdk) = Pmdk::find() else { return };
    let folder = folder();
    let path = folder.path().join("log");
    pmdk.create(&["log"], &path);
    let pool = open(PmdkKind::Log, &path);
    assert_eq!(pool.header().features, PmdkFeatures::DEFAULT);
    drop(pool);
    exchange(pmdk, &path, 2 << 20);
    let path = folder.path().join("blocks");
    pmdk.create(&["blk", "512"], &path);
    open(PmdkKind::Blocks, &path).close().unwrap();
    pmdk.assert_consistent(&path);
    let path = folder.path().join("objects");
    pmdk.create(&["obj"], &path);
    open(PmdkKind::Objects, &path).close().unwrap();
    pmdk.assert_consistent(&path);
}

#[test]
fn sets_are_the_same_on_both_sides() {
    let Some(pmdk) = Pmdk::find() else { return };
    for (lines, size) in SETS {
        for is_ours in [true, false] {
            let folder = folder();
            fs::create_dir(folder.path().join("folder")).unwrap();
            fs::create_dir(folder.path().join("other")).unwrap();
            let path = write_set(folder.path(), lines);
            match is_ours {
                true => create(PmdkKind::Log, &path, None).unwrap().close().unwrap(),
                false => pmdk.create(&["log"], &path),
            }
            pmdk.assert_consistent(&path);
            exchange(pmdk, &path, size);
            let hidden = |name: &String| name.starts_with('.');
            assert!(!names(folder.path()).iter().any(hidden));
            assert!(!names(&folder.path().join("folder")).iter().any(hidden));
        }
    }
}

/// As PMDK, a part may be there before, if it begins with zeros; here of another size than its content needs.
#[test]
fn empty_files_become_parts() {
    let Some(pmdk) = Pmdk::find() else { return };
    let folder = folder();
    let path = write_set(folder.path(), "2M @/a\n4M @/b\n");
    fs::File::create(folder.path().join("b")).unwrap().set_len(4 << 20).unwrap();
    create(PmdkKind::Log, &path, None).unwrap().close().unwrap();
    exchange(pmdk, &path, (6 << 20) - 4096);
    let file = folder.path().join("file");
    fs::File::create(&file).unwrap().set_len(3 << 20).unwrap();
    create(PmdkKind::Log, &file, None).unwrap().close().unwrap();
    exchange(pmdk, &file, 3 << 20);
}

#[test]
fn features_are_kept() {
    let Some(pmdk) = Pmdk::find() else { return };
    let folder = folder();
    for (index, (compat, incompat)) in [(0, 0), (0, 2), (1, 2), (1, 6)].into_iter().enumerate() {
        let path = folder.path().join(index.to_string());
        let features = PmdkFeatures { compat, incompat, ro_compat: 0 };
        let options = CreateOptions { features, mode: Some(0o600), ..CreateOptions::new(PmdkKind::Log) };
        let made = PmdkPool::create(&path, Some(2 << 20), &options, |medium, is_zeroed| {
            crate::content(PmdkKind::Log, &**medium, is_zeroed)
        });
        made.unwrap().close().unwrap();
        pmdk.assert_consistent(&path);
        pmdk.run("log-append", &path, &["5", "1"]).unwrap();
        let pool = open(PmdkKind::Log, &path);
        assert_eq!(pool.header().features, features);
        assert!(!pool.is_read_only());
    }
}

#[test]
fn one_side_locks_the_other_out() {
    let Some(pmdk) = Pmdk::find() else { return };
    let folder = folder();
    let path = write_set(folder.path(), "2M @/a\n4M @/b\n");
    let pool = create(PmdkKind::Log, &path, None).unwrap();
    let message = pmdk.run("log-read", &path, &[]).unwrap_err();
    assert!(message.contains("Resource temporarily unavailable"), "{message}");
    // The mapping keeps the lock.
    let medium = pool.medium().clone();
    drop(pool);
    pmdk.run("log-read", &path, &[]).unwrap_err();
    drop(medium);
    let held = pmdk.hold(&path);
    for access in [PmdkAccess::ReadWrite, PmdkAccess::CopyOnWrite, PmdkAccess::ReadOnly] {
        let error = PmdkPool::open(&path, &OpenOptions::new(PmdkKind::Log, access)).unwrap_err();
        assert!(matches!(error, PmdkError::InUse { .. }), "{error}");
    }
    drop(held);
    open(PmdkKind::Log, &path);
}

#[test]
fn private_views_change_no_file() {
    let folder = folder();
    let path = write_set(folder.path(), "2M @/a\n4M @/b\n");
    create(PmdkKind::Log, &path, None).unwrap().close().unwrap();
    let files = || ["a", "b"].map(|name| fs::read(folder.path().join(name)).unwrap());
    let before = files();
    for access in [PmdkAccess::CopyOnWrite, PmdkAccess::ReadOnly] {
        let pool = PmdkPool::open(&path, &OpenOptions { access, ..options(PmdkKind::Log) }).unwrap();
        assert!(pool.medium().memory().is_private_view());
        assert_eq!(pool.is_read_only(), access == PmdkAccess::ReadOnly);
        put(&**pool.medium(), 3 << 20, &[9; 64]);
        assert_eq!(get(&**pool.medium(), 3 << 20, 64), [9; 64]);
        if access == PmdkAccess::ReadOnly {
            // Readers do not exclude each other.
            PmdkPool::open(&path, &OpenOptions { access, ..options(PmdkKind::Log) }).unwrap();
        }
        pool.close().unwrap();
    }
    assert!(files() == before);
}

/// As with PMDK, whose programs fork with a pool open.
#[test]
fn child_of_a_fork_uses_the_pool() {
    let folder = folder();
    let path = write_set(folder.path(), "2M @/a\n4M @/b\n");
    create(PmdkKind::Log, &path, None).unwrap().close().unwrap();
    for is_in_children in [true, false] {
        let program = is_in_children.then(|| ByAddress::new(Cpu::oldest()));
        let pool = PmdkPool::open(&path, &OpenOptions { program, ..options(PmdkKind::Log) }).unwrap();
        put(&**pool.medium(), 3 << 20, &[0; 8]);
        match fork::fork().unwrap() {
            fork::Fork::Child => {
                let at = PoolOffset::new(3 << 20);
                let stored = FaultScope::run(|| pool.medium().store8(at, 5));
                // A panic would run the rest of the harness a second time.
                std::process::exit(i32::from(stored.is_err()))
            }
            fork::Fork::Parent(child) => {
                let child = rustix::process::Pid::from_raw(child);
                let status = rustix::process::waitpid(child, rustix::process::WaitOptions::empty());
                let (_, status) = status.unwrap().unwrap();
                assert_eq!(status.exit_status(), Some(i32::from(!is_in_children)));
            }
        }
        assert_eq!(get(&**pool.medium(), 3 << 20, 1), [if is_in_children { 5 } else { 0 }]);
        pool.close().unwrap();
    }
}

/// Parts in a folder are those with numbers, in their order.
#[test]
fn folders_are_sets_of_their_files() {
    let Some(pmdk) = Pmdk::find() else { return };
    let folder = folder();
    let parts = folder.path().join("folder");
    fs::create_dir(&parts).unwrap();
    let lines =
        "OPTION SINGLEHDR\n2M @/folder/000000.pmem\n3M @/folder/000001.pmem\n4M @/folder/000002.pmem\n";
    let path = write_set(folder.path(), lines);
    create(PmdkKind::Log, &path, None).unwrap().close().unwrap();
    fs::write(parts.join("other"), "no part").unwrap();
    write_set(folder.path(), "OPTION SINGLEHDR\n64M @/folder\n");
    exchange(pmdk, &path, 9 << 20);
    let refused = |want: fn(&SetError) -> bool| {
        let error = PmdkPool::open(&path, &options(PmdkKind::Log)).unwrap_err();
        assert!(matches!(&error, PmdkError::Set { error, .. } if want(error)), "{error}");
    };
    // The set file reserves too little, and no address may be missing.
    write_set(folder.path(), "OPTION SINGLEHDR\n8M @/folder\n");
    refused(|error| matches!(error, SetError::Reservation { need: 0x90_0000, reserved: 0x80_0000 }));
    write_set(folder.path(), "OPTION SINGLEHDR\n64M @/folder\n");
    fs::rename(parts.join("000001.pmem"), parts.join("000003.pmem")).unwrap();
    refused(|error| matches!(error, SetError::Missing { index: 1, .. }));
    for name in ["000000.pmem", "000002.pmem", "000003.pmem"] {
        fs::remove_file(parts.join(name)).unwrap();
    }
    refused(|error| matches!(error, SetError::Empty(_)));
}
