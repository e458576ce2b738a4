//! `lode pool repair`.

use crate::durability::DurabilityOption;
use crate::failure::{DAMAGED, Failure};
use crate::hint::repair_hint;
use crate::output::Output;
use crate::pool::check::findings;
use crate::pool::size;
use crate::progress::Progress;
use lode_fsck::{LossReason, LostRange, Repair, TypedObject, TypedRepair, repair_pool};
use lode_heap::{OpenError, random_log_epoch};
use lode_index::StoreLayout;
use lode_kv::{LAYOUT, escape};
use lode_pool::{Access, DirtyShutdown, OpenOptions, map_for_repair};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "path of the pool"),
    ("missing", "bytes at the end that the file lacked; they are zeros now"),
    ("mended", "number of header copies, slots, records and words that were repaired"),
    ("brought_back", "number of unreachable keys that were salvaged"),
    (
        "lost",
        "ranges in which keys were lost: {tree, after, before}, keys escaped as in TSV, null for either end; the \
         tree is null in a pool of one tree, and if it is unknown; of a map in typed data it is the path",
    ),
    ("lost_names", "ranges in which names of trees were lost: {after, before}, null for either end"),
    ("found_trees", "names that were given to trees without a name"),
    ("unplaced", "number of keys whose tree is unknown, and which are in `lost+found` now"),
    (
        "lost_objects",
        "objects of typed data that were lost: {path, type, at, means}; their pointers are null now, a vector, queue, text \
         or map is empty, and a vector of boxes has one element less",
    ),
    (
        "relinked",
        "pointers of typed data whose targets were lost or had another owner, and that lead to the only object without \
         an owner now: {path, type, at, means}",
    ),
    (
        "reallocated",
        "objects of typed data that have owners but were not allocated, and are now: {path, type, at}; they may be old",
    ),
    ("freed", "objects of typed data without an owner, whose space was given back: {type, at}"),
    ("lost_transactions", "whether a transaction was lost, so that keys may be missing or old anywhere"),
    ("dirty_shutdown", "dirty shutdowns of the memory modules while the pool was open: {was, now}, or null"),
    (
        "left_alone",
        "whether objects were left as they are, because their layout is unknown, or the root or the types of typed data \
         are lost",
    ),
    ("findings", "findings of a check of the repaired pool: {severity, what, at, means}"),
];

pub(crate) fn run(path: &Path, durability: DurabilityOption) -> Result<Output, Failure> {
    let progress = Progress::spinner("repairing the pool");
    let failure = || Failure::of_pool("repairing a pool", path);
    let options = OpenOptions { durability: durability.forced(), ..OpenOptions::new(Access::ReadWrite) };
    let (medium, missing) =
        map_for_repair(path, &options).map_err(|error| failure()(OpenError::from(error).into()))?;
    let log_epoch = random_log_epoch().map_err(|error| failure()(error.into()))?;
    let repair = repair_pool(&Arc::new(medium), log_epoch, &[&LAYOUT, &StoreLayout]).map_err(|error| {
        let step = repair_hint(&error);
        Failure::new("repairing a pool", format_args!("{}: {error}{step}", path.display()))
    })?;
    drop(progress);
    let mut text = String::new();
    if missing > 0 {
        text += &format!("the file was cut short: {} at its end are zeros now\n", size(missing));
    }
    text += &format!("{} structures repaired, {} keys salvaged\n", repair.repaired, repair.reinserted);
    text += &losses(&repair);
    if let Some(shutdown) = &repair.dirty_shutdown {
        text += &format!(
            "lost, perhaps: what was stored after the pool was last opened; keys may be missing or have old \
             values, and whatever is left is whole: {shutdown}\n"
        );
    }
    let damaged = repair.after.is_damaged();
    if damaged {
        text += &format!("{}\n", repair.after);
    }
    let is_typed_damage = repair.after.findings.iter().any(|finding| finding.path.is_some());
    let verdict = match (damaged, repair.has_losses(), repair.repaired + missing) {
        (true, _, _) if is_typed_damage => {
            "still damaged: a repair invents no values, lengths and texts; let the program store them anew, or restore a backup"
        }
        (true, _, _) => "still damaged; restore a backup",
        (false, true, _) => "repaired, what is listed is lost",
        (false, false, 0) => "nothing to repair",
        (false, false, _) => "repaired; no loss that a checksum can detect",
    };
    text += &format!("{}: {verdict}\n", path.display());
    let code = if damaged || repair.has_losses() { DAMAGED } else { 0 };
    let end = |key: &Option<Vec<u8>>| key.as_ref().map(|key| escape(key));
    let range = |lost: &LostRange| json!({ "tree": lost.tree, "after": end(&lost.after), "before": end(&lost.before) });
    let names = |lost: &LostRange| json!({ "after": end(&lost.after), "before": end(&lost.before) });
    Ok(Output::text(text)
        .with("path", path.display().to_string())
        .with("missing", missing)
        .with("mended", repair.repaired)
        .with("brought_back", repair.reinserted)
        .with("lost", repair.lost.iter().map(range).collect::<Vec<_>>())
        .with("lost_names", repair.lost_names.iter().map(names).collect::<Vec<_>>())
        .with("found_trees", repair.found_trees.clone())
        .with("unplaced", repair.unplaced)
        .with("lost_objects", repair.typed.lost.iter().map(lost_object).collect::<Vec<_>>())
        .with("relinked", repair.typed.relinked.iter().map(lost_object).collect::<Vec<_>>())
        .with("reallocated", repair.typed.reallocated.iter().map(named_object).collect::<Vec<_>>())
        .with("freed", repair.typed.freed.iter().map(freed_object).collect::<Vec<_>>())
        .with("lost_transactions", repair.lost_transactions)
        .with(
            "dirty_shutdown",
            repair.dirty_shutdown.map(|DirtyShutdown { was, now }| json!({ "was": was, "now": now })),
        )
        .with("left_alone", repair.unknown_layout)
        .with("findings", findings(&repair.after))
        .with_exit_code(code))
}

