//! A pool that shrinks keeps its keys, takes little more than they do, and grows again.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_fsck::{ShrinkError, ShrinkEvents, check_pool};
use lode_heap::{Access, CreateOptions, Durability, OpenError, OpenOptions, Shrunk};
use lode_index::IndexError;
use lode_kv::{LAYOUT, Store};
use lode_layout::{CHUNK, WORD};
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
    options_with(Durability::None)
}

fn options_with(durability: Durability) -> OpenOptions {
    OpenOptions { durability: Some(durability), ..OpenOptions::new(Access::ReadWrite) }
}

fn create(path: &Path, size: u64) -> Store {
    let durability = Some(Durability::None);
    let options = CreateOptions { durability, ..CreateOptions::new(size, Store::layout_name()) };
    Store::create(path, &options).unwrap()
}

fn shrink_until(path: &Path, stop_at: u64) -> Result<(Shrunk, u64), ShrinkError> {
    let events = Events { moved: Cell::new(0), stop_at };
    shrink_with(path, &options(), &events)
}

fn shrink_with(path: &Path, options: &OpenOptions, events: &Events) -> Result<(Shrunk, u64), ShrinkError> {
    Store::shrink(path, options, events).map(|shrunk| (shrunk, events.moved.get()))
}

fn shrink(path: &Path) -> (Shrunk, u64) {
    shrink_until(path, u64::MAX).unwrap()
}

/// Lengths of values, from which one is chosen at random.
const SMALL: &[usize] = &[0, 3, 20, 100, 600, 3000];
const LARGE: &[usize] = &[
    100, 1500, 4000, 5000, 7000, 8000, 9000, 12_000, 16_000, 17_000, 20_000, 24_000, 29_000, 32_000, 50_000,
];

