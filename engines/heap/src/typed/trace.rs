//! The objects that an object owns, directly or through others, for checks.

use super::brand::Brand;
use super::owners::{Edge, Owners};
use crate::heap::Heap;
use crate::persist::Persist;
use crate::ptr::walk_of;
use lode_layout::PoolOffset;
use lode_pmem::{Fault, Medium};

/// Visits all objects that the `T` at `root` owns, directly or through others. `visit` gets the offset of each, or the
/// fault of one that can't be read. It returns true if the objects that this one owns are to be visited, too.
pub fn visit_owned_by<T: Persist<B>, B: Brand, M: Medium>(
    heap: &Heap<M>,
    root: PoolOffset,
    visit: &mut dyn FnMut(Result<PoolOffset, Fault>) -> bool,
) {
    let _pin = heap.pin();
    let mut owners = Owners { memory: heap.memory(), edges: Vec::new() };
    let mut open = vec![(root, walk_of::<T, B>())];
    while let Some((at, walk)) = open.pop() {
        if let Some(Err(fault)) = walk.map(|walk| walk(at, &mut owners)) {
            visit(Err(fault));
        }
        for Edge { word, walk } in owners.edges.drain(..) {
            let found = heap.memory().reading(|memory| PoolOffset::new(memory.load8(word)));
            if found != Ok(PoolOffset::NULL)
                && visit(found)
                && let Ok(target) = found
            {
                open.push((target, walk));
            }
        }
    }
}
