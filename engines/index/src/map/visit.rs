//! Maps for tools, which know their types from the pool's type table only.

use crate::check::Part;
use crate::error::IndexError;
use crate::tree::Tree;
use lode_heap::{Heap, MapPart};
use lode_layout::PoolOffset;
use lode_pmem::Medium;

/// Passes each part of the map whose root object is at `root` to `visit`: objects, entries, and damage. For
/// [`TypedSurvey::with_maps`](lode_heap::TypedSurvey::with_maps). No thread may change the map meanwhile.
///
/// # Cost
/// As [`Tree::check`].
pub fn visit_map<M: Medium>(heap: &Heap<M>, root: PoolOffset, visit: &mut dyn FnMut(MapPart<'_>) -> bool) {
    let damage_at = |error: &IndexError| match *error {
        IndexError::Corrupt { at, .. } | IndexError::NoTree { at } => at,
        IndexError::Fault(fault) => fault.at,
        _ => root,
    };
    match Tree::open(heap, root) {
        Ok(tree) => drop(tree.check_parts(|part| match part {
            Part::Object(object) => visit(MapPart::Object(object.at)),
            Part::Entry { leaf, key, value } => visit(MapPart::Entry { at: leaf, key, value }),
            Part::Damage(error) => visit(MapPart::Damage(damage_at(&error))),
        })),
        Err(error) => {
            visit(MapPart::Object(root));
            visit(MapPart::Damage(damage_at(&error)));
        }
    }
}
