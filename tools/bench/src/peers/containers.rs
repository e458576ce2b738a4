//! Containers of libpmemobj's examples, through the driver `c/containers.c`, and those of the standard library beside the floor.

use crate::engine::{AREA_WORDS, Containers, Transactions, fold};
use crate::peers::Floor;
use crate::peers::pmemobj::{c_path, check, created};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::{c_char, c_int, c_void};
use std::path::Path;
use std::ptr::NonNull;

// As declared in c/containers.c; opaque types are c_void.
unsafe extern "C" {
    fn bench_containers_create(path: *const c_char, bytes: usize, touched: c_int) -> *mut c_void;
    fn bench_containers_push(all: *mut c_void, values: *const u64, count: usize) -> c_int;
    fn bench_containers_push_pop(
        all: *mut c_void,
        values: *const u64,
        count: usize,
        digest: *mut u64,
    ) -> c_int;
    fn bench_containers_insert_tree(
        all: *mut c_void,
        keys: *const u64,
        values: *const u64,
        count: usize,
    ) -> c_int;
    fn bench_containers_insert_map(
        all: *mut c_void,
        keys: *const u64,
        values: *const u64,
        count: usize,
    ) -> c_int;
    fn bench_containers_number(all: *const c_void, index: u64) -> u64;
    fn bench_containers_in_tree(all: *const c_void, key: u64) -> u64;
    fn bench_containers_in_map(all: *const c_void, key: u64) -> u64;
    fn bench_containers_close(all: *mut c_void);
}

/// Bytes of a pool for each number: what the B-tree needs, and twice that.
const BYTES_PER_NUMBER: usize = 512;

/// An array, a queue, a B-tree and a hash map in a pool of libpmemobj.
pub(crate) struct PmemobjContainers {
    handle: NonNull<c_void>,
}

impl PmemobjContainers {
    /// A pool with room for `count` numbers in each; `touched` brings its pages in.
    pub(crate) fn create(path: &Path, count: usize, touched: bool) -> Result<PmemobjContainers> {
        let path = c_path(path)?;
        let bytes = (64 << 20) + count * BYTES_PER_NUMBER;
        // SAFETY: - the path ends with a NUL.
        let handle = unsafe { bench_containers_create(path.as_ptr(), bytes, c_int::from(touched)) };
        Ok(PmemobjContainers { handle: created(handle)? })
    }
}

impl Containers for PmemobjContainers {
    fn push(&mut self, values: &[u64]) -> Result<()> {
        // SAFETY: - the pool is open, and there are so many numbers.
        check(unsafe { bench_containers_push(self.handle.as_ptr(), values.as_ptr(), values.len()) })
    }

    fn push_pop(&mut self, values: &[u64]) -> Result<u64> {
        let (handle, mut digest) = (self.handle.as_ptr(), 0);
        // SAFETY: - the pool is open, there are so many numbers, and `digest` is a place for a word.
        check(unsafe { bench_containers_push_pop(handle, values.as_ptr(), values.len(), &raw mut digest) })?;
        Ok(digest)
    }

    fn insert_sorted(&mut self, keys: &[u64], values: &[u64]) -> Result<()> {
        let count = keys.len().min(values.len());
        let handle = self.handle.as_ptr();
        // SAFETY: - the pool is open, and there are so many keys and values.
        check(unsafe { bench_containers_insert_tree(handle, keys.as_ptr(), values.as_ptr(), count) })
    }

    fn insert_hashed(&mut self, keys: &[u64], values: &[u64]) -> Result<()> {
        let count = keys.len().min(values.len());
        let handle = self.handle.as_ptr();
        // SAFETY: - the pool is open, and there are so many keys and values.
        check(unsafe { bench_containers_insert_map(handle, keys.as_ptr(), values.as_ptr(), count) })
    }

