//! The shutdown state, on modules of a sysfs that the test writes.

use crate::judge::Pmdk;
use crate::{content, folder, options, unlocked, write_set};
use lode_layout::{PmdkFeatures, PmdkKind, PmdkPartHeader, PmdkShutdown, PmdkShutdownRecord};
use lode_pmdk::{CreateOptions, OpenOptions, PmdkError, PmdkPool, PoolParts};
use lode_pmem::Sysfs;
use rustix::fs::{major, minor};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;

/// A sysfs in which the device below the folder is on a module.
struct Module {
    root: tempfile::TempDir,
}

impl Module {
    fn below(folder: &Path) -> Module {
        let root = tempfile::tempdir().unwrap();
        let region = root.path().join("devices/ndbus0/region0");
        let device = region.join("namespace0.0/block/pmem0");
        fs::create_dir_all(&device).unwrap();
        fs::write(region.join("mappings"), "1\n").unwrap();
        fs::write(region.join("mapping0"), "nmem0,0,4096,0\n").unwrap();
        let dev = fs::metadata(folder).unwrap().dev();
        fs::create_dir_all(root.path().join("dev/block")).unwrap();
        symlink(&device, root.path().join(format!("dev/block/{}:{}", major(dev), minor(dev)))).unwrap();
        fs::create_dir_all(root.path().join("bus/nd/devices/nmem0/nfit")).unwrap();
        let module = Module { root };
        module.set("id", "8089-a2-1839-00000001");
        module.set("dirty_shutdown", "3");
        module
    }

    fn set(&self, name: &str, value: &str) {
        let file = self.root.path().join("bus/nd/devices/nmem0/nfit").join(name);
        fs::write(file, format!("{value}\n")).unwrap();
    }

    fn sysfs(&self) -> Sysfs {
        Sysfs::at(self.root.path())
    }

    fn open(&self, path: &Path) -> Result<PmdkPool, PmdkError> {
        PmdkPool::open(path, &OpenOptions { sysfs: self.sysfs(), ..options(PmdkKind::Log) })
    }
}

fn stored(path: &Path) -> PmdkShutdownRecord {
    PmdkPartHeader::decode(&fs::read(path).unwrap()).unwrap().shutdown
}

#[test]
fn lost_stores_are_found_by_the_counts_of_modules() {
    let folder = folder();
    let module = Module::below(folder.path());
    let path = write_set(folder.path(), "2M @/a\n2M @/b\n");
    let first = folder.path().join("a");
    let options = CreateOptions { sysfs: module.sysfs(), ..CreateOptions::new(PmdkKind::Log) };
    let pool = PmdkPool::create(&path, None, &options, |medium, is_zeroed| {
        content(PmdkKind::Log, &**medium, is_zeroed)
    });
    // Two parts on the same module: each counts.
    let PmdkShutdownRecord::Stored(new) = stored(&first) else { panic!("no state") };
    assert_eq!((new.shutdowns, new.is_dirty), (6, true));
    assert!(new.devices != 0);
    // The process ends, the modules lose nothing.
    drop(pool.unwrap());
    module.open(&path).unwrap().close().unwrap();
    assert_eq!(stored(&first), PmdkShutdownRecord::Stored(PmdkShutdown { is_dirty: false, ..new }));
    // The modules lose power while the pool is closed.
    module.set("dirty_shutdown", "4");
    drop(module.open(&path).unwrap());
    assert_eq!(stored(&first), PmdkShutdownRecord::Stored(PmdkShutdown { shutdowns: 8, ..new }));
    // And while it is open.
    module.set("dirty_shutdown", "5");
    let error = module.open(&path).unwrap_err();
    assert!(matches!(&error, PmdkError::UnsafeShutdown { path } if *path == first), "{error}");
    assert!(error.is_damage() && error.to_string().contains("an ADR failure was detected"));
    let ignoring =
        OpenOptions { sysfs: module.sysfs(), ignores_shutdown_state: true, ..crate::options(PmdkKind::Log) };
    drop(PmdkPool::open(&path, &ignoring).unwrap());
    // Other modules.
    module.set("dirty_shutdown", "4");
    module.set("id", "8089-a2-1839-00000002");
    module.open(&path).unwrap_err();
}

/// Torn by a power cut in an open or a close, of which nothing else can be in flight.
#[test]
fn torn_state_is_stored_anew() {
    let folder = folder();
    let module = Module::below(folder.path());
    let path = write_set(folder.path(), "2M @/a\n2M @/b\n");
    let options = CreateOptions { sysfs: module.sysfs(), ..CreateOptions::new(PmdkKind::Log) };
    let made = PmdkPool::create(&path, None, &options, |medium, is_zeroed| {
        content(PmdkKind::Log, &**medium, is_zeroed)
    });
    drop(made.unwrap());
    let first = folder.path().join("a");
    let mut bytes = fs::read(&first).unwrap();
    bytes[PmdkShutdown::OFF as usize + 1] ^= 1;
    fs::write(&first, bytes).unwrap();
    module.set("dirty_shutdown", "9");
    module.open(&path).unwrap().close().unwrap();
    let PmdkShutdownRecord::Stored(state) = stored(&first) else { panic!("no state") };
    assert_eq!((state.shutdowns, state.is_dirty), (18, false));
}

