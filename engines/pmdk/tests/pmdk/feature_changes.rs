//! Changes of features that stop at each step, as a kill does: before or after, never between.

use crate::judge::Pmdk;
use crate::power_cut::{Lost, losing};
use crate::{create, open, quick_folder, write_set};
use lode_layout::{PmdkFeatures, PmdkKind, PmdkUuidField};
use lode_pmdk::{
    CreateOptions, FeatureError, OpenOptions, PmdkAccess, PmdkFeature, PmdkPool, UncheckedPool,
    stopping_after,
};
use lode_pmem::Sysfs;
use lode_testing::scaled;
use std::path::Path;

/// Kind and set file of each pool; `None` for a single file.
const CASES: [(PmdkKind, Option<&str>, usize); 4] = [
    (PmdkKind::Log, None, 1),
    (PmdkKind::Log, Some("2M @/a\n2M @/b\n2M @/c\n"), 3),
    (PmdkKind::Log, Some("OPTION SINGLEHDR\n2M @/a\n2M @/b\n"), 1),
    (PmdkKind::Objects, Some("8M @/a\nREPLICA\n6M @/b\n6M @/c\n"), 3),
];

fn unchecked(path: &Path, access: PmdkAccess) -> UncheckedPool {
    UncheckedPool::open(path, access, None, &Sysfs::default()).unwrap()
}

fn features(path: &Path) -> PmdkFeatures {
    unchecked(path, PmdkAccess::CopyOnWrite).features().unwrap()
}

/// Makes the pool of a case, closed.
fn make(kind: PmdkKind, lines: Option<&str>) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = quick_folder();
    let (path, size) = match lines {
        Some(lines) => (write_set(folder.path(), lines), None),
        None => (folder.path().join("pool"), Some(2 << 20)),
    };
    create(kind, &path, size).unwrap().close().unwrap();
    (folder, path)
}

#[test]
fn stopped_change_is_before_or_after() {
    let pmdk = Pmdk::find();
    for (kind, lines, headers) in CASES {
        // The last one is turned off, which clears the state of the one before.
        for (feature, is_on) in [(PmdkFeature::CheckBadBlocks, false), (PmdkFeature::ShutdownState, false)] {
            let mut stops = 0;
            for steps in 0.. {
                let (_folder, path) = make(kind, lines);
                let old = features(&path);
                let new = feature.set_in(old, is_on);
                let pool = unchecked(&path, PmdkAccess::ReadWrite);
                let (changed, is_stopped) = stopping_after(steps, || pool.set_features(new));
                drop(pool);
                // A query changes nothing and knows already.
                let found = features(&path);
                assert!(found == if is_stopped { old } else { new }, "{lines:?} {feature:?}, step {steps}");
                assert_eq!(features(&path), found);
                open(kind, &path).close().unwrap();
                let after = unchecked(&path, PmdkAccess::CopyOnWrite).read_headers().unwrap();
                assert!(
                    after.iter().flatten().all(|header| header.is_intact() && header.features() == found)
                );
                if let Some(pmdk) = pmdk.filter(|_| steps % 2 == 0) {
                    pmdk.assert_consistent(&path);
                }
                if !is_stopped {
                    changed.unwrap();
                    break;
                }
                stops += 1;
            }
            assert_eq!(stops, headers, "{lines:?}");
        }
    }
}

/// Turns a feature off, up to a stop and the loss after it. Returns the old features, the new ones, and whether it was stopped.
fn turn_off(folder: &Path, path: &Path, steps: u64, lost: Lost) -> (PmdkFeatures, PmdkFeatures, bool) {
    let old = features(path);
    let new = PmdkFeature::CheckBadBlocks.set_in(old, false);
    let run = || {
        let pool = unchecked(path, PmdkAccess::ReadWrite);
        stopping_after(steps, || pool.set_features(new).is_ok())
    };
    let ((_, was_stopped), _) = losing(&[folder], lost, run);
    (old, new, was_stopped)
}

/// A power cut leaves the old features or the new ones, and those that a change has returned.
#[test]
fn change_is_before_or_after_power_cut() {
    for (kind, lines, headers) in CASES {
        for steps in 0..=headers as u64 {
            let (folder, path) = make(kind, lines);
            let (old, new, was_stopped) = turn_off(folder.path(), &path, steps, Lost::NamesAndContents(0));
            assert_eq!(was_stopped, steps < headers as u64);
            assert!(features(&path) == if was_stopped { old } else { new }, "{lines:?}, step {steps}");
            open(kind, &path).close().unwrap();
        }
    }
}

