//! Concurrent threads, each with its own keys and a model of them, and one key that all share.

use super::heap::check;
use super::pairs::{Model, compare};
use super::store::{create, is_full, open};
use super::{Outcome, Sequence, ensure, expect_ok, log_uniform};
use crate::progress::{Progress, StepRecorder};
use crate::{Finding, scratch_folder};
use fastrand::Rng;
use lode_kv::Store;
use std::thread;

const SIZE: u64 = 8 << 20;
/// The key of a number to which all threads add.
const SHARED: &[u8] = b"shared";
/// Changes that a thread makes in each step.
const CHANGES: usize = 60;
/// Number of keys of a thread.
const KEYS: u16 = 60;

/// The result of one thread.
struct ThreadResult {
    model: Model,
    added: u64,
}

pub(super) fn run(sequence: &Sequence, progress: &Progress) -> Outcome {
    let folder = expect_ok("a folder", scratch_folder())?;
    let path = folder.path().join("threads.pool");
    let mut store = create(&path, SIZE)?;
    let (mut model, mut sum) = (Model::new(), 0);
    for number in &sequence.steps {
        let mut rng = sequence.rng(*number);
        // Some steps have more threads than the first table of readers has slots.
        let threads = if rng.u8(..8) == 0 { 160 } else { rng.u64(1..=8) };
        let readers = [0, 0, 1, 1, 50][rng.usize(..5)];
        let changes = if threads > 8 { CHANGES / 20 } else { CHANGES };
        progress
            .thread(0)
            .begin(format_args!("threads step {number}: {threads} threads, {readers} readers each"));
        let held = if threads > 8 { 1 } else { readers };
        let parts: Vec<ThreadResult> = thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|thread| {
                    let own = own_keys(&model, thread);
                    let (store, rng) = (&store, sequence.rng(number.wrapping_mul(1000) + thread + 1));
                    let mut steps = progress.thread(1 + thread);
                    scope.spawn(move || work(store, thread, own, rng, changes, held, &mut steps))
                })
                .collect();
            let results: Vec<_> = workers.into_iter().map(|work| work.join()).collect();
            results
                .into_iter()
                .map(|result| expect_ok("a thread", result.map_err(|_| "it panicked"))?)
                .collect::<Result<Vec<ThreadResult>, Finding>>()
        })?;
        for (thread, result) in (0u64..).zip(parts) {
            model.retain(|key, _| !is_own(key, thread));
            model.extend(result.model);
            sum += result.added;
        }
        if sum > 0 {
            model.insert(SHARED.to_vec(), sum.to_le_bytes().to_vec());
        }
        compare(&store, &model)?;
        match rng.u8(..3) {
            0 => expect_ok("close", store.close())?,
            1 => drop(store),
            _ => {
                grow(&store, &mut rng)?;
                drop(store);
            }
        }
        check(&path)?;
        store = open(&path)?;
        compare(&store, &model)?;
    }
    Ok(())
}

fn own_prefix(thread: u64) -> Vec<u8> {
    format!("{thread:03}/").into_bytes()
}

fn is_own(key: &[u8], thread: u64) -> bool {
    key.starts_with(&own_prefix(thread))
}

fn own_keys(model: &Model, thread: u64) -> Model {
    let own = model.iter().filter(|(key, _)| is_own(key, thread));
    own.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Grows the pool in two threads at once. Whatever each call returns, the pool must have the larger size afterwards.
fn grow(store: &Store, rng: &mut Rng) -> Outcome {
    let size = store.pool().header().geometry.size();
    if size > 4 * SIZE {
        return Ok(());
    }
    let more: Vec<u64> = (0..2).map(|_| size + (rng.u64(1..32) << 16)).collect();
    thread::scope(|scope| {
        for size in &more {
            // The second call may find a pool larger than it asks for.
            scope.spawn(move || drop(store.pool().grow(*size)));
        }
    });
    let now = store.pool().header().geometry.size();
    let want = more.iter().max().copied().unwrap_or(size);
    ensure(now == want, "grow", format_args!("grown to {more:?} at once, the pool has {now} bytes"))
}

fn work(
    store: &Store,
    thread: u64,
    mut model: Model,
    mut rng: Rng,
    changes: usize,
    readers: usize,
    steps: &mut StepRecorder<'_>,
) -> Result<ThreadResult, Finding> {
    let tree = expect_ok("tree", store.tree())?;
    let mut held: Vec<_> = (0..readers).map(|_| tree.reader()).collect();
    let mut added = 0;
    for change in 0..changes {
        steps.begin(format_args!("change {change} of thread {thread}"));
        let key = [own_prefix(thread), rng.u16(..KEYS).to_be_bytes().to_vec()].concat();
        match rng.u8(..10) {
            0..4 => {
                let value = vec![thread as u8; log_uniform(&mut rng, 2000)];
                match store.put(&key, &value) {
                    Ok(_) => drop(model.insert(key, value)),
                    Err(error) if is_full(&error) => {}
                    Err(error) => return Err(Finding::new("refused", format_args!("put: {error}"))),
                }
            }
            4..6 => {
                let deleted = expect_ok("delete", store.delete(&key))?;
                ensure(deleted == model.remove(&key).is_some(), "answer", format_args!("delete: {deleted}"))?;
            }
            6 => {
                let add = |old: Option<&[u8]>| {
                    let old = old.and_then(|old| old.try_into().ok()).map_or(0, u64::from_le_bytes);
                    Some((old + 1).to_le_bytes().to_vec())
                };
                expect_ok("update", tree.update(SHARED, add))?;
                added += 1;
            }
            7 => scan_own(store, thread, &model)?,
            8 => {
                held.pop();
            }
            _ => {
                let found = expect_ok("get", store.get(&key))?;
                ensure(found.as_ref() == model.get(&key), "answer", format_args!("get of {key:?}"))?;
            }
        }
    }
    Ok(ThreadResult { model, added })
}

fn scan_own(store: &Store, thread: u64, model: &Model) -> Outcome {
    let reader = expect_ok("tree", store.tree())?.reader();
    let mut want = model.iter();
    for entry in reader.prefix(&own_prefix(thread)) {
        let entry = expect_ok("scan", entry)?;
        let value = entry.value.into_vec();
        let same = want.next().is_some_and(|(key, known)| entry.key == *key && value == *known);
        ensure(same, "scan", format_args!("thread {thread} sees another entry at {:?}", entry.key))?;
    }
    ensure(want.next().is_none(), "scan", format_args!("thread {thread} misses keys of its own"))
}
