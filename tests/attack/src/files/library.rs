//! Use of a pool through the library, in this process.

use crate::files::access::{Failure, Pair, PoolAccess, RepairResult, Response, ScanRequest};
use crate::panic_hook::catch_panic;
use lode_fsck::{check_pool, repair_pool};
use lode_heap::{Durability, random_log_epoch};
use lode_index::prefix_end;
use lode_kv::{LAYOUT, Store};
use lode_pool::{Access, OpenOptions, map_for_repair, map_unchecked};
use std::fmt::Display;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

/// Greatest number of keys of a sample whose absence is proved.
const PROVEN_MAX: usize = 20;

/// Uses a pool through the library, as the program does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Library;

fn error_text(error: impl Display) -> Failure {
    Failure::Error(error.to_string())
}

/// Returns the answer of `ask`. A panic becomes a refusal.
fn without_panic<T>(ask: impl FnOnce() -> Response<T>) -> Response<T> {
    catch_panic(ask).unwrap_or_else(|panic| Err(Failure::Crash(panic)))
}

fn open(pool: &Path) -> Response<Store> {
    Store::open(pool, &OpenOptions::new(Access::ReadOnly)).map_err(error_text)
}

impl PoolAccess for Library {
    fn export(&self, pool: &Path) -> Response<Vec<Pair>> {
        self.scan(pool, &ScanRequest::default())
    }

    fn scan(&self, pool: &Path, request: &ScanRequest) -> Response<Vec<Pair>> {
        without_panic(|| {
            let mut store = open(pool)?;
            let reader = store.tree().map_err(error_text)?.reader();
            let to = match (prefix_end(&request.prefix), request.to.clone()) {
                (Some(end), Some(to)) => Some(end.min(to)),
                (end, to) => end.or(to),
            };
            let from = request.from.clone().unwrap_or_default().max(request.prefix.clone());
            let bounds = (Bound::Included(from), to.map_or(Bound::Unbounded, Bound::Excluded));
            let mut range = reader.range::<Vec<u8>>(bounds);
            let mut pairs = Vec::new();
            while pairs.len() < request.limit.unwrap_or(usize::MAX) {
                let Some(entry) = (if request.reverse { range.next_back() } else { range.next() }) else {
                    break;
                };
                let entry = entry.map_err(error_text)?;
                pairs.push((entry.key, entry.value.into_vec()));
            }
            drop(range);
            drop(reader);
            let all =
                if request.verify { store.count_proven() } else { store.count() }.map_err(error_text)?;
            if request.is_unbounded() && all != pairs.len() as u64 {
                return Err(error_text(format_args!("{} keys, and the tree has counted {all}", pairs.len())));
            }
            Ok(pairs)
        })
    }

    fn get(&self, pool: &Path, keys: &[Vec<u8>], verify: bool) -> Vec<Response<Option<Vec<u8>>>> {
        // A proof that a key is absent reads the whole tree.
        let keys = if verify { &keys[..keys.len().min(PROVEN_MAX)] } else { keys };
        match without_panic(|| open(pool)) {
            Ok(mut store) if verify => {
                keys.iter().map(|key| without_panic(|| store.get_proven(key).map_err(error_text))).collect()
            }
            Ok(store) => {
                keys.iter().map(|key| without_panic(|| store.get(key).map_err(error_text))).collect()
            }
            Err(failure) => vec![Err(failure); keys.len()],
        }
    }

    fn lookups(&self) -> usize {
        500
    }

    fn count(&self, pool: &Path) -> Response<u64> {
        without_panic(|| open(pool)?.count_proven().map_err(error_text))
    }

    fn check(&self, pool: &Path) -> Response<bool> {
        without_panic(|| {
            let view = map_unchecked(pool, &OpenOptions::new(Access::ReadOnly)).map_err(error_text)?;
            let report = check_pool(Arc::new(view), &[&LAYOUT]);
            Ok(report.is_damaged())
        })
    }

    fn repair(&self, pool: &Path) -> Response<RepairResult> {
        without_panic(|| {
            let options =
                OpenOptions { durability: Some(Durability::Line), ..OpenOptions::new(Access::ReadWrite) };
            let (medium, _) = map_for_repair(pool, &options).map_err(error_text)?;
            let log_epoch = random_log_epoch().map_err(error_text)?;
            let repair = repair_pool(&Arc::new(medium), log_epoch, &[&LAYOUT]).map_err(error_text)?;
            Ok(RepairResult {
                is_damaged: repair.after.is_damaged(),
                lost_transactions: repair.lost_transactions || repair.dirty_shutdown.is_some(),
                lost: repair.lost.into_iter().map(|lost| (lost.after, lost.before)).collect(),
            })
        })
    }
}