/// Puts `count` random keys with values of these lengths.
fn fill(store: &Store, model: &mut Model, count: usize, lens: &[usize], rng: &mut fastrand::Rng) {
    let tree = store.tree().unwrap();
    for first in (0..count).step_by(500) {
        let keys = (first..count.min(first + 500)).map(|_| {
            let key: Vec<u8> = (0..rng.usize(1..20)).map(|_| rng.u8(..)).collect();
            (key, vec![rng.u8(..); lens[rng.usize(..lens.len())]])
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

/// Compares the store with the model. Returns its bytes of objects, and the most that superblocks may take which are partly
/// filled: the shortest one for each size of blocks.
fn verify(path: &Path, model: &Model) -> (u64, u64) {
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
    let classes = || stats.classes.iter().filter(|class| class.used > 0);
    let chunks = classes().map(|class| match class.block_size {
        ..=7168 => 1,
        7169..=30720 => 4,
        _ => 16,
    });
    let used: u64 = classes().map(|class| class.used * class.block_size).sum();
    (used + stats.huge_bytes, chunks.sum::<u64>() * CHUNK)
}

fn disk_bytes(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

/// Random inserts and deletions, and a shrink after each round: at most 1.5 times what is used, the least growth step, one
/// superblock that is partly filled for each size of blocks, and the chunk table that the pool was made with. With values
/// that take several chunks it is 3 times what is used.
#[test]
fn file_is_as_large_as_its_keys() {
    let folder = tempfile::tempdir().unwrap();
    let mut rng = fastrand::Rng::with_seed(seed(1));
    for (size, lens, count) in [(256 << 10, SMALL, 8000), (48 << 20, SMALL, 8000), (256 << 10, LARGE, 1000)] {
        let path = folder.path().join(format!("pool-{size}-{}", lens.len()));
        let mut model = Model::new();
        let store = create(&path, size);
        let table = store.pool().header().geometry.extents()[0].table_len;
        store.close().unwrap();
        for (count, keep) in [(count, 10), (count / 4, 2), (0, 2), (0, 100)] {
            let store = Store::open(&path, &options()).unwrap();
            fill(&store, &mut model, count, lens, &mut rng);
            thin(&store, &mut model, keep, &mut rng);
            store.close().unwrap();
            let before = disk_bytes(&path);
            let (shrunk, moved) = shrink(&path);
            let ((used, partial), disk) = (verify(&path, &model), disk_bytes(&path));
            println!(
                "{used} bytes in {} keys: {shrunk:?}, {before} bytes on disk, now {disk}, {moved} moved",
                model.len()
            );
            // A larger value moves only to as many free chunks side by side as it takes.
            let halves = if lens.iter().all(|len| *len < 7000) { 3 } else { 6 };
            let most = used * halves / 2 + 8 * CHUNK + partial + table;
            assert!(disk <= most, "{disk} bytes on disk for {used}, and not {most}");
            assert_eq!(fs::metadata(&path).unwrap().len(), shrunk.size);
            let (again, moved) = shrink(&path);
            assert!(again.size + again.size / 4 >= shrunk.size, "{again:?}, {moved} moved");
            verify(&path, &model);
        }
    }
}

/// A pool that was filled to its last chunk, and lost most of its keys. Long rings, as at durability commit, make no
/// transactions so long that they need free chunks.
#[test]
fn full_pool_shrinks_at_each_durability() {
    let folder = tempfile::tempdir().unwrap();
    let mut rng = fastrand::Rng::with_seed(seed(5));
    let full = folder.path().join("full");
    let durability = Some(Durability::None);
    let options =
        CreateOptions { size_max: None, durability, ..CreateOptions::new(6 << 20, Store::layout_name()) };
    let store = Store::create(&full, &options).unwrap();
    let mut numbers: Vec<usize> = (0..100_000).collect();
    rng.shuffle(&mut numbers);
    let pair = |number: &usize| (format!("key{number}").into_bytes(), vec![b'x'; 10 + number % 200]);
    let tree = store.tree().unwrap();
    let count = numbers
        .iter()
        .map(pair)
        .take_while(|(key, value)| match tree.insert(key, value) {
            Ok(_) => true,
            Err(error) => panic_unless_full(&error),
        })
        .count();
    let (kept, gone) = numbers[..count].split_at(count / 7);
    for (key, _) in gone.iter().map(pair) {
        tree.delete(&key).unwrap();
    }
    let model: Model = kept.iter().map(pair).collect();
    store.close().unwrap();
    for durability in [Durability::Commit, Durability::Line, Durability::None] {
        let path = folder.path().join(format!("{durability:?}"));
        fs::copy(&full, &path).unwrap();
        let events = Events { moved: Cell::new(0), stop_at: u64::MAX };
        let (shrunk, moved) = shrink_with(&path, &options_with(durability), &events).unwrap();
        let (used, partial) = verify(&path, &model);
        let disk = disk_bytes(&path);
        println!("{used} bytes of {count} keys: {shrunk:?}, {disk} bytes on disk, {moved} moved");
        // The length counts the gap where the log of the larger pool was, too.
        assert!(disk < shrunk.size && disk <= used * 3 / 2 + 8 * CHUNK + partial, "{disk} bytes for {used}");
    }
}

fn panic_unless_full(error: &IndexError) -> bool {
    assert!(matches!(error, IndexError::Heap(error) if error.is_out_of_space()), "{error}");
    false
}

/// Nothing is half-made if it is stopped, and the next one goes on.
#[test]
fn stopped_shrink_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let mut rng = fastrand::Rng::with_seed(seed(2));
    let mut model = Model::new();
    let store = create(&path, 256 << 10);
    fill(&store, &mut model, 8000, SMALL, &mut rng);
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

/// Without the right to write, nothing is tried.
#[test]
fn shrink_for_reading_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    create(&path, 1 << 20).close().unwrap();
    let options = OpenOptions { access: Access::ReadOnly, ..options() };
    let refused = shrink_with(&path, &options, &Events { moved: Cell::new(0), stop_at: u64::MAX });
    assert!(matches!(
        refused,
        Err(ShrinkError::Open(OpenError::Pool(error))) if matches!(error.cause(), PoolError::ReadOnly)
    ));
    assert!(shrink(&path).0.size < 1 << 20);
}

/// Where a descriptor is lost, space seems to be free that keys are in. A move would overwrite them.
#[test]
fn damaged_space_does_not_shrink() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let mut rng = fastrand::Rng::with_seed(seed(6));
    let mut model = Model::new();
    let store = create(&path, 256 << 10);
    fill(&store, &mut model, 4000, SMALL, &mut rng);
    thin(&store, &mut model, 5, &mut rng);
    let table = store.pool().header().geometry.extents()[0];
    store.close().unwrap();
    let whole = fs::read(&path).unwrap();
    let first = table.table_len / CHUNK;
    let descriptors = (first..table.len / CHUNK).map(|chunk| {
        let at = (table.start.get() + chunk * WORD) as usize;
        at..at + WORD as usize
    });
    for at in descriptors.filter(|at| whole[at.clone()].iter().any(|byte| *byte > 0)).take(4) {
        let mut damaged = whole.clone();
        damaged[at].fill(0);
        fs::write(&path, &damaged).unwrap();
        let refused = shrink_until(&path, u64::MAX);
        assert!(matches!(refused, Err(ShrinkError::Damaged { .. })), "{refused:?}");
        assert!(fs::read(&path).unwrap() == damaged);
    }
    fs::write(&path, &whole).unwrap();
    assert!(shrink(&path).0.size < whole.len() as u64 / 2);
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
    fill(&store, &mut model, 4000, SMALL, &mut rng);
    store.close().unwrap();
    let rest = fs::File::create(disk.folder().join("rest")).unwrap();
    let is_full = |len: &u64| lode_pmem::allocate(&rest, *len, len + CHUNK).is_err();
    assert!((0..).step_by(CHUNK as usize).any(|len| is_full(&len)));
    let (shrunk, moved) = shrink(&path);
    verify(&path, &model);
    assert!(shrunk.size < 8 << 20, "{shrunk:?}, {moved} moved");
}

/// Prints the bytes of a file of words on the disk: loaded, after random deletions of half of them, and shrunk. The words are
/// those of the package wamerican-insane; TMPDIR says on which file system.
#[test]
#[ignore = "prints figures for docs/decisions/shrinking-pools.md"]
fn words_on_disk() {
    let words = fs::read("/usr/share/dict/american-english-insane").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let store = create(&path, 256 << 10);
    let mut rng = fastrand::Rng::with_seed(seed(4));
    let mut model = Model::new();
    let words: Vec<&[u8]> = words.split(|byte| *byte == b'\n').filter(|word| !word.is_empty()).collect();
    let tree = store.tree().unwrap();
    for part in words.chunks(10_000) {
        let put: Result<(), IndexError> =
            store.heap().run(|tx| part.iter().try_for_each(|word| tree.insert_in(tx, word, b"").map(drop)));
        put.unwrap();
        model.extend(part.iter().map(|word| (word.to_vec(), Vec::new())));
    }
    store.close().unwrap();
    let print = |what: &str, model: &Model| {
        let (used, disk) = (verify(&path, model).0, disk_bytes(&path));
        println!(
            "{what}: {} keys, {used} bytes used, {disk} on disk, {:.2}",
            model.len(),
            disk as f64 / used as f64
        );
    };
    print("loaded", &model);
    println!("{:?}", shrink(&path));
    print("shrunk", &model);
    let store = Store::open(&path, &options()).unwrap();
    thin(&store, &mut model, 2, &mut rng);
    store.close().unwrap();
    print("half deleted", &model);
    let start = std::time::Instant::now();
    println!("{:?} in {:.2?}", shrink(&path), start.elapsed());
    print("shrunk", &model);
}
