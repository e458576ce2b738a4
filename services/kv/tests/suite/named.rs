//! Pools of the layout `store` for tests.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_heap::{CreateOptions, Durability, Pool};
use lode_index::{IndexError, Tree, Trees};
use lode_kv::NamedTrees;
use lode_layout::PoolOffset;
use std::path::Path;

/// Makes a pool of two named trees of three keys each. `change` gets the offsets of the table of trees and of a tree.
pub(crate) fn make_named(path: &Path, change: impl FnOnce(&Pool, [PoolOffset; 2])) {
    let options = CreateOptions {
        durability: Some(Durability::Commit),
        ..CreateOptions::new(256 << 10, NamedTrees::layout_name())
    };
    let pool = Pool::create(path, &options).unwrap();
    let heap = pool.heap();
    let table = heap.run(Trees::create).unwrap();
    let trees = Trees::open(heap, table).unwrap();
    let mut roots = [table; 2];
    for name in ["left", "right"] {
        let made: Result<PoolOffset, IndexError> = heap.run(|tx| {
            let root = trees.create_in(tx, name, "u8", "bytes")?.root;
            let tree = Tree::open_in(heap, tx, root)?;
            (0..3).try_for_each(|key| tree.insert_in(tx, &[key], name.as_bytes()).map(drop))?;
            Ok(root)
        });
        roots[1] = made.unwrap();
    }
    change(&pool, roots);
    pool.close().unwrap();
}
