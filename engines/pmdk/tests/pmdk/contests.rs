//! Other programs, and other set files with the same parts, in a creation. And files that look like those of a creation.

use crate::{content, create, folder, get, names, open, options, put, quick_folder, write_set};
use lode_layout::{PmdkFeatures, PmdkKind, store_pmdk_checksum};
use lode_pmdk::{CreateOptions, OpenOptions, PmdkAccess, PmdkError, PmdkPool, SetError};
use lode_pmem::Medium;
use std::fs::{self, File};
use std::path::Path;

const LINES: &str = "2M @/a\n2M @/b\n";

/// Makes a log, and calls `meanwhile` when all parts have their hidden names.
fn create_while(path: &Path, meanwhile: impl FnOnce()) -> Result<PmdkPool, PmdkError> {
    PmdkPool::create(path, None, &CreateOptions::new(PmdkKind::Log), |medium, is_zeroed| {
        meanwhile();
        content(PmdkKind::Log, &**medium, is_zeroed)
    })
}

/// Changes the header of a part, and stores its checksum.
fn change_header(path: &Path, change: impl FnOnce(&mut [u8])) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    store_pmdk_checksum(&mut bytes[..4096]);
    fs::write(path, &bytes).unwrap();
}

#[test]
fn hidden_files_of_a_creation_under_way_are_kept() {
    let folder = folder();
    let path = write_set(folder.path(), LINES);
    let copy = folder.path().join("copy");
    fs::copy(&path, &copy).unwrap();
    let made = create_while(&path, || {
        let error = create(PmdkKind::Log, &copy, None).unwrap_err();
        assert!(matches!(error, PmdkError::InUse { .. }), "{error}");
    });
    made.unwrap().close().unwrap();
    open(PmdkKind::Log, &copy).close().unwrap();
    assert_eq!(names(folder.path()), ["a", "b", "copy", "set"]);
}

/// The first part has its name already when a later one can't have it.
#[test]
fn pool_is_taken_back_if_a_later_part_cannot_be_one() {
    for is_there_before in [false, true] {
        let folder = folder();
        let (path, other) = (write_set(folder.path(), LINES), folder.path().join("b"));
        if is_there_before {
            File::create(folder.path().join("a")).unwrap().set_len(2 << 20).unwrap();
        }
        let error = create_while(&path, || fs::write(&other, "of another program").unwrap()).unwrap_err();
        assert!(matches!(&error, PmdkError::Exists { path } if *path == other), "{error}");
        assert_eq!(fs::read(&other).unwrap(), b"of another program");
        fs::remove_file(&other).unwrap();
        assert_eq!(names(folder.path()), if is_there_before { &["a", "set"][..] } else { &["set"] });
        create(PmdkKind::Log, &path, None).unwrap().close().unwrap();
        open(PmdkKind::Log, &path).close().unwrap();
    }
}

/// A stop while the pool is taken back is before or after, too.
#[test]
fn stopped_taking_back_is_before_or_after() {
    let lines = "2M @/a\n2M @/c\n2M @/b\n";
    for is_there_before in [false, true] {
        let (mut before, mut after) = (0, 0);
        for steps in 0.. {
            let folder = quick_folder();
            let (path, other) = (write_set(folder.path(), lines), folder.path().join("b"));
            if is_there_before {
                File::create(folder.path().join("a")).unwrap().set_len(2 << 20).unwrap();
            }
            let (made, stopped) = lode_pmdk::stopping_after(steps, || {
                create_while(&path, || fs::write(&other, "of another program").unwrap())
            });
            made.unwrap_err();
            let _ = fs::remove_file(&other);
            let is_there = PmdkPool::open(&path, &options(PmdkKind::Log)).is_ok();
            match create(PmdkKind::Log, &path, None) {
                Ok(pool) if !is_there => pool.close().unwrap(),
                Err(PmdkError::NotEmpty { .. }) if is_there => {}
                other => panic!("step {steps}: {is_there}, {other:?}"),
            }
            *(if is_there { &mut after } else { &mut before }) += 1;
            open(PmdkKind::Log, &path).close().unwrap();
            assert_eq!(names(folder.path()), ["a", "b", "c", "set"]);
            if !stopped {
                break;
            }
        }
        assert!(before > 4 && after > 2, "{before} stops before, {after} after");
    }
}

