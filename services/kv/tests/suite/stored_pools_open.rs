//! Pools that an earlier build made open, and have their content.
//!
//! The folder `images` has a pool of each shape that the format knows, as a build of its time left it. An image is never
//! made again: it stands for the pools of users. `cargo test -p lode-kv --test suite make_missing_images -- --ignored`
//! makes those that are not there yet. A change of the format keeps the images, which then show that such pools still
//! open, or are upgraded, and adds new ones by another name.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::unheard::Unheard;
use lode_fsck::check_pool;
use lode_heap::{Access, CreateOptions, Durability, OpenOptions};
use lode_index::IndexError;
use lode_kv::{Format, Input, LAYOUT, LineEnd, LoadOptions, OnError, Store, Transactions};
use lode_layout::{CHECKPOINT_COPY_STRIDE, CheckpointSlot, Geometry, header};
use lode_pool::map_unchecked;
use lode_testing::StoredPools;
use std::collections::BTreeMap;
use std::io::{Seek as _, Write as _};
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::{fs, thread};

const IMAGES: StoredPools = StoredPools { manifest_dir: env!("CARGO_MANIFEST_DIR") };

/// Keys and values, in order.
type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// A pool in the folder of images.
struct StoredPool {
    /// Name of the image: the format, and the shape.
    name: &'static str,
    durability: Durability,
    size: u64,
    /// Fills the store, and returns what it then has.
    fill: fn(&mut Store) -> Pairs,
    /// Changes the store once more. Only the log has these changes: the pool was not closed, and their write-backs were
    /// lost.
    change: Option<fn(&Store, &mut Pairs)>,
    /// True if the pool has grown, and its log has moved.
    is_grown: bool,
}

const POOLS: [StoredPool; 6] = [
    StoredPool {
        name: "1-empty",
        durability: Durability::Commit,
        size: 256 << 10,
        fill: |_| Pairs::new(),
        change: None,
        is_grown: false,
    },
    StoredPool {
        name: "1-keys",
        durability: Durability::Commit,
        size: 1 << 20,
        fill: fill_with_all,
        change: None,
        is_grown: false,
    },
    StoredPool {
        name: "1-unclosed-commit",
        durability: Durability::Commit,
        size: 4 << 20,
        fill: fill_with_few,
        change: Some(change_a_few),
        is_grown: false,
    },
    StoredPool {
        name: "1-unclosed-line",
        durability: Durability::Line,
        size: 1 << 20,
        fill: fill_with_few,
        change: Some(change_a_few),
        is_grown: false,
    },
    StoredPool {
        name: "1-grown",
        durability: Durability::Commit,
        size: 256 << 10,
        fill: fill_until_grown,
        change: None,
        is_grown: true,
    },
    StoredPool {
        name: "1-grown-unclosed-line",
        durability: Durability::Line,
        size: 256 << 10,
        fill: fill_until_grown,
        change: Some(change_a_few),
        is_grown: true,
    },
];

/// Puts a pair into the store and into the expected pairs.
fn put(store: &Store, pairs: &mut Pairs, key: &[u8], value: &[u8]) {
    store.put(key, value).unwrap();
    pairs.insert(key.to_vec(), value.to_vec());
}

fn fill_with_few(store: &mut Store) -> Pairs {
    let mut pairs = Pairs::new();
    for key in ["iron", "ironstone", "lode", "lodestone", "magnet", "magnetite"] {
        put(store, &mut pairs, key.as_bytes(), &[key.len() as u8]);
    }
    pairs
}

/// Puts keys that need nodes of each kind, values of each length, and the progress of a load.
fn fill_with_all(store: &mut Store) -> Pairs {
    let mut pairs = fill_with_few(store);
    for (prefix, children) in [("a", 3_u8), ("b", 12), ("c", 30), ("d", 60)] {
        for child in 0..children {
            put(store, &mut pairs, &[prefix.as_bytes(), &[child * 4]].concat(), &[child]);
        }
    }
    put(store, &mut pairs, b"", b"the empty key");
    put(store, &mut pairs, &[b'k'; 300], b"a long key");
    for len in [0, 8, 100, 1500, 5000, 20_000] {
        put(store, &mut pairs, format!("length {len}").as_bytes(), &vec![0; len]);
    }
    for key in ["iron", "length 100"] {
        put(store, &mut pairs, key.as_bytes(), b"another value");
    }
    for key in ["magnet", "length 5000"] {
        assert!(store.delete(key.as_bytes()).unwrap());
        pairs.remove(key.as_bytes());
    }
    let mut lines = tempfile::tempfile().unwrap();
    lines.write_all(b"loaded\tfirst\nloaded too\tsecond\n").unwrap();
    lines.rewind().unwrap();
    let options = LoadOptions {
        format: Format::Tsv,
        line_end: LineEnd::Lf,
        on_error: OnError::Stop,
        transactions: Transactions::OfOneLine { threads: NonZeroUsize::MIN },
    };
    store.load(Input::new(lines), &options, &Unheard).unwrap();
    pairs.extend([(b"loaded".to_vec(), b"first".to_vec()), (b"loaded too".to_vec(), b"second".to_vec())]);
    pairs
}

