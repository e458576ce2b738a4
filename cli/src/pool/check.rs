//! `lode pool check`.

use crate::answer::Answer;
use crate::failure::Failure;
use crate::progress::Progress;
use lode_heap::{OpenError, Pool};
use lode_index::Finding;
use lode_index::kv::{KvError, LAYOUT_NAME, Store};
use lode_pool::{Access, OpenOptions, check_headers, map_unchecked};
use std::path::Path;

/// The exit code of a check that found damage, and of a repair that lost something.
pub(crate) const DAMAGED: u8 = 3;

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "where the pool is"),
    ("damage", "what is damaged, a list of texts; empty when all is well"),
    (
        "records",
        "records of the log that were replayed in this view, which is no damage; null if it can't be read",
    ),
    ("keys", "keys whose leaves were verified; null where there is no layout kv that can be opened"),
];

/// What a check found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) damage: Vec<String>,
    pub(crate) records: Option<u64>,
    pub(crate) keys: Option<u64>,
}

pub(crate) fn run(path: &Path) -> Result<Answer, Failure> {
    let progress = Progress::spinner("checking the pool");
    let found = check(path)?;
    drop(progress);
    let mut text: String = found.damage.iter().map(|damage| format!("{damage}\n")).collect();
    let place = path.display();
    text += &match (&found.damage[..], found.keys) {
        ([], Some(keys)) => format!("{place}: no damage, {keys} keys verified\n"),
        ([], None) => format!("{place}: no damage\n"),
        (damage, _) => format!("{place}: damaged in {} places; run `lode pool repair`\n", damage.len()),
    };
    if let Some(count @ 1..) = found.records {
        text += &format!(
            "the last writer did not close it; {count} records of its log were replayed, in this view only\n"
        );
    }
    let code = if found.damage.is_empty() { 0 } else { DAMAGED };
    Ok(Answer::text(text)
        .with("path", place.to_string())
        .with("damage", found.damage)
        .with("records", found.records)
        .with("keys", found.keys)
        .exit_with(code))
}

/// Checks everything that there is, as far as it can be opened.
pub(crate) fn check(path: &Path) -> Result<Found, Failure> {
    let failure = || Failure::of_pool("checking a pool", path);
    let mapping =
        map_unchecked(path, Access::ReadOnly).map_err(|error| failure()(OpenError::from(error).into()))?;
    let mut found = Found::default();
    found.damage.extend(check_headers(&mapping).iter().map(ToString::to_string));
    drop(mapping);
    let pool = match Pool::open(path, &OpenOptions::new(Access::ReadOnly)) {
        Ok(pool) => pool,
        Err(error) => {
            // What keeps it from being opened is damage, and the headers may have told already.
            if found.damage.is_empty() {
                found.damage.push(error.to_string());
            }
            return Ok(found);
        }
    };
    found.records = Some(pool.recovery().replayed);
    if pool.layout().as_str() == LAYOUT_NAME {
        match Store::over(pool).and_then(|store| check_store(&store, &mut found.damage)) {
            Ok(keys) => found.keys = Some(keys),
            Err(error) => found.damage.push(error.to_string()),
        }
    }
    Ok(found)
}

/// Verifies every node and leaf; returns how many leaves there are.
fn check_store(store: &Store, damage: &mut Vec<String>) -> Result<u64, KvError> {
    store.loaded()?;
    let keys = store.tree()?.check(|finding| {
        if let Finding::Damage(error) = finding {
            damage.push(error.to_string());
        }
    });
    Ok(keys)
}
