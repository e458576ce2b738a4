//! Pools of typed data: every object has one owner, and the pool's type table says where the owners are.
//!
//! ```text
//!   trace     what a check reports: each object, each damage, by its way from the root
//!   salvage   frame    root word, root object, type tables are put right
//!             pass     what each pointer is to lead to
//!             elements lost elements leave their vectors
//! ```

mod elements;
mod frame;
mod lost;
mod pass;
mod salvage;

pub use lost::{LossReason, TypedObject, TypedRepair};
pub(crate) use salvage::salvage;

use crate::maps::Maps;
use crate::trace::Trace;
use lode_heap::{Heap, HeapError, TypedDamage, TypedPlace, TypedSurvey, TypedVisitor};
use lode_layout::PoolOffset;
use lode_pmem::Medium;
use std::sync::Arc;

/// Traces a pool of typed data, whatever program made it. Returns true if it was traced as a whole: false if it is not
/// one, or if a part can't be read.
pub(crate) fn trace_typed<M: Medium>(
    heap: &Heap<Arc<M>>,
    maps: Option<&dyn Maps<M>>,
    trace: &mut Trace<'_>,
) -> bool {
    let mut survey = match TypedSurvey::open(heap) {
        Ok(Some(survey)) => survey,
        Ok(None) | Err(HeapError::NotTyped { .. }) => return false,
        Err(error) => {
            report(&error, trace);
            return false;
        }
    };
    let frame = survey.frame();
    let names =
        ["the root object", "the type table"].into_iter().chain(std::iter::repeat("the older type table"));
    for (what, at) in names.zip(&frame) {
        trace.object(what, *at);
    }
    if survey.is_half_migrated() {
        trace.note(
            "the type table",
            frame[1],
            "a migration is not finished; the program with the new types goes on with it",
        );
    }
    if let Some(maps) = maps {
        survey = survey.with_maps(maps.visitor());
    }
    let knows_all = !survey.misses_maps();
    if !knows_all {
        let means = "it has maps, which this program does not know, so leaks are not looked for";
        trace.note("the type table", frame[1], means);
    }
    let table = survey.trees();
    let has_all_trees = match maps {
        _ if table.is_null() => true,
        Some(maps) => maps.trace_trees(heap, table, trace),
        None => {
            let means = "it has trees, which this program does not know, so leaks are not looked for";
            trace.note("the root object", frame[0], means);
            false
        }
    };
    let mut visitor = Visitor { trace, is_whole: knows_all && has_all_trees };
    survey.visit(&mut visitor);
    visitor.is_whole
}

fn report(error: &HeapError, trace: &mut Trace<'_>) {
    let means = "it is damaged, so nothing is traced";
    match *error {
        HeapError::TypeTable { at, .. } => trace.damage("the type table", at, means),
        HeapError::Corrupt { what, at } => trace.damage(what, at, means),
        HeapError::NoObject { at } => {
            trace.damage("the object", at, "no object is there, so nothing is traced")
        }
        HeapError::Fault(fault) => {
            trace.damage("the range", fault.at, "it can't be read, so nothing is traced")
        }
        _ => trace.damage("the root", PoolOffset::NULL, means),
    }
}

struct Visitor<'a, 'b> {
    trace: &'a mut Trace<'b>,
    is_whole: bool,
}

impl TypedVisitor for Visitor<'_, '_> {
    fn visits_blocks(&self) -> bool {
        true
    }

    fn object(&mut self, place: &TypedPlace<'_>) -> bool {
        self.trace.object_on("the object that a pointer leads to", place.at(), || Some(place.path()))
    }

    fn damage(&mut self, place: &TypedPlace<'_>, damage: TypedDamage) {
        self.is_whole &= damage != TypedDamage::Unreadable;
        self.trace.damage_on(what(damage), place.at(), damage.means(), place.path());
    }
}

/// Returns what a finding is about.
const fn what(damage: TypedDamage) -> &'static str {
    match damage {
        TypedDamage::NoObject | TypedDamage::OtherType => "the object that a pointer leads to",
        TypedDamage::NoValue => "the value",
        TypedDamage::TooLong => "the buffer",
        TypedDamage::NoText => "the text",
        TypedDamage::MapPart => "the part of a map",
        TypedDamage::NoKey => "the key",
        _ => "the range",
    }
}
