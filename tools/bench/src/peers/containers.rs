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

/// The containers of the standard library, and beside each change the floor of a transaction that changes one word.
pub(crate) struct VolatileContainers {
    floor: Floor,
    numbers: Vec<u64>,
    queue: VecDeque<u64>,
    sorted: BTreeMap<u64, u64>,
    hashed: HashMap<u64, u64>,
}

impl VolatileContainers {
    pub(crate) fn create(path: &Path) -> Result<VolatileContainers> {
        let floor = Floor::create(path)?;
        let (numbers, queue) = (Vec::new(), VecDeque::new());
        Ok(VolatileContainers { floor, numbers, queue, sorted: BTreeMap::new(), hashed: HashMap::new() })
    }

    fn floor(&mut self, number: u64) -> Result<()> {
        self.floor.change(&[number as u32 % AREA_WORDS.min(1 << 13)], 1)
    }
}

impl Containers for VolatileContainers {
    fn push(&mut self, values: &[u64]) -> Result<()> {
        for value in values {
            self.numbers.push(*value);
            self.floor(*value)?;
        }
        Ok(())
    }

    fn push_pop(&mut self, values: &[u64]) -> Result<u64> {
        let mut digest = 0;
        for value in values {
            self.queue.push_back(*value);
            self.floor(*value)?;
            digest = fold(digest, self.queue.pop_front().context("the queue is not empty")?);
            self.floor(*value)?;
        }
        Ok(digest)
    }

    fn insert_sorted(&mut self, keys: &[u64], values: &[u64]) -> Result<()> {
        for (key, value) in keys.iter().zip(values) {
            self.sorted.insert(*key, *value);
            self.floor(*key)?;
        }
        Ok(())
    }

    fn insert_hashed(&mut self, keys: &[u64], values: &[u64]) -> Result<()> {
        for (key, value) in keys.iter().zip(values) {
            self.hashed.insert(*key, *value);
            self.floor(*key)?;
        }
        Ok(())
    }

    fn found(&mut self, index: u64, key: u64) -> Result<[u64; 3]> {
        let number = self.numbers.get(index as usize).context("the vector lost a number")?;
        let of = |found: Option<&u64>| found.copied().context("a map lost a key");
        Ok([*number, of(self.sorted.get(&key))?, of(self.hashed.get(&key))?])
    }
}
