//! Trees that are the root object of a heap.

use lode_heap::Heap;
use lode_index::{Finding, IndexError, Tree};
use lode_pmem::Medium;

/// Makes an empty tree the heap's root object.
pub fn create<M: Medium>(heap: &Heap<M>) -> Tree<'_, M> {
    let root = heap.run(|tx| {
        let root = Tree::create(tx)?;
        tx.set_root(root);
        Ok::<_, IndexError>(root)
    });
    Tree::open(heap, root.unwrap()).unwrap()
}

/// Opens the tree that is the heap's root object.
pub fn open<M: Medium>(heap: &Heap<M>) -> Tree<'_, M> {
    Tree::open(heap, heap.root().unwrap()).unwrap()
}

/// Checks that the tree is sound, has `keys` keys, and that the heap holds its objects and no others.
pub fn check<M: Medium>(heap: &Heap<M>, tree: &Tree<'_, M>, keys: u64) {
    let mut reached = Vec::new();
    let mut damage = Vec::new();
    let leaves = tree.check(|finding| match finding {
        Finding::Object(object) => reached.push(object),
        other => damage.push(other),
    });
    assert_eq!(damage, []);
    assert_eq!((leaves, tree.count()), (keys, Ok(keys)));
    reached.sort_by_key(|object| object.at);
    let objects: Result<Vec<_>, _> = heap.objects().collect();
    assert_eq!(reached, objects.unwrap());
}
