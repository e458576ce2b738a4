//! Pools in directories that grow while they are open, also in steps of which the last one is not made.

use crate::power_cut::{Lost, losing};
use crate::{create, names, open, options, quick_folder, unlocked, write_set};
use lode_layout::PmdkKind;
use lode_pmdk::{PmdkError, PoolGrowth, PoolParts, SetError, stopping_after};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const KIND: PmdkKind = PmdkKind::Objects;
const FIRST: u64 = 8 << 20;
const STEP: u64 = 2 << 20;

/// Makes a pool with a replica, in two directories and in one.
fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = quick_folder();
    for name in ["a", "b", "other"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let lines = "OPTION SINGLEHDR\n10M @/a\n5M @/b\nREPLICA\n15M @/other\n";
    let path = write_set(folder.path(), lines);
    create(KIND, &path, None).unwrap().close().unwrap();
    (folder, path)
}

fn growth(path: &Path) -> (PoolParts, PoolGrowth) {
    let parts = unlocked(|| PoolParts::open(path, &options(KIND))).unwrap();
    let growth = parts.growth(None).unwrap().unwrap();
    (parts, growth)
}

fn parts(folder: &Path) -> Vec<Vec<String>> {
    ["a", "b", "other"].map(|name| names(&folder.join(name))).to_vec()
}

#[test]
fn directories_get_parts_in_turn() {
    let (folder, path) = place();
    let first = folder.path().join("a/000000.pmem");
    fs::set_permissions(&first, fs::Permissions::from_mode(0o640)).unwrap();
    let (open_parts, mut growth) = growth(&path);
    let mut added = Vec::new();
    let mut append = |growth: &mut PoolGrowth, len: u64| {
        growth.append(len, |parts, _| {
            added.extend(parts.iter().map(|part| (part.skip, part.len)));
            Ok(())
        })
    };
    append(&mut growth, STEP + 4095).unwrap();
    let new = folder.path().join("b/000001.pmem");
    let found = fs::metadata(&new).unwrap();
    assert_eq!((found.len(), found.permissions().mode() & 0o777), (STEP, 0o640));
    // The rest of what the directories have room for.
    append(&mut growth, 64 << 20).unwrap();
    let error = append(&mut growth, STEP).unwrap_err();
    assert!(matches!(error, PmdkError::Set { error: SetError::Exhausted { left: 0 }, .. }), "{error}");
    assert_eq!(added, [(0, STEP), (0, STEP), (0, 5 << 20), (0, 5 << 20)]);
    drop((open_parts, growth));
    let want = [
        &["000000.pmem", "000002.pmem"][..],
        &["000001.pmem"],
        &["000000.pmem", "000001.pmem", "000002.pmem"],
    ];
    assert_eq!(parts(folder.path()), want);
    let pool = open(KIND, &path);
    assert_eq!(pool.size(), 15 << 20);
    pool.close().unwrap();
}

/// A stop leaves the old size or the new one, and the next growth nothing of the one that was stopped.
#[test]
fn stopped_growth_is_before_or_after() {
    let (mut before, mut after) = (0, 0);
    'steps: for steps in 0.. {
        let (mut masks, mut ends) =
            (1, vec![Lost::Names(0), Lost::NamesAndContents(0), Lost::Sectors(steps)]);
        while let Some(lost) = ends.pop() {
            let (folder, path) = place();
            let folders = ["a", "b", "other"].map(|name| folder.path().join(name));
            let (open_parts, mut growing) = growth(&path);
            let grow = || stopping_after(steps, || growing.append(STEP, |_, _| Ok(())));
            let ((grown, was_stopped), count) = losing(&folders.each_ref().map(PathBuf::as_path), lost, grow);
            if count > masks {
                masks = count;
                ends.push(Lost::NamesAndContents(masks - 1));
            }
            drop((open_parts, growing, grown));
            let (open_parts, mut growing) = growth(&path);
            match open_parts.size() - FIRST {
                0 => before += 1,
                grown => {
                    assert_eq!((grown, before > 0), (STEP, true));
                    after += 1;
                }
            }
            let context = format!("step {steps}, {lost:?}");
            assert!(was_stopped || open_parts.size() > FIRST, "{context}: the growth is lost");
            let size = open_parts.size() + STEP;
            growing.append(STEP, |_, _| Ok(())).unwrap_or_else(|error| panic!("{context}: {error}"));
            drop((open_parts, growing));
            let pool = open(KIND, &path);
            assert_eq!(pool.size(), size, "{context}");
            pool.close().unwrap();
            let found = parts(folder.path());
            let count = ((size - FIRST) / STEP + 1) as usize;
            assert_eq!(
                (found[0].len() + found[1].len(), found[2].len()),
                (count, count),
                "{context}: {found:?}"
            );
            if !was_stopped && ends.is_empty() {
                break 'steps;
            }
        }
    }
    assert!(before > 5 && after > 1, "{before} before, {after} after");
}

/// A part that can't be mapped is no part.
#[test]
fn failed_growth_leaves_nothing() {
    let (folder, path) = place();
    let (open_parts, mut growing) = growth(&path);
    let before = parts(folder.path());
    let refused = growing.append(STEP, |parts, _| Err(PmdkError::Exists { path: parts[0].path.clone() }));
    assert!(matches!(refused, Err(PmdkError::Exists { .. })));
    assert_eq!(parts(folder.path()), before);
    growing.append(STEP, |_, _| Ok(())).unwrap();
    drop((open_parts, growing));
    assert_eq!(open(KIND, &path).size(), FIRST + STEP);
}

#[test]
fn other_sets_do_not_grow() {
    let folder = quick_folder();
    let path = write_set(folder.path(), "8M @/a\n");
    create(KIND, &path, None).unwrap().close().unwrap();
    let parts = PoolParts::open(&path, &options(KIND)).unwrap();
    assert!(parts.growth(None).unwrap().is_none());
}
