//! A pool that shrinks keeps its keys, takes little more than they do, and grows again.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_fsck::{ShrinkError, ShrinkEvents, check_pool, shrink_pool};
use lode_heap::{Access, CreateOptions, Durability, OpenError, OpenOptions, Shrunk};
use lode_index::IndexError;
use lode_kv::{LAYOUT, Store};
use lode_layout::CHUNK;
use lode_pool::{PoolError, map_unchecked};
use lode_testing::{SmallDisk, seed};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// The keys and values of a store.
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Counts the moved objects, and stops when there are as many.
struct Events {
    moved: Cell<u64>,
    stop_at: u64,
}

impl ShrinkEvents for Events {
    fn moved(&self, objects: u64) {
        self.moved.set(self.moved.get() + objects);
    }

    fn is_stopped(&self) -> bool {
        self.moved.get() >= self.stop_at
    }
}

fn options() -> OpenOptions {
    OpenOptions { durability: Some(Durability::None), ..OpenOptions::new(Access::ReadWrite) }
}

fn create(path: &Path, size: u64) -> Store {
    let durability = Some(Durability::None);
    let options = CreateOptions { durability, ..CreateOptions::new(size, Store::layout_name()) };
    Store::create(path, &options).unwrap()
}

fn shrink_until(path: &Path, stop_at: u64) -> Result<(Shrunk, u64), ShrinkError> {
    let events = Events { moved: Cell::new(0), stop_at };
    shrink_pool(path, &options(), &[&LAYOUT], &events).map(|shrunk| (shrunk, events.moved.get()))
}

fn shrink(path: &Path) -> (Shrunk, u64) {
    shrink_until(path, u64::MAX).unwrap()
}

/// Puts `count` random keys with values of random lengths.
fn fill(store: &Store, model: &mut Model, count: usize, rng: &mut fastrand::Rng) {
    let tree = store.tree().unwrap();
    for _ in 0..count.div_ceil(500) {
        let keys = (0..500).map(|_| {
            let key: Vec<u8> = (0..rng.usize(1..20)).map(|_| rng.u8(..)).collect();
            let len = [0, 3, 20, 100, 600, 3000][rng.usize(..6)];
            (key, vec![rng.u8(..); len])
        });
        let keys: Vec<_> = keys.collect();
        let filled: Result<(), IndexError> = store
            .heap()
            .run(|tx| keys.iter().try_for_each(|(key, value)| tree.insert_in(tx, key, value).map(drop)));
        filled.unwrap();
        model.extend(keys);
    }
}

/// Deletes all but one key in `keep`, in random order.
fn thin(store: &Store, model: &mut Model, keep: usize, rng: &mut fastrand::Rng) {
    let tree = store.tree().unwrap();
    let gone: Vec<Vec<u8>> = model.keys().filter(|_| rng.usize(..keep) > 0).cloned().collect();
    let deleted: Result<(), IndexError> =
        store.heap().run(|tx| gone.iter().try_for_each(|key| tree.delete_in(tx, key).map(drop)));
    deleted.unwrap();
    gone.iter().for_each(|key| drop(model.remove(key)));
}

/// Compares the store with the model. Returns its bytes of objects.
fn verify(path: &Path, model: &Model) -> u64 {
    let view = map_unchecked(path, &OpenOptions::new(Access::ReadOnly)).unwrap();
    let report = check_pool(Arc::new(&*view), &[&LAYOUT]);
    assert!(report.is_clean(), "{report}");
    drop(view);
    let store = Store::open(path, &options()).unwrap();
    let reader = store.tree().unwrap().reader();
    let found: Model =
        reader.iter().map(|entry| entry.unwrap()).map(|entry| (entry.key, entry.value.to_vec())).collect();
    assert!(found == *model, "{} keys instead of {}", found.len(), model.len());
    drop(reader);
    let stats = store.heap().stats().unwrap();
    store.close().unwrap();
    stats.classes.iter().map(|class| class.used * class.block_size).sum::<u64>() + stats.huge_bytes
}

fn disk_bytes(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

/// Random inserts and deletions, and a shrink after each round: at most 1.5 times what is used, and one step.
#[test]
fn file_is_as_large_as_its_keys() {
    let folder = tempfile::tempdir().unwrap();
    let mut rng = fastrand::Rng::with_seed(seed(1));
    for size in [256 << 10, 48 << 20] {
        let path = folder.path().join(format!("pool-{size}"));
        let mut model = Model::new();
        create(&path, size).close().unwrap();
        for (count, keep) in [(8000, 10), (2000, 2), (0, 100)] {
            let store = Store::open(&path, &options()).unwrap();
            fill(&store, &mut model, count, &mut rng);
            thin(&store, &mut model, keep, &mut rng);
            store.close().unwrap();
            let before = disk_bytes(&path);
            let (shrunk, _) = shrink(&path);
            let (used, disk) = (verify(&path, &model), disk_bytes(&path));
            println!("{used} bytes in {} keys: {shrunk:?}, {before} bytes on disk, now {disk}", model.len());
            // A chunk of each size of blocks is partly filled.
            let step = 32 * CHUNK;
            assert!(disk <= used + used / 2 + step, "{disk} bytes on disk for {used}");
            assert_eq!(fs::metadata(&path).unwrap().len(), shrunk.size);
            let again = shrink(&path).0;
            assert!(again.size + again.size / 4 >= shrunk.size, "{again:?}");
            verify(&path, &model);
        }
    }
}

/// Nothing is half-made if it is stopped, and the next one goes on.
#[test]
fn stopped_shrink_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let mut rng = fastrand::Rng::with_seed(seed(2));
    let mut model = Model::new();
    let store = create(&path, 256 << 10);
    fill(&store, &mut model, 8000, &mut rng);
    thin(&store, &mut model, 3, &mut rng);
    assert!(matches!(
        shrink_until(&path, u64::MAX),
        Err(ShrinkError::Open(OpenError::Pool(error))) if matches!(error.cause(), PoolError::InUse { .. })
    ));
    store.close().unwrap();
    let size = fs::metadata(&path).unwrap().len();
    for stop_at in [0, 1, 100] {
        assert!(matches!(shrink_until(&path, stop_at), Err(ShrinkError::Stopped)));
        assert_eq!(fs::metadata(&path).unwrap().len(), size);
        verify(&path, &model);
    }
    assert!(shrink(&path).0.size < size * 2 / 3);
    verify(&path, &model);
}

/// A full disk is when it is needed: it takes no space outside of the pool.
#[test]
fn shrinking_needs_no_space() {
    let Some(disk) = SmallDisk::mount("shrinking_needs_no_space", 24 << 20) else { return };
    let path = disk.pool();
    let mut rng = fastrand::Rng::with_seed(seed(3));
    let mut model = Model::new();
    let store = create(&path, 16 << 20);
    fill(&store, &mut model, 4000, &mut rng);
    store.close().unwrap();
    let rest = fs::File::create(disk.folder().join("rest")).unwrap();
    let is_full = |len: &u64| lode_pmem::allocate(&rest, *len, len + CHUNK).is_err();
    assert!((0..).step_by(CHUNK as usize).any(|len| is_full(&len)));
    let (shrunk, moved) = shrink(&path);
    verify(&path, &model);
    assert!(shrunk.size < 8 << 20, "{shrunk:?}, {moved} moved");
}
