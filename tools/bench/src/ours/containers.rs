//! Containers of typed data.

use super::pool::{self, Mapped};
use crate::engine::{Containers, fold};
use anyhow::{Context, Result, ensure};
use lode_heap::{HeapError, PDeque, PHashMap, PVec, Persist, Pool, TypedPool};
use lode_index::PMap;
use lode_pmem::Durability;
use std::path::Path;

lode_heap::brand!(
    /// The pool of the containers.
    Numbers
);

/// Bytes of the pool for each number: those of an entry in each container, old tables included, and as many again.
const BYTES_PER_NUMBER: u64 = 512;

#[derive(Persist)]
#[persist(brand = Numbers)]
#[repr(C)]
struct Root {
    numbers: PVec<u64, Numbers>,
    queue: PDeque<u64, Numbers>,
    sorted: PMap<u64, u64, Numbers>,
    hashed: PHashMap<u64, u64, Numbers>,
}

/// A vector, a queue, and two maps in a pool.
pub(crate) struct TypedContainers {
    pool: TypedPool<Numbers, Mapped>,
}

impl TypedContainers {
    /// A pool with room for `count` numbers in each; `touched` brings its pages in.
    pub(crate) fn create(path: &Path, count: usize, touched: bool) -> Result<TypedContainers> {
        let len = (64 << 20) + count as u64 * BYTES_PER_NUMBER;
        let pool: Pool<Mapped> = pool::create(path, len, Durability::Line, pool::plain)?;
        if touched {
            pool::touch(&pool)?;
        }
        let pool = pool.typed();
        pool.root_or_init(|_| {
            let (numbers, queue) = (PVec::new(), PDeque::new());
            Ok(Root { numbers, queue, sorted: PMap::new(), hashed: PHashMap::new() })
        })?;
        Ok(TypedContainers { pool })
    }

    fn root(&self) -> Result<&Root> {
        self.pool.root()?.context("made with the pool")
    }
}

impl Containers for TypedContainers {
    fn push(&mut self, values: &[u64]) -> Result<()> {
        let root = self.root()?;
        Ok(values.iter().try_for_each(|value| self.pool.run(|tx| root.numbers.push(tx, *value)))?)
    }

    fn push_pop(&mut self, values: &[u64]) -> Result<u64> {
        let root = self.root()?;
        let mut digest = 0;
        for value in values {
            self.pool.run(|tx| root.queue.push_back(tx, *value))?;
            let first = self.pool.run(|tx| root.queue.pop_front(tx))?;
            digest = fold(digest, first.context("the queue is not empty")?);
        }
        Ok(digest)
    }

    fn insert_sorted(&mut self, keys: &[u64], values: &[u64]) -> Result<()> {
        let root = self.root()?;
        for (key, value) in keys.iter().zip(values) {
            self.pool.run(|tx| root.sorted.insert(tx, *key, *value).map(drop))?;
        }
        Ok(())
    }

    fn insert_hashed(&mut self, keys: &[u64], values: &[u64]) -> Result<()> {
        let root = self.root()?;
        for (key, value) in keys.iter().zip(values) {
            let old = self.pool.run(|tx| root.hashed.insert(tx, *key, *value))?;
            ensure!(old.is_none(), "a key came twice");
        }
        Ok(())
    }

    fn found(&mut self, index: u64, key: u64) -> Result<[u64; 3]> {
        let (root, guard) = (self.root()?, self.pool.guard());
        let of = |found: Result<Option<u64>, HeapError>| found?.context("a container lost a number");
        let number = of(root.numbers.load(&guard, index))?;
        Ok([number, of(root.sorted.load(&guard, key))?, of(root.hashed.load(&guard, key))?])
    }
}