fn fill_until_grown(store: &mut Store) -> Pairs {
    let mut pairs = fill_with_few(store);
    for number in 0..40 {
        put(store, &mut pairs, format!("large {number}").as_bytes(), &[0; 40_000]);
    }
    pairs
}

/// Changes that a record of any kind has: of one key, of many, by several threads.
fn change_a_few(store: &Store, pairs: &mut Pairs) {
    put(store, pairs, b"iron", b"replaced");
    put(store, pairs, b"iron", b"replaced again");
    assert!(store.delete(b"lode").unwrap());
    pairs.remove(&b"lode"[..]);
    put(store, pairs, b"iro", b"a key that others begin with");
    let several = ["granite", "gneiss", "gabbro"];
    let tree = store.tree().unwrap();
    let inserted = store.heap().run(|tx| {
        several.iter().try_for_each(|key| tree.insert_in(tx, key.as_bytes(), b"together").map(drop))
    });
    inserted.unwrap_or_else(|error: IndexError| panic!("{error}"));
    pairs.extend(several.map(|key| (key.as_bytes().to_vec(), b"together".to_vec())));
    thread::scope(|scope| {
        for thread in 0..3 {
            let key = format!("magnet of thread {thread}");
            pairs.insert(key.clone().into_bytes(), vec![thread; 30]);
            scope.spawn(move || store.put(key.as_bytes(), &[thread; 30]).unwrap());
        }
    });
}

impl StoredPool {
    fn options(&self, access: Access) -> OpenOptions {
        OpenOptions { durability: Some(self.durability), ..OpenOptions::new(access) }
    }

    fn create(&self, path: &Path, durability: Durability) -> (Store, Pairs) {
        let durability = Some(durability);
        let options = CreateOptions { durability, ..CreateOptions::new(self.size, Store::layout_name()) };
        let mut store = Store::create(path, &options).unwrap();
        let pairs = (self.fill)(&mut store);
        (store, pairs)
    }

    /// Returns the pairs that the pool has, from another pool that was made in the same way.
    fn pairs(&self) -> Pairs {
        let folder = tempfile::tempdir().unwrap();
        let (store, mut pairs) = self.create(&folder.path().join("pool"), Durability::None);
        if let Some(change) = self.change {
            change(&store, &mut pairs);
        }
        pairs
    }

    /// Makes the image.
    fn make(&self) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        let (store, mut pairs) = self.create(&path, self.durability);
        let Some(change) = self.change else {
            store.close().unwrap();
            return IMAGES.write(self.name, &fs::read(&path).unwrap());
        };
        let mut pool = fs::read(&path).unwrap();
        let geometry = store.pool().header().geometry;
        change(&store, &mut pairs);
        assert_eq!(store.pool().header().geometry, geometry, "the last changes do not make the pool grow");
        let later = fs::read(&path).unwrap();
        drop(store);
        let slots = CheckpointSlot::offset(0).get() as usize..Geometry::LOG.get() as usize;
        assert!(pool[slots.clone()] == later[slots], "a checkpoint would need the write-backs");
        let log = geometry.log_off().get() as usize;
        let log = log..log + geometry.log_len() as usize;
        pool[log.clone()].copy_from_slice(&later[log]);
        IMAGES.write(self.name, &pool);
    }

    fn assert_opens(&self) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        IMAGES.unpack(self.name, &path);
        let mut pairs = self.pairs();
        for access in [Access::ReadOnly, Access::ReadWrite] {
            self.check(&path);
            let store = Store::open(&path, &self.options(access)).unwrap();
            let recovery = store.pool().recovery();
            assert_eq!(
                (recovery.was_closed, recovery.replayed > 0),
                (self.change.is_none(), self.change.is_some())
            );
            let geometry = store.pool().header().geometry;
            assert_eq!(geometry.log_off() != Geometry::LOG, self.is_grown, "{}", self.name);
            self.assert_has(&store, &pairs);
            drop(store);
        }
        let mut store = Store::open(&path, &self.options(Access::ReadWrite)).unwrap();
        put(&store, &mut pairs, b"one more", b"value");
        self.assert_has(&store, &pairs);
        assert_eq!(store.count_proven().unwrap(), pairs.len() as u64);
        store.close().unwrap();
        self.check(&path);
    }

    fn assert_has(&self, store: &Store, pairs: &Pairs) {
        let reader = store.tree().unwrap().reader();
        let entries = reader.iter().map(|entry| entry.map(|entry| (entry.key, entry.value.to_vec())));
        assert_eq!(&entries.collect::<Result<Pairs, IndexError>>().unwrap(), pairs, "{}", self.name);
        assert_eq!(store.count().unwrap(), pairs.len() as u64);
    }

    /// Checks that the pool has no damage.
    fn check(&self, path: &Path) {
        let view = map_unchecked(path, &self.options(Access::ReadOnly)).unwrap();
        let report = check_pool(Arc::new(&*view), &[&LAYOUT]);
        assert!(report.is_clean(), "{}: {report}", self.name);
    }
}

