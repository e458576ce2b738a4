//! The pairs that a store must hold.

use super::{Outcome, ensure, expect_ok};
use lode_kv::Store;
use std::collections::BTreeMap;

/// Model of the pairs that a store must hold.
pub(super) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns a finding if the store does not hold the pairs of the model.
pub(super) fn compare(store: &Store, model: &Model) -> Outcome {
    let reader = expect_ok("tree", store.tree())?.reader();
    let mut want = model.iter();
    for entry in reader.iter() {
        let entry = expect_ok("scan", entry)?;
        let value = entry.value.into_vec();
        let same = want.next().is_some_and(|(key, known)| entry.key == *key && value == *known);
        ensure(same, "changed", format_args!("the store holds {:?} with {} bytes", entry.key, value.len()))?;
    }
    ensure(want.next().is_none(), "lost", "the store holds fewer keys than were put")?;
    let count = expect_ok("count", store.count())?;
    ensure(
        count == model.len() as u64,
        "answer",
        format_args!("count says {count}, {} are there", model.len()),
    )
}