/// On an ordinary disk both sides store zeros, and clear each other's marks.
#[test]
fn ordinary_files_have_no_counts() {
    let Some(pmdk) = Pmdk::find() else { return };
    let folder = folder();
    let path = folder.path().join("log");
    // Zeros, of which the checksum is 0.
    let clean = PmdkShutdownRecord::Empty;
    let dirty = PmdkShutdownRecord::Stored(PmdkShutdown { is_dirty: true, ..PmdkShutdown::default() });
    let pool = crate::create(PmdkKind::Log, &path, Some(2 << 20)).unwrap();
    assert_eq!(stored(&path), dirty);
    drop(pool);
    pmdk.read_log(&path);
    assert_eq!(stored(&path), clean);
    let held = pmdk.hold(&path);
    assert_eq!(stored(&path), dirty);
    drop(held);
    assert_eq!(stored(&path), clean);
}

/// A growth stores the sums with those of the new part, so that a kill of the grown pool is no lost store; and a kill in the middle of the
/// growth is none.
#[test]
fn growth_counts_the_modules_of_the_new_part() {
    let folder = folder();
    for name in ["a", "other"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let module = Module::below(folder.path());
    let path = write_set(folder.path(), "OPTION SINGLEHDR\n16M @/a\nREPLICA\n16M @/other\n");
    let firsts = ["a", "other"].map(|name| folder.path().join(name).join("000000.pmem"));
    let options = CreateOptions { sysfs: module.sysfs(), ..CreateOptions::new(PmdkKind::Objects) };
    let made = PmdkPool::create(&path, None, &options, |medium, is_zeroed| {
        content(PmdkKind::Objects, &**medium, is_zeroed)
    });
    made.unwrap().close().unwrap();
    let open = || {
        let options = OpenOptions { sysfs: module.sysfs(), ..crate::options(PmdkKind::Objects) };
        unlocked(|| PoolParts::open(&path, &options))
    };
    let mut before_last = PmdkShutdown::default();
    // A kill before the sums are stored, after the first replica's, and after all.
    for stored_count in 0..3 {
        let parts = open().unwrap();
        let mut growth = parts.growth(None).unwrap().unwrap();
        let before = parts.shutdown_states().to_vec();
        before_last = before[0].unwrap();
        firsts.iter().zip(&before).for_each(|(first, state)| put_in_use(first, state.unwrap()));
        let grown = growth.append(2 << 20, |_, states| {
            let shutdowns = states.iter().zip(&before).map(|(new, old)| (new.unwrap(), old.unwrap()));
            assert!(shutdowns.clone().all(|(new, old)| new.shutdowns == old.shutdowns + 3));
            firsts
                .iter()
                .zip(shutdowns)
                .take(stored_count)
                .for_each(|(first, (new, _))| put_in_use(first, new));
            Ok(())
        });
        grown.unwrap();
        assert_eq!(growth.shutdown_states()[0].unwrap().shutdowns, before[0].unwrap().shutdowns + 3);
        drop((growth, parts));
        open().unwrap();
        // A loss shows.
        module.set("dirty_shutdown", "4");
        assert!(matches!(open(), Err(PmdkError::UnsafeShutdown { .. })), "{stored_count}");
        module.set("dirty_shutdown", "3");
    }
    // A pool that PMDK has grown has the sums of its open, and is refused as by PMDK.
    put_state(&firsts[0], PmdkShutdown { is_dirty: true, ..before_last }, false);
    assert!(matches!(open(), Err(PmdkError::UnsafeShutdown { .. })));
}

/// Parts that a stopped growth has left in one replica do not count: the next growth removes them.
#[test]
fn parts_after_the_end_do_not_count() {
    let folder = folder();
    for name in ["a", "other"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let module = Module::below(folder.path());
    let path = write_set(folder.path(), "OPTION SINGLEHDR\n16M @/a\nREPLICA\n16M @/other\n");
    let options = CreateOptions { sysfs: module.sysfs(), ..CreateOptions::new(PmdkKind::Objects) };
    let made = PmdkPool::create(&path, None, &options, |medium, is_zeroed| {
        content(PmdkKind::Objects, &**medium, is_zeroed)
    });
    made.unwrap().close().unwrap();
    fs::File::create(folder.path().join("a/000001.pmem")).unwrap().set_len(2 << 20).unwrap();
    let options = OpenOptions { sysfs: module.sysfs(), ..crate::options(PmdkKind::Objects) };
    let parts = PoolParts::open(&path, &options).unwrap();
    let shutdowns = parts.shutdown_states().iter().map(|state| state.unwrap().shutdowns);
    assert_eq!(shutdowns.collect::<Vec<_>>(), [3, 3]);
}

/// Stores a state in the header, which is marked as one of a pool in use.
fn put_in_use(path: &Path, state: PmdkShutdown) {
    put_state(path, PmdkShutdown { is_dirty: true, ..state }, true);
}

fn put_state(path: &Path, state: PmdkShutdown, is_in_use: bool) {
    let bytes = fs::read(path).unwrap();
    let mut header = PmdkPartHeader::decode(&bytes).unwrap();
    header.shutdown = PmdkShutdownRecord::Stored(state);
    header.features = header.features.when_closed();
    if is_in_use {
        header.features.incompat |= PmdkFeatures::IN_USE;
    }
    fs::File::options().write(true).open(path).unwrap().write_all_at(&header.encode(), 0).unwrap();
}