/// Pools of all shapes, of an earlier build: read, recovered, changed and checked.
#[test]
fn stored_pools_open() {
    for pool in &POOLS {
        pool.assert_opens();
    }
}

/// Any one copy of a checkpoint slot may be damaged, also where only the newest slot has the number of rings of a log
/// that has moved.
#[test]
fn damaged_copy_of_a_slot_loses_nothing() {
    for pool in POOLS.iter().filter(|pool| pool.change.is_some()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        let pairs = pool.pairs();
        for (slot, copy) in [(0, 0), (0, CHECKPOINT_COPY_STRIDE), (1, 0), (1, CHECKPOINT_COPY_STRIDE)] {
            IMAGES.unpack(pool.name, &path);
            let at = CheckpointSlot::offset(slot).plus(copy).get();
            fs::File::options().write(true).open(&path).unwrap().write_all_at(&[0; 64], at).unwrap();
            let store = Store::open(&path, &pool.options(Access::ReadOnly)).unwrap();
            pool.assert_has(&store, &pairs);
        }
    }
}

/// The progress of the load that made a stored pool is there, so the load is not repeated.
#[test]
fn stored_load_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    IMAGES.unpack("1-keys", &path);
    let store = Store::open(&path, &OpenOptions::new(Access::ReadOnly)).unwrap();
    let progress = store.load_progress().unwrap().unwrap();
    assert_eq!((progress.lines, progress.offset, progress.begun), (2, 31, 31));
}

/// Pools of an older and of a newer format are refused by the number of their format, with what to do. Their content is
/// left alone.
#[test]
fn pools_of_other_formats_are_refused() {
    let (folder, len) = (tempfile::tempdir().unwrap(), header::LEN);
    let path = folder.path().join("pool");
    let (older, newer) = (header::MAJOR - 1, header::MAJOR + 1);
    let with_older =
        "export its content with the version of Lodestone that made it, and load that into a new pool";
    let with_newer = "use the version of Lodestone that made the pool, or a newer one";
    for (major, to_do) in [(older, with_older), (newer, with_newer)] {
        IMAGES.unpack("1-keys", &path);
        let mut pool = fs::read(&path).unwrap();
        for copy in [Geometry::HEADER_A, Geometry::HEADER_B] {
            let bytes = &mut pool[copy.get() as usize..][..len];
            bytes[16..20].copy_from_slice(&major.to_le_bytes());
            bytes[len - 4..].fill(0);
            let crc = crc32c::crc32c(bytes);
            bytes[len - 4..].copy_from_slice(&crc.to_le_bytes());
        }
        fs::write(&path, &pool).unwrap();
        for access in [Access::ReadOnly, Access::ReadWrite] {
            let error = Store::open(&path, &OpenOptions::new(access)).unwrap_err().to_string();
            assert!(
                error.contains(&format!("the pool has format {major}.0")) && error.contains(to_do),
                "{error}"
            );
        }
        assert!(fs::read(&path).unwrap() == pool);
    }
}

/// Makes the images that are missing: of a new shape, or of a new format.
#[test]
#[ignore = "makes images, which are kept for good"]
fn make_missing_images() {
    for pool in POOLS.iter().filter(|pool| !IMAGES.path(pool.name).exists()) {
        pool.make();
        pool.assert_opens();
    }
}
