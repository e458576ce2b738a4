//! Use of a pool through the library, in this process.

use crate::files::way::{Answer, Pair, Refusal, Repaired, Wanted, Way};
use crate::panics::caught;
use lode_fsck::{check_pool, repair_pool};
use lode_heap::check::Severity;
use lode_heap::{Durability, random_log_epoch};
use lode_index::prefix_end;
use lode_kv::{LAYOUT, Store};
use lode_pool::{Access, OpenOptions, map_to_repair, map_unchecked};
use std::fmt::Display;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

/// Greatest number of keys of a sample whose absence is proved.
const PROVEN_MAX: usize = 20;

/// Uses a pool through the library, as the program does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Library;

fn said(error: impl Display) -> Refusal {
    Refusal::Said(error.to_string())
}

/// Returns the answer of `ask`. A panic becomes a refusal.
fn guarded<T>(ask: impl FnOnce() -> Answer<T>) -> Answer<T> {
    caught(ask).unwrap_or_else(|panic| Err(Refusal::Broke(panic)))
}

fn open(pool: &Path) -> Answer<Store> {
    Store::open(pool, &OpenOptions::new(Access::ReadOnly)).map_err(said)
}

impl Way for Library {
    fn export(&self, pool: &Path) -> Answer<Vec<Pair>> {
        self.scan(pool, &Wanted::default())
    }

    fn scan(&self, pool: &Path, wanted: &Wanted) -> Answer<Vec<Pair>> {
        guarded(|| {
            let mut store = open(pool)?;
            let reader = store.tree().map_err(said)?.reader();
            let to = match (prefix_end(&wanted.prefix), wanted.to.clone()) {
                (Some(end), Some(to)) => Some(end.min(to)),
                (end, to) => end.or(to),
            };
            let from = wanted.from.clone().unwrap_or_default().max(wanted.prefix.clone());
            let bounds = (Bound::Included(from), to.map_or(Bound::Unbounded, Bound::Excluded));
            let mut range = reader.range::<Vec<u8>>(bounds);
            let mut pairs = Vec::new();
            while pairs.len() < wanted.limit.unwrap_or(usize::MAX) {
                let Some(entry) = (if wanted.reverse { range.next_back() } else { range.next() }) else {
                    break;
                };
                let entry = entry.map_err(said)?;
                pairs.push((entry.key, entry.value.into_vec()));
            }
            drop(range);
            drop(reader);
            let all = if wanted.verify { store.count_proven() } else { store.count() }.map_err(said)?;
            if wanted.is_whole() && all != pairs.len() as u64 {
                return Err(said(format_args!("{} keys, and the tree has counted {all}", pairs.len())));
            }
            Ok(pairs)
        })
    }

    fn get(&self, pool: &Path, keys: &[Vec<u8>], verify: bool) -> Vec<Answer<Option<Vec<u8>>>> {
        // A proof that a key is absent reads the whole tree.
        let keys = if verify { &keys[..keys.len().min(PROVEN_MAX)] } else { keys };
        match guarded(|| open(pool)) {
            Ok(mut store) if verify => {
                keys.iter().map(|key| guarded(|| store.get_proven(key).map_err(said))).collect()
            }
            Ok(store) => keys.iter().map(|key| guarded(|| store.get(key).map_err(said))).collect(),
            Err(refusal) => vec![Err(refusal); keys.len()],
        }
    }

    fn lookups(&self) -> usize {
        500
    }

    fn count(&self, pool: &Path) -> Answer<u64> {
        guarded(|| open(pool)?.count_proven().map_err(said))
    }

    fn check(&self, pool: &Path) -> Answer<bool> {
        guarded(|| {
            let view = map_unchecked(pool, &OpenOptions::new(Access::ReadOnly)).map_err(said)?;
            let report = check_pool(Arc::new(view), &[&LAYOUT]);
            Ok(report.worst() == Some(Severity::Damage) || report.omitted > 0)
        })
    }

    fn repair(&self, pool: &Path) -> Answer<Repaired> {
        guarded(|| {
            let options =
                OpenOptions { durability: Some(Durability::Line), ..OpenOptions::new(Access::ReadWrite) };
            let (medium, _) = map_to_repair(pool, &options).map_err(said)?;
            let log_epoch = random_log_epoch().map_err(said)?;
            let repair = repair_pool(&Arc::new(medium), log_epoch, &[&LAYOUT]).map_err(said)?;
            let after = &repair.after;
            Ok(Repaired {
                is_damaged: after.worst() == Some(Severity::Damage) || after.omitted > 0,
                lost_transactions: repair.lost_transactions || repair.dirty_shutdown.is_some(),
                lost: repair.lost.into_iter().map(|lost| (lost.after, lost.before)).collect(),
            })
        })
    }
}
