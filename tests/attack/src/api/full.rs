//! A pool that threads fill until all are refused, and then empty, each time with values of other sizes. Each time
//! must have as much room as the first time with the same sizes.

use super::store::{create, is_full};
use super::{Done, Sequence, ensure, must};
use crate::progress::Progress;
use crate::{Finding, scratch};
use fastrand::Rng;
use lode_kv::Store;
use std::ops::Range;
use std::thread;

/// Bytes of the pool.
const SIZE: u64 = 4 << 20;
/// Ranges of the lengths of values; each step uses one.
const MIXES: [Range<usize>; 4] = [0..16, 100..300, 1000..4000, 20_000..60_000];
const THREADS: u64 = 8;
/// Least share, in per cent, of the bytes of a mix's first step that must fit in each later one. A value of the last
/// mix is more than a hundredth of the pool, and each of eight threads ends with a value that did not fit.
const LEAST: u64 = 80;

pub(super) fn run(sequence: &Sequence, progress: &Progress) -> Done {
    let folder = must("a folder", scratch())?;
    let store = create(&folder.path().join("full.pool"), SIZE)?;
    let mut first = [None; MIXES.len()];
    for number in &sequence.steps {
        let mut rng = sequence.rng(*number);
        let mix = *number as usize % MIXES.len();
        progress.thread(0).begin(format_args!("full step {number}: values of {:?} bytes", MIXES[mix]));
        let parts: Vec<_> = thread::scope(|scope| {
            let store = &store;
            let works: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let rng = rng.fork();
                    scope.spawn(move || fill(store, thread, rng, MIXES[mix].clone()))
                })
                .collect();
            works.into_iter().map(|work| work.join()).collect()
        });
        let (mut bytes, mut keys) = (0, Vec::new());
        for part in parts {
            let (filled, own) = must("a thread", part.map_err(|_| "it panicked"))??;
            bytes += filled;
            keys.push(own);
        }
        progress.thread(0).begin(format_args!("full step {number}: {bytes} bytes fit, and are deleted"));
        empty(&store, keys)?;
        let least = *first[mix].get_or_insert(bytes) * LEAST / 100;
        ensure(
            bytes >= least,
            "full",
            format_args!("values of {:?} bytes: {bytes} bytes fit, and {least} are the least", MIXES[mix]),
        )?;
    }
    Ok(())
}

/// Puts keys until one is refused. Returns the number of bytes, and the keys.
fn fill(
    store: &Store,
    thread: u64,
    mut rng: Rng,
    lens: Range<usize>,
) -> Result<(u64, Vec<Vec<u8>>), Finding> {
    let (mut bytes, mut keys) = (0, Vec::new());
    for number in 0u64.. {
        let key = [thread.to_be_bytes(), number.to_be_bytes()].concat();
        let value = vec![thread as u8; rng.usize(lens.clone())];
        match store.put(&key, &value) {
            Ok(_) => bytes += (key.len() + value.len()) as u64,
            Err(error) if is_full(&error) => break,
            Err(error) => return Err(Finding::new("refused", format_args!("filling: {error}"))),
        }
        keys.push(key);
    }
    Ok((bytes, keys))
}

/// Deletes all keys. Each is deleted by a thread that did not put it.
fn empty(store: &Store, keys: Vec<Vec<Vec<u8>>>) -> Done {
    thread::scope(|scope| {
        let works: Vec<_> = keys
            .into_iter()
            .map(|keys| {
                scope.spawn(move || {
                    keys.iter().try_for_each(|key| {
                        let deleted = must("delete in a full pool", store.delete(key))?;
                        ensure(deleted, "lost", format_args!("{key:?} in a full pool"))
                    })
                })
            })
            .collect();
        works.into_iter().try_for_each(|work| must("a thread", work.join().map_err(|_| "it panicked"))?)
    })
}