#[test]
fn part_with_the_name_of_a_folder_is_refused_before_anything_is_made() {
    let folder = folder();
    for lines in ["2M @/a\n2M @/b/\n", "2M @/a\n2M @/b/.\n"] {
        let path = write_set(folder.path(), lines);
        let error = create(PmdkKind::Log, &path, None).unwrap_err();
        let is_directory = rustix::io::Errno::ISDIR.raw_os_error();
        assert!(matches!(error, PmdkError::Io { errno, .. } if errno == is_directory), "{error}");
        assert_eq!(names(folder.path()), ["set"]);
    }
}

/// A damaged pool is neither made anew nor repaired in passing.
#[test]
fn pool_that_lost_its_signature_is_no_creation() {
    for name in ["a", "b"] {
        let folder = folder();
        let path = write_set(folder.path(), LINES);
        create(PmdkKind::Log, &path, None).unwrap().close().unwrap();
        let part = folder.path().join(name);
        let mut bytes = fs::read(&part).unwrap();
        bytes[..8].fill(0);
        fs::write(&part, &bytes).unwrap();
        let error = PmdkPool::open(&path, &options(PmdkKind::Log)).unwrap_err();
        assert!(matches!(error, PmdkError::Header { .. }), "{error}");
        let error = create(PmdkKind::Log, &path, None).unwrap_err();
        assert!(matches!(error, PmdkError::NotEmpty { .. }), "{error}");
        assert!(fs::read(&part).unwrap() == bytes, "{name}");
    }
}

/// Words that fit a header do not make a file of somebody else one of ours.
#[test]
fn file_with_zeros_at_its_start_is_not_written_over() {
    let folder = folder();
    let file = folder.path().join("file");
    let mut bytes = vec![0; 2 << 20];
    bytes[24..128].fill(7);
    fs::write(&file, &bytes).unwrap();
    let error = create(PmdkKind::Log, &file, None).unwrap_err();
    assert!(matches!(error, PmdkError::NotEmpty { .. }), "{error}");
    assert!(fs::read(&file).unwrap() == bytes);
}

/// A failed sync is told, also by a pool without a shutdown state: in the child of a fork no sync can be made.
#[test]
fn close_without_a_shutdown_state_drains() {
    let folder = folder();
    let path = folder.path().join("log");
    let features = PmdkFeatures { incompat: PmdkFeatures::SHORT_CHECKSUM, ..PmdkFeatures::DEFAULT };
    let options = CreateOptions { features, ..CreateOptions::new(PmdkKind::Log) };
    let made = PmdkPool::create(&path, Some(2 << 20), &options, |medium, is_zeroed| {
        content(PmdkKind::Log, &**medium, is_zeroed)
    });
    made.unwrap().close().unwrap();
    let pool = open(PmdkKind::Log, &path);
    if pool.medium().durability() != lode_layout::Durability::Commit {
        return;
    }
    match fork::fork().unwrap() {
        fork::Fork::Child => {
            let is_refused = matches!(pool.close(), Err(PmdkError::Drain { .. }));
            // A panic would run the rest of the harness a second time.
            std::process::exit(i32::from(!is_refused))
        }
        fork::Fork::Parent(child) => {
            let child = rustix::process::Pid::from_raw(child);
            let status = rustix::process::waitpid(child, rustix::process::WaitOptions::empty());
            assert_eq!(status.unwrap().unwrap().1.exit_status(), Some(0));
        }
    }
    pool.close().unwrap();
}

#[test]
fn features_that_spoil_a_pool_are_refused() {
    let folder = folder();
    let path = folder.path().join("log");
    for (compat, incompat, ro_compat) in [(0, 4, 0), (2, 2, 0), (0, 8, 0), (1, 6, 1)] {
        let features = PmdkFeatures { compat, incompat, ro_compat };
        let options = CreateOptions { features, ..CreateOptions::new(PmdkKind::Log) };
        let made = PmdkPool::create(&path, Some(2 << 20), &options, |_, _| Ok::<(), PmdkError>(()));
        let error = made.unwrap_err();
        assert!(matches!(error, PmdkError::Features { .. }), "{error}");
        assert!(names(folder.path()).is_empty());
    }
}