/// A power cut in the write of a header leaves any of its sectors. The features are the old ones until that of the first header, which
/// leaves either: the change has not returned then.
#[test]
fn torn_headers_are_before_or_after() {
    for (kind, lines, headers) in CASES {
        let mut torn = 0;
        for (steps, seed) in
            (1..=headers as u64).flat_map(|steps| (0..scaled(6)).map(move |seed| (steps, seed)))
        {
            let (folder, path) = make(kind, lines);
            let (old, new, was_stopped) = turn_off(folder.path(), &path, steps, Lost::Sectors(seed));
            let context = format!("{lines:?}, step {steps}, seed {seed}");
            let left = unchecked(&path, PmdkAccess::CopyOnWrite).read_headers().unwrap();
            torn += left.iter().flatten().filter(|header| !header.is_intact()).count();
            let found = features(&path);
            assert!(found == old || (!was_stopped && found == new), "{context}");
            open(kind, &path).close().unwrap();
            let after = unchecked(&path, PmdkAccess::CopyOnWrite).read_headers().unwrap();
            assert!(
                after.iter().flatten().all(|header| header.is_intact() && header.features() == found),
                "{context}"
            );
        }
        assert!(torn > 0, "{lines:?}: no header was torn");
    }
}

/// A change that was stopped is finished by the next one, also by the opposite one.
#[test]
fn change_after_a_stopped_one_is_whole() {
    let (kind, lines, headers) = CASES[1];
    for steps in 0..headers as u64 {
        for is_on in [false, true] {
            let (_folder, path) = make(kind, lines);
            let old = features(&path);
            let off = PmdkFeature::CheckBadBlocks.set_in(old, false);
            let pool = unchecked(&path, PmdkAccess::ReadWrite);
            let (changed, is_stopped) = stopping_after(steps, || pool.set_features(off));
            assert!(is_stopped && changed.is_err());
            let want = PmdkFeature::CheckBadBlocks.set_in(old, is_on);
            pool.set_features(want).unwrap();
            drop(pool);
            assert_eq!(features(&path), want);
            open(kind, &path).close().unwrap();
        }
    }
}

/// A damaged header gets no sound checksum by a change, and a foreign part no other features.
#[test]
fn damage_and_foreign_parts_are_refused() {
    let (kind, lines, _) = CASES[1];
    let (_folder, path) = make(kind, lines);
    let pool = unchecked(&path, PmdkAccess::ReadWrite);
    let headers = pool.read_headers().unwrap();
    let mut damaged = headers[0][1].clone();
    damaged.set_uuid(PmdkUuidField::Part, [9; 16]);
    pool.write_header(0, 1, &damaged).unwrap();
    let refused = pool.set_features(PmdkFeatures { compat: 0, ..PmdkFeatures::DEFAULT });
    assert!(matches!(refused, Err(FeatureError::Damaged { .. })), "{refused:?}");
    let mut foreign = headers[0][1].clone();
    foreign.set_uuid(PmdkUuidField::PoolSet, [9; 16]);
    foreign.set_features(PmdkFeatures { compat: 0, ..PmdkFeatures::DEFAULT });
    foreign.store_checksum();
    pool.write_header(0, 1, &foreign).unwrap();
    let refused = pool.features();
    assert!(matches!(refused, Err(FeatureError::Differ { replica: 0, part: 1, .. })), "{refused:?}");
    drop(pool);
    let options = OpenOptions::new(kind, PmdkAccess::ReadWrite);
    assert!(PmdkPool::open(&path, &options).is_err());
    let stored = unchecked(&path, PmdkAccess::CopyOnWrite).read_headers().unwrap();
    assert_eq!(stored[0][1], foreign, "an open leaves a foreign part");
}

/// The features of a new pool can be those that a change makes.
#[test]
fn changed_features_are_those_of_a_new_pool() {
    let folder = quick_folder();
    let path = folder.path().join("pool");
    let mut options = CreateOptions::new(PmdkKind::Log);
    options.features = PmdkFeatures { compat: 0, incompat: 0, ro_compat: 0 };
    let made = PmdkPool::create(&path, Some(2 << 20), &options, |medium, is_zeroed| {
        crate::content(PmdkKind::Log, &**medium, is_zeroed)
    });
    made.unwrap().close().unwrap();
    for (feature, is_on) in [
        (PmdkFeature::ShortChecksum, true),
        (PmdkFeature::ShutdownState, true),
        (PmdkFeature::ShutdownState, false),
        (PmdkFeature::ShortChecksum, false),
        (PmdkFeature::CheckBadBlocks, true),
    ] {
        let pool = unchecked(&path, PmdkAccess::ReadWrite);
        let new = feature.set_in(pool.features().unwrap(), is_on);
        pool.set_features(new).unwrap();
        drop(pool);
        assert_eq!(features(&path), new);
        open(PmdkKind::Log, &path).close().unwrap();
        if let Some(pmdk) = Pmdk::find() {
            pmdk.assert_consistent(&path);
        }
    }
}
