//! Scans, and the deletion of some words.

use crate::demo::{DemoContext, of_pool};
use crate::failure::Failure;
use lode_index::IndexError;
use lode_kv::{KvError, Store, escape};
use lode_pmem::Counter;
use lode_pool::{Access, OpenOptions};
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// Prefix of the words that are deleted.
const DELETED: &[u8] = b"un";
/// Threads that delete, and share syncs.
const THREADS: usize = 16;
/// Largest number of words that a scan prints.
const SHOWN: usize = 6;

/// Shows some scans, and deletes the words that begin with `un`; returns their number.
pub(super) fn scan_and_delete(context: &DemoContext, path: &Path) -> Result<u64, Failure> {
    let failure = of_pool(path);
    let store = Store::open(path, &OpenOptions::new(Access::ReadWrite)).map_err(&failure)?;
    scans(context, &store).map_err(|error| failure(error.into()))?;
    let before = store.count().map_err(&failure)?;
    let begin = Instant::now();
    let deleted = delete(context, &store).map_err(&failure)?;
    let took = begin.elapsed();
    let after = store.count().map_err(&failure)?;
    store.close().map_err(&failure)?;
    if before - after != deleted {
        return Err(Failure::new("deleting", format!("{before} words less {deleted} are not {after}")));
    }
    let prefix = escape(DELETED);
    context.print(format!(
        "delete --prefix {prefix}: {deleted} words in {:.0} ms; {after} are left",
        took.as_secs_f64() * 1e3
    ));
    Ok(deleted)
}

fn scans(context: &DemoContext, store: &Store) -> Result<(), IndexError> {
    let tree = store.tree()?;
    let reader = tree.reader();
    let show = |what: &str, keys: &mut dyn Iterator<Item = Result<Vec<u8>, IndexError>>| {
        let begin = Instant::now();
        let keys: Vec<Vec<u8>> = keys.collect::<Result<_, _>>()?;
        let took = begin.elapsed();
        let words: Vec<String> = keys.iter().take(SHOWN).map(|key| escape(key)).collect();
        let dots = if keys.len() > SHOWN { " ..." } else { "" };
        context.print(format!(
            "scan {what}: {}{dots} ({} keys, {:.0} µs)",
            words.join(" "),
            keys.len(),
            took.as_secs_f64() * 1e6
        ));
        Ok::<(), IndexError>(())
    };
    show("--prefix magnet", &mut reader.prefix(b"magnet").map(|entry| Ok(entry?.key)))?;
    show("--from lode --to log", &mut reader.range(&b"lode"[..]..&b"log"[..]).map(|entry| Ok(entry?.key)))?;
    show("--from zo --reverse", &mut reader.range(&b"zo"[..]..).rev().map(|entry| Ok(entry?.key)))?;
    Ok(())
}

fn delete(context: &DemoContext, store: &Store) -> Result<u64, KvError> {
    let tree = store.tree()?;
    let keys: Vec<Vec<u8>> =
        tree.reader().prefix(DELETED).map(|entry| Ok(entry?.key)).collect::<Result<_, IndexError>>()?;
    let deleted = Counter::default();
    let failed = Mutex::new(None);
    let until = context.deadline - Duration::from_secs(30);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (keys, deleted, failed) = (&keys, &deleted, &failed);
            scope.spawn(move || {
                for key in keys.iter().skip(thread).step_by(THREADS) {
                    if Instant::now() > until || context.interrupt.is_set() {
                        return;
                    }
                    match store.delete(key) {
                        Ok(was_there) => _ = deleted.add(was_there.into()),
                        Err(error) => {
                            // One error is enough, whichever thread met it.
                            *failed.lock().expect("nothing panics while it is held") = Some(error);
                            return;
                        }
                    }
                }
            });
        }
    });
    match failed.into_inner().expect("nothing panics while it is held") {
        Some(error) => Err(error),
        None => Ok(deleted.get()),
    }
}