/// The checksum of such a header counts the shutdown state, which is not stored then.
#[test]
fn long_checksum_stays_sound() {
    let folder = folder();
    let path = folder.path().join("log");
    let features = PmdkFeatures { incompat: 0, ..PmdkFeatures::DEFAULT };
    let options = CreateOptions { features, ..CreateOptions::new(PmdkKind::Log) };
    let made = PmdkPool::create(&path, Some(2 << 20), &options, |medium, is_zeroed| {
        content(PmdkKind::Log, &**medium, is_zeroed)
    });
    made.unwrap().close().unwrap();
    change_header(&path, |bytes| bytes[0x10] = 4);
    // Without a close, which would store zeros again.
    drop(open(PmdkKind::Log, &path));
    open(PmdkKind::Log, &path).close().unwrap();
}

#[test]
fn unknown_feature_of_a_replica_allows_reading_only() {
    let folder = folder();
    let path = write_set(folder.path(), "8M @/a\nREPLICA\n8M @/r\n");
    create(PmdkKind::Objects, &path, None).unwrap().close().unwrap();
    change_header(&folder.path().join("r"), |bytes| bytes[0x14] = 4);
    let files = || ["a", "r"].map(|name| fs::read(folder.path().join(name)).unwrap());
    let before = files();
    let pool = open(PmdkKind::Objects, &path);
    assert!(pool.is_read_only());
    put(&**pool.medium(), 8192, &[9; 64]);
    assert_eq!(get(&**pool.medium(), 8192, 64), [9; 64]);
    pool.close().unwrap();
    assert!(files() == before);
}

#[test]
fn odd_names_and_links_in_folders_are_refused() {
    let folder = folder();
    let parts = folder.path().join("folder");
    fs::create_dir(&parts).unwrap();
    let path = write_set(folder.path(), "OPTION SINGLEHDR\n64M @/folder\n");
    create(PmdkKind::Log, &path, None).unwrap().close().unwrap();
    let error = || {
        let options = OpenOptions { access: PmdkAccess::ReadOnly, ..options(PmdkKind::Log) };
        match PmdkPool::open(&path, &options).unwrap_err() {
            PmdkError::Set { error, .. } => error,
            other => panic!("{other}"),
        }
    };
    for name in ["000001x.pmem", "99999999999999999999999.pmem"] {
        let odd = parts.join(name);
        File::create(&odd).unwrap().set_len(2 << 20).unwrap();
        assert_eq!(error(), SetError::OddName(odd.clone()));
        fs::remove_file(odd).unwrap();
    }
    let link = parts.join("000001.pmem");
    fs::hard_link(parts.join("000000.pmem"), &link).unwrap();
    assert!(matches!(error(), SetError::PartTwice(_)));
    fs::remove_file(&link).unwrap();
    open(PmdkKind::Log, &path).close().unwrap();
}

/// A file system without a rename that keeps others may leave both names.
#[test]
fn second_names_are_removed() {
    let folder = folder();
    let path = write_set(folder.path(), LINES);
    let pool = create(PmdkKind::Log, &path, None).unwrap();
    let uuid = pool.header().poolset_uuid;
    pool.close().unwrap();
    for name in ["a", "b"] {
        let hidden = folder.path().join(format!(".{name}.lode-{uuid}"));
        fs::hard_link(folder.path().join(name), hidden).unwrap();
    }
    open(PmdkKind::Log, &path).close().unwrap();
    assert_eq!(names(folder.path()), ["a", "b", "set"]);
}

#[test]
fn parts_have_names_as_long_as_linux_allows() {
    for name in ["n".repeat(253), "\u{20ac}".repeat(84), format!("n{}", "\u{e9}".repeat(126))] {
        let folder = folder();
        let lines = format!("2M @/{name}a\n2M @/{name}b\n");
        let path = write_set(folder.path(), &lines);
        let mut completions = 0;
        for steps in 0.. {
            let (made, stopped) =
                lode_pmdk::stopping_after(steps, || create(PmdkKind::Log, &path, None).map(drop));
            drop(made);
            completions += u32::from(PmdkPool::open(&path, &options(PmdkKind::Log)).is_ok());
            let _ = create(PmdkKind::Log, &path, None);
            open(PmdkKind::Log, &path).close().unwrap();
            assert_eq!(names(folder.path()).len(), 3);
            for end in ["a", "b"] {
                fs::remove_file(folder.path().join(format!("{name}{end}"))).unwrap();
            }
            if !stopped {
                break;
            }
        }
        assert!(completions > 1, "{name}");
    }
}