/// Returns a line for each thing that the repair has lost or moved.
fn losses(repair: &Repair) -> String {
    let end = |key: &Option<Vec<u8>>, none: &str| key.as_ref().map_or(none.to_owned(), |key| escape(key));
    let between = |lost: &LostRange| {
        format!("between {} and {}", end(&lost.after, "the start"), end(&lost.before, "the end"))
    };
    let mut text = String::new();
    for lost in &repair.lost {
        let tree = lost.tree.as_ref().map_or(String::new(), |tree| format!("in the tree {tree:?}, "));
        text += &format!("lost: {tree}keys {}\n", between(lost));
    }
    for lost in &repair.lost_names {
        text += &format!("lost: names of trees {}\n", between(lost));
    }
    for name in &repair.found_trees {
        text += &format!("found: a tree without a name, which is {name:?} now\n");
    }
    if repair.unplaced > 0 {
        text += &format!(
            "found: {} keys whose tree is unknown, which are in \"lost+found\" now\n",
            repair.unplaced
        );
    }
    text += &typed_losses(&repair.typed);
    if repair.lost_transactions {
        text += "lost: a transaction that had been acknowledged; keys may be missing or have old values\n";
    }
    text
}

/// Returns a line for each object of typed data that the repair has lost, linked or allocated again, and one for those that it freed.
fn typed_losses(typed: &TypedRepair) -> String {
    let mut text = String::new();
    let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "object of an unknown type".to_owned());
    let title = |object: &TypedObject| {
        format!(
            "{}, {} at {}",
            object.path.as_deref().unwrap_or_default(),
            name(&object.type_name),
            object.at
        )
    };
    for (object, reason) in &typed.lost {
        text += &format!("lost: {}: {reason}\n", title(object));
    }
    for (object, reason) in &typed.relinked {
        text += &format!(
            "linked: {}: {reason}, so it is the only object without an owner now; compare it with a backup\n",
            title(object)
        );
    }
    for object in &typed.reallocated {
        text += &format!("allocated again: {}; its content may be old\n", title(object));
    }
    let mut freed: BTreeMap<String, u64> = BTreeMap::new();
    for object in &typed.freed {
        *freed.entry(name(&object.type_name)).or_default() += 1;
    }
    if !freed.is_empty() {
        let kinds: Vec<String> = freed.iter().map(|(name, count)| format!("{count} {name}")).collect();
        text += &format!(
            "given back: the space of {} objects to which nothing led: {}\n",
            typed.freed.len(),
            kinds.join(", ")
        );
    }
    text
}

fn lost_object((object, reason): &(TypedObject, LossReason)) -> Value {
    json!({ "path": object.path, "type": object.type_name, "at": object.at.get(), "means": reason.to_string() })
}

fn named_object(object: &TypedObject) -> Value {
    json!({ "path": object.path, "type": object.type_name, "at": object.at.get() })
}

fn freed_object(object: &TypedObject) -> Value {
    json!({ "type": object.type_name, "at": object.at.get() })
}
