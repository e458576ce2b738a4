//! A pool that threads fill until even the shortest values are refused, and then empty, each time with values of other
//! sizes. Each time must have as much room as the first time with the same sizes.

use super::store::{create, is_full};
use super::{Outcome, Sequence, ensure, expect_ok};
use crate::progress::Progress;
use crate::{Finding, scratch_folder};
use fastrand::Rng;
use lode_kv::Store;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Bytes of the pool.
const SIZE: u64 = 4 << 20;
/// Ranges of the lengths of values; each step uses one.
const MIXES: [Range<usize>; 4] = [0..16, 100..300, 1000..4000, 20_000..60_000];
const THREADS: u64 = 8;
/// Least share, in per cent, of the bytes of a mix's first step that must fit in each later one. The steps of a mix
/// draw the same lengths, until the first value is refused.
const SHARE_MIN: u64 = 85;

pub(super) fn run(sequence: &Sequence, progress: &Progress) -> Outcome {
    let folder = expect_ok("a folder", scratch_folder())?;
    let store = create(&folder.path().join("full.pool"), SIZE)?;
    let mut first = [None; MIXES.len()];
    for number in &sequence.steps {
        let mix = *number as usize % MIXES.len();
        // The number of the mix, not of the step, and one generator for all threads: only steps that store the same
        // values have comparable shares.
        let lens = Mutex::new(sequence.rng(mix as u64));
        progress.thread(0).begin(format_args!("full step {number}: values of {:?} bytes", MIXES[mix]));
        let parts: Vec<_> = thread::scope(|scope| {
            let (store, lens) = (&store, &lens);
            let workers: Vec<_> = (0..THREADS)
                .map(|thread| scope.spawn(move || fill(store, thread, lens, MIXES[mix].clone())))
                .collect();
            workers.into_iter().map(|work| work.join()).collect()
        });
        let (mut bytes, mut keys) = (0, Vec::new());
        for part in parts {
            let (filled, own) = expect_ok("a thread", part.map_err(|_| "it panicked"))??;
            bytes += filled;
            keys.push(own);
        }
        progress.thread(0).begin(format_args!("full step {number}: {bytes} bytes fit, and are deleted"));
        empty(&store, keys)?;
        let least = *first[mix].get_or_insert(bytes) * SHARE_MIN / 100;
        ensure(
            bytes >= least,
            "full",
            format_args!("values of {:?} bytes: {bytes} bytes fit, and {least} are the least", MIXES[mix]),
        )?;
    }
    Ok(())
}

/// Puts keys until the shortest value is refused. `lens` draws the lengths of the values for all threads. Returns the
/// number of bytes, and the keys.
fn fill(
    store: &Store,
    thread: u64,
    lens: &Mutex<Rng>,
    range: Range<usize>,
) -> Result<(u64, Vec<Vec<u8>>), Finding> {
    let (mut bytes, mut keys) = (0, Vec::new());
    let (mut number, mut lens_left) = (0u64, range.clone());
    while !lens_left.is_empty() {
        let key = [thread.to_be_bytes(), number.to_be_bytes()].concat();
        let len = lens.lock().unwrap_or_else(PoisonError::into_inner).usize(lens_left.clone());
        let value = vec![thread as u8; len];
        match store.put(&key, &value) {
            Ok(_) => {
                bytes += (key.len() + value.len()) as u64;
                keys.push(key);
                number += 1;
            }
            // A shorter one may still fit. If the thread ended here, a long value that is drawn early would leave room.
            Err(error) if is_full(&error) => lens_left.end = len,
            Err(error) => return Err(Finding::new("refused", format_args!("filling: {error}"))),
        }
    }
    Ok((bytes, keys))
}

/// Deletes all keys. Each is deleted by a thread that did not put it.
fn empty(store: &Store, keys: Vec<Vec<Vec<u8>>>) -> Outcome {
    thread::scope(|scope| {
        let workers: Vec<_> = keys
            .into_iter()
            .map(|keys| {
                scope.spawn(move || {
                    keys.iter().try_for_each(|key| {
                        let deleted = expect_ok("delete in a full pool", store.delete(key))?;
                        ensure(deleted, "lost", format_args!("{key:?} in a full pool"))
                    })
                })
            })
            .collect();
        workers
            .into_iter()
            .try_for_each(|work| expect_ok("a thread", work.join().map_err(|_| "it panicked"))?)
    })
}
