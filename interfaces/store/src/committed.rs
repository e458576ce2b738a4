//! Reads of the last commit, without a snapshot.

use crate::engine::{EngineResult, Medium};
use crate::error::{Error, Kind, Result};
use crate::tree_def::{TreeDef, decode_value};
use crate::value::Value;
use lode_heap::Heap;
use lode_index::{Tree, Trees};
use lode_layout::{AsKey, Key, encode_key};

/// Returns the value of one key. `trees` opens the table of trees.
pub(crate) fn get<'h, K: Key, V: Value>(
    heap: &'h Heap<Medium>,
    trees: impl Fn() -> EngineResult<Trees<'h, Medium>>,
    def: TreeDef<'_, K, V>,
    key: impl AsKey<K>,
) -> Result<Option<V>> {
    let in_tree = |error: Error| error.in_tree(def.name());
    let key = encode_key(&key);
    // The root object of a tree that is dropped meanwhile stays as it is.
    let _pin = heap.pin();
    let find = || trees()?.get(def.name());
    let mut found = find().map_err(|error| in_tree(error.into()))?;
    loop {
        let tree = found.ok_or_else(|| in_tree(Error::new(Kind::NoTree)))?;
        def.check(&tree)?;
        let value = Tree::open(heap, tree.root).and_then(|tree| tree.get(&key));
        let value = value.map_err(|error| in_tree(error.into()))?;
        if let Some(value) = value {
            return decode_value(value).map(Some).map_err(in_tree);
        }
        // Keys of a dropped tree are deleted one after the other, so a key that is missing proves nothing.
        found = find().map_err(|error| in_tree(error.into()))?;
        if found.as_ref().is_some_and(|found| found.root == tree.root) {
            return Ok(None);
        }
    }
}