    fn found(&mut self, index: u64, key: u64) -> Result<[u64; 3]> {
        let handle = self.handle.as_ptr();
        // SAFETY: - the pool is open, and the array has the number, as all engines have pushed the same.
        let number = unsafe { bench_containers_number(handle, index) };
        // SAFETY: - the pool is open.
        let sorted = unsafe { bench_containers_in_tree(handle, key) };
        // SAFETY: - the pool is open.
        let hashed = unsafe { bench_containers_in_map(handle, key) };
        Ok([number, sorted, hashed])
    }
}

impl Drop for PmemobjContainers {
    fn drop(&mut self) {
        // SAFETY: - the pool is open, and this is its last use.
        unsafe { bench_containers_close(self.handle.as_ptr()) };
    }
}

/// Words of the floor for numbers, and for keys and values.
const ARRAY_WORDS: u32 = 1 << 20;
/// Words of the floor that are the queue.
const QUEUE_WORDS: u32 = 1024;
/// The word of the floor that is a length, or the end of the queue, and the one that is its front.
const ENDS: [u32; 2] = [AREA_WORDS - 1, AREA_WORDS - 2];

/// The containers of the standard library, and beside each change the floor of a transaction that changes the words which a durable
/// container of the same content has to change: a number and the length, the end of a queue, or a key and its value.
pub(crate) struct VolatileContainers {
    floor: Floor,
    /// Number of places for a key and its value: twice as many as there will be keys.
    pairs: u64,
    numbers: Vec<u64>,
    queue: VecDeque<u64>,
    sorted: BTreeMap<u64, u64>,
    hashed: HashMap<u64, u64>,
}

impl VolatileContainers {
    pub(crate) fn create(path: &Path, count: usize) -> Result<VolatileContainers> {
        let floor = Floor::create(path)?;
        let pairs = (2 * count as u64).min(u64::from(ARRAY_WORDS / 2));
        let (numbers, queue) = (Vec::new(), VecDeque::new());
        Ok(VolatileContainers {
            floor,
            pairs,
            numbers,
            queue,
            sorted: BTreeMap::new(),
            hashed: HashMap::new(),
        })
    }

    /// Stores a key and its value durably.
    fn change_pair(&mut self, key: u64) -> Result<()> {
        let place = 2 * (key % self.pairs) as u32;
        self.floor.change(&[place, place + 1], 2)
    }
}

impl Containers for VolatileContainers {
    fn push(&mut self, values: &[u64]) -> Result<()> {
        for (value, index) in values.iter().zip(0..) {
            self.numbers.push(*value);
            self.floor.change(&[index % ARRAY_WORDS, ENDS[0]], 2)?;
        }
        Ok(())
    }

    fn push_pop(&mut self, values: &[u64]) -> Result<u64> {
        let mut digest = 0;
        for (value, index) in values.iter().zip(0..) {
            self.queue.push_back(*value);
            self.floor.change(&[index % QUEUE_WORDS, ENDS[0]], 2)?;
            digest = fold(digest, self.queue.pop_front().context("the queue is not empty")?);
            self.floor.change(&[ENDS[1]], 1)?;
        }
        Ok(digest)
    }

    fn insert_sorted(&mut self, keys: &[u64], values: &[u64]) -> Result<()> {
        for (key, value) in keys.iter().zip(values) {
            self.sorted.insert(*key, *value);
            self.change_pair(*key)?;
        }
        Ok(())
    }

    fn insert_hashed(&mut self, keys: &[u64], values: &[u64]) -> Result<()> {
        for (key, value) in keys.iter().zip(values) {
            self.hashed.insert(*key, *value);
            self.change_pair(*key)?;
        }
        Ok(())
    }

    fn found(&mut self, index: u64, key: u64) -> Result<[u64; 3]> {
        let number = self.numbers.get(index as usize).context("the vector lost a number")?;
        let of = |found: Option<&u64>| found.copied().context("a map lost a key");
        Ok([*number, of(self.sorted.get(&key))?, of(self.hashed.get(&key))?])
    }
}
