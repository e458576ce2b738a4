//! `lode pool repair`.

use crate::durability::DurabilityOption;
use crate::failure::{DAMAGED, Failure};
use crate::hint::repair_hint;
use crate::output::Output;
use crate::pool::check::{findings, is_damaged};
use crate::pool::size;
use crate::progress::Progress;
use lode_fsck::{LostRange, repair_pool};
use lode_heap::{OpenError, random_log_epoch};
use lode_index::StoreLayout;
use lode_kv::{LAYOUT, escape};
use lode_pool::{Access, DirtyShutdown, OpenOptions, map_for_repair};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "path of the pool"),
    ("missing", "bytes at the end that the file lacked; they are zeros now"),
    ("mended", "number of header copies, slots, records and words that were repaired"),
    ("brought_back", "number of unreachable keys that were salvaged"),
    ("lost", "ranges in which keys were lost: {after, before}, escaped as in TSV, null for either end"),
    ("lost_transactions", "whether a transaction was lost, so that keys may be missing or old anywhere"),
    ("dirty_shutdown", "dirty shutdowns of the memory modules while the pool was open: {was, now}, or null"),
    ("left_alone", "whether objects were left as they are, because their layout is unknown"),
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
    for LostRange { after, before } in &repair.lost {
        let end = |key: &Option<Vec<u8>>, none: &str| key.as_ref().map_or(none.to_owned(), |key| escape(key));
        text += &format!("lost: keys between {} and {}\n", end(after, "the start"), end(before, "the end"));
    }
    if repair.lost_transactions {
        text += "lost: a transaction that had been acknowledged; keys may be missing or have old values\n";
    }
    if let Some(shutdown) = &repair.dirty_shutdown {
        text += &format!(
            "lost, perhaps: what was stored after the pool was last opened; keys may be missing or have old \
             values, and whatever is left is whole: {shutdown}\n"
        );
    }
    let damaged = is_damaged(&repair.after);
    if damaged {
        text += &format!("{}\n", repair.after);
    }
    let verdict = match (damaged, repair.has_losses(), repair.repaired + missing) {
        (true, _, _) => "still damaged; restore a backup",
        (false, true, _) => "repaired, what is listed is lost",
        (false, false, 0) => "nothing to repair",
        (false, false, _) => "repaired; no loss that a checksum can detect",
    };
    text += &format!("{}: {verdict}\n", path.display());
    let code = if damaged || repair.has_losses() { DAMAGED } else { 0 };
    let end = |key: &Option<Vec<u8>>| key.as_ref().map(|key| escape(key));
    let range = |lost: &LostRange| json!({ "after": end(&lost.after), "before": end(&lost.before) });
    Ok(Output::text(text)
        .with("path", path.display().to_string())
        .with("missing", missing)
        .with("mended", repair.repaired)
        .with("brought_back", repair.reinserted)
        .with("lost", repair.lost.iter().map(range).collect::<Vec<_>>())
        .with("lost_transactions", repair.lost_transactions)
        .with(
            "dirty_shutdown",
            repair.dirty_shutdown.map(|DirtyShutdown { was, now }| json!({ "was": was, "now": now })),
        )
        .with("left_alone", repair.unknown_layout)
        .with("findings", findings(&repair.after))
        .with_exit_code(code))
}
