//! The tree and the store over it: single changes, many changes in a transaction, scans, pinned readers.

use super::heap::check;
use super::pairs::{Model, compare};
use super::{DELIBERATE_ERROR, Ending, Outcome, Sequence, ensure, expect_ok, log_uniform, read_only};
use crate::panic_hook::{DeliberatePanic, catch_deliberate};
use crate::progress::{Progress, StepRecorder};
use crate::{Finding, scratch_folder};
use fastrand::Rng;
use lode_heap::{Access, CreateOptions, Durability, HeapError, OpenOptions, Tx};
use lode_index::{IndexError, Tree};
use lode_kv::{KvError, Store};
use lode_pmem::Mapping;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

pub(super) const SIZE: u64 = 4 << 20;
const KEYS_MAX: usize = 1500;

/// State in which the last step of a session leaves the pool.
enum SessionEnd {
    Last,
    Close,
    Drop,
    ReadOnly,
}

pub(super) fn run(sequence: &Sequence, progress: &Progress) -> Outcome {
    let folder = expect_ok("a folder", scratch_folder())?;
    let path = folder.path().join("store.pool");
    let mut store = create(&path, SIZE)?;
    let mut model = Model::new();
    let mut steps = sequence.steps.iter();
    let mut recorder = progress.thread(0);
    loop {
        let end = run_session(sequence, &mut steps, &store, &mut model, &mut recorder)?;
        match end {
            SessionEnd::Drop => drop(store),
            _ => expect_ok("close", store.close())?,
        }
        check(&path)?;
        if matches!(end, SessionEnd::ReadOnly) {
            read_only::attack(&path, &model)?;
        }
        store = open(&path)?;
        compare(&store, &model)?;
        if matches!(end, SessionEnd::Last) {
            return Ok(());
        }
    }
}

/// Makes a store on a durability that does not wait for a disk.
pub(super) fn create(path: &Path, size: u64) -> Result<Store, Finding> {
    let options = CreateOptions {
        durability: Some(Durability::Line),
        size_max: None,
        ..CreateOptions::new(size, Store::layout_name())
    };
    expect_ok("create", Store::create(path, &options))
}

pub(super) fn open(path: &Path) -> Result<Store, Finding> {
    let options = OpenOptions { durability: Some(Durability::Line), ..OpenOptions::new(Access::ReadWrite) };
    expect_ok("open", Store::open(path, &options))
}

/// Returns true if the pool, or half of its free space, has no room for a change.
pub(super) fn is_full(error: &KvError) -> bool {
    matches!(error, KvError::Index(error) if is_full_index(error))
}

fn is_full_index(error: &IndexError) -> bool {
    matches!(error, IndexError::Heap(HeapError::OutOfSpace { .. } | HeapError::TooLarge { .. }))
}

fn run_session<'a>(
    sequence: &Sequence,
    steps: &mut impl Iterator<Item = &'a u64>,
    store: &Store,
    model: &mut Model,
    recorder: &mut StepRecorder<'_>,
) -> Result<SessionEnd, Finding> {
    let tree = expect_ok("tree", store.tree())?;
    let mut readers = Vec::new();
    for number in steps {
        let mut rng = sequence.rng(*number);
        let kind = rng.u8(..48);
        recorder.begin(format_args!("store step {number} of kind {kind}, {} readers", readers.len()));
        match kind {
            0..10 => put(store, &mut rng, model)?,
            10..14 => delete(store, &mut rng, model)?,
            14..26 => transaction(store, &tree, &mut rng, model)?,
            26..29 => update(&tree, &mut rng, model)?,
            29..33 => scan(&tree, &mut rng, model)?,
            33..36 => held_value(store, &tree, &mut rng, model)?,
            36 | 37 => {
                let count = [1, 10, 40, 150][rng.usize(..4)];
                readers.extend((0..count).map(|_| tree.reader()));
            }
            38 | 39 => readers.clear(),
            40 => fill(store, &mut rng, model, readers.is_empty())?,
            41 => thread(store, &mut rng, model)?,
            42 => return Ok(SessionEnd::Close),
            43 => return Ok(SessionEnd::Drop),
            44 => return Ok(SessionEnd::ReadOnly),
            _ => lookups(store, &mut rng, model)?,
        }
        if number.is_multiple_of(8) {
            compare(store, model)?;
        }
    }
    compare(store, model)?;
    Ok(SessionEnd::Last)
}

/// Draws a key. Keys have few forms, so that they repeat, share prefixes, and are prefixes of others.
fn key(rng: &mut Rng, model: &Model) -> Vec<u8> {
    if rng.bool()
        && let Some(key) = model.keys().nth(rng.usize(..model.len().max(1)))
    {
        return key.clone();
    }
    match rng.u8(..6) {
        0 => rng.u16(..500).to_be_bytes().to_vec(),
        1 => format!("{}", rng.u16(..2000)).into_bytes(),
        2 => format!("/a/long/way/to/{}/{}", rng.u8(..3), rng.u8(..)).into_bytes(),
        3 => vec![rng.u8(..3); log_uniform(rng, 40)],
        4 => vec![b'l'; log_uniform(rng, 4000)],
        _ => (0..log_uniform(rng, 16)).map(|_| rng.u8(..)).collect(),
    }
}

fn value(rng: &mut Rng) -> Vec<u8> {
    let len = if rng.u8(..20) == 0 { log_uniform(rng, 30_000) } else { log_uniform(rng, 600) };
    super::objects::content(rng, len)
}

fn put(store: &Store, rng: &mut Rng, model: &mut Model) -> Outcome {
    if model.len() >= KEYS_MAX {
        return delete(store, rng, model);
    }
    let (key, value) = (key(rng, model), value(rng));
    match store.put(&key, &value) {
        Ok(replaced) => {
            let before = model.insert(key, value);
            ensure(before.is_some() == replaced, "answer", format_args!("put says replaced: {replaced}"))
        }
        Err(error) if is_full(&error) => Ok(()),
        Err(error) => Err(Finding::new("refused", format_args!("put: {error}"))),
    }
}

fn delete(store: &Store, rng: &mut Rng, model: &mut Model) -> Outcome {
    let key = key(rng, model);
    match store.delete(&key) {
        Ok(deleted) => {
            let before = model.remove(&key);
            ensure(before.is_some() == deleted, "answer", format_args!("delete says {deleted}"))
        }
        Err(error) if is_full(&error) => Ok(()),
        Err(error) => Err(Finding::new("refused", format_args!("delete: {error}"))),
    }
}

type PoolTree<'h> = Tree<'h, Arc<Mapping>>;

/// Makes some changes in one transaction, with lookups that see them.
fn transaction(store: &Store, tree: &PoolTree<'_>, rng: &mut Rng, model: &mut Model) -> Outcome {
    let (ending, count) = (Ending::draw(rng), 1 + rng.usize(..12));
    let choices = rng.fork();
    let (mut next, mut finding, mut rounds) = (model.clone(), Ok(()), 0);
    let result = catch_deliberate(|| {
        store.heap().run(|tx| {
            let mut rng = choices.clone();
            (next, finding) = (model.clone(), Ok(()));
            rounds += 1;
            for step in 0..count {
                if step == count / 2 && matches!(ending, Ending::Nested | Ending::NestedError) {
                    let inner = store.heap().run(|tx| {
                        change(tx, tree, &mut rng, &mut next, &mut finding)?;
                        if ending == Ending::Nested {
                            Ok(())
                        } else {
                            Err(IndexError::Heap(DELIBERATE_ERROR))
                        }
                    });
                    if ending == Ending::Nested {
                        inner?;
                    }
                }
                change(tx, tree, &mut rng, &mut next, &mut finding)?;
            }
            match ending {
                Ending::Error => Err(IndexError::Heap(DELIBERATE_ERROR)),
                Ending::Panic => std::panic::resume_unwind(Box::new(DeliberatePanic)),
                Ending::Restart if rounds == 1 => Err(tx.restart().into()),
                _ => Ok(()),
            }
        })
    });
    finding?;
    match result {
        Some(Ok(())) => {
            ensure(ending.commits(), "committed", format_args!("a transaction that ended by {ending:?}"))?;
            *model = next;
            Ok(())
        }
        Some(Err(error)) if is_full_index(&error) => Ok(()),
        None => Ok(()),
        Some(Err(error)) => {
            ensure(!ending.commits(), "refused", format_args!("a transaction ({ending:?}): {error}"))
        }
    }
}

fn change(
    tx: &Tx<'_, Arc<Mapping>>,
    tree: &PoolTree<'_>,
    rng: &mut Rng,
    next: &mut Model,
    finding: &mut Outcome,
) -> Result<(), IndexError> {
    let key = key(rng, next);
    let holds = match rng.u8(..4) {
        0 => tree.delete_in(tx, &key)? == next.remove(&key).is_some(),
        1 => tree.get_in(tx, &key)?.as_ref() == next.get(&key),
        _ if next.len() < KEYS_MAX => {
            let value = value(rng);
            tree.insert_in(tx, &key, &value)? == next.insert(key, value).is_some()
        }
        _ => true,
    };
    if !holds && finding.is_ok() {
        *finding = Err(Finding::new("answer", "a change inside of a transaction has a wrong answer"));
    }
    Ok(())
}

fn update(tree: &PoolTree<'_>, rng: &mut Rng, model: &mut Model) -> Outcome {
    let (key, new) = (key(rng, model), value(rng));
    let leaves = rng.u8(..4) == 0;
    let mut seen = None;
    let result = tree.update(&key, |old| {
        seen = old.map(<[u8]>::to_vec);
        if leaves { None } else { Some(new.clone()) }
    });
    match result {
        Ok(_) => {
            ensure(seen.as_ref() == model.get(&key), "answer", "update is shown another value")?;
            if !leaves {
                model.insert(key, new);
            }
            Ok(())
        }
        Err(error) if is_full_index(&error) => Ok(()),
        Err(error) => Err(Finding::new("refused", format_args!("update: {error}"))),
    }
}

/// Scans a part of the keys, from both ends.
fn scan(tree: &PoolTree<'_>, rng: &mut Rng, model: &Model) -> Outcome {
    let reader = tree.reader();
    let (mut from, mut to) = (key(rng, model), key(rng, model));
    if from > to {
        std::mem::swap(&mut from, &mut to);
    }
    let bounds = (Bound::Included(from), if rng.bool() { Bound::Excluded(to) } else { Bound::Included(to) });
    if matches!(&bounds, (Bound::Included(from), Bound::Excluded(to)) if from == to) {
        return Ok(());
    }
    let want: Vec<_> = model.range::<Vec<u8>, _>(bounds.clone()).collect();
    let mut range = reader.range::<Vec<u8>>(bounds);
    let (mut front, mut back) = (0, want.len());
    for _ in 0..want.len() {
        let forward = rng.u8(..3) != 0;
        let entry = if forward { range.next() } else { range.next_back() };
        let Some(entry) = entry else { return Err(Finding::new("scan", "a scan ends early")) };
        let entry = expect_ok("scan", entry)?;
        let (key, value) = if forward { want[front] } else { want[back - 1] };
        let found = (entry.key, entry.value.into_vec());
        let place = if forward { front } else { back - 1 };
        ensure(
            found == (key.clone(), value.clone()),
            "scan",
            format_args!(
                "number {place} of {} is {}, not {}",
                want.len(),
                show(&found.0, &found.1),
                show(key, value)
            ),
        )?;
        (front, back) = if forward { (front + 1, back) } else { (front, back - 1) };
    }
    ensure(range.next().is_none() && range.next_back().is_none(), "scan", "a scan does not end")
}

/// Formats a key, and the length of its value.
fn show(key: &[u8], value: &[u8]) -> String {
    format!("{:?}[{}] with {} bytes", &key[..key.len().min(40)], key.len(), value.len())
}

/// Checks that a value that was found stays the same as long as its reader lives.
fn held_value(store: &Store, tree: &PoolTree<'_>, rng: &mut Rng, model: &mut Model) -> Outcome {
    let reader = tree.reader();
    let key = key(rng, model);
    let held = expect_ok("get", reader.get_unchecked(&key))?;
    let want = model.get(&key).cloned();
    for _ in 0..10 {
        put(store, rng, model)?;
        delete(store, rng, model)?;
    }
    let gone = expect_ok("delete", store.delete(&key))?;
    ensure(gone == model.remove(&key).is_some(), "answer", format_args!("delete says {gone}"))?;
    put(store, rng, model)?;
    let found = expect_ok("read", held.map(|value| value.to_vec()).transpose())?;
    ensure(found == want, "changed", "a value changes under its reader")
}

fn lookups(store: &Store, rng: &mut Rng, model: &Model) -> Outcome {
    for _ in 0..20 {
        let key = key(rng, model);
        let found = expect_ok("get", store.get(&key))?;
        ensure(found.as_ref() == model.get(&key), "answer", format_args!("get of {key:?}"))?;
    }
    let count = expect_ok("count", store.count())?;
    ensure(
        count == model.len() as u64,
        "answer",
        format_args!("count says {count}, {} are there", model.len()),
    )
}

/// Fills the pool until it refuses, deletes the new keys, and checks that about as much fits again. In pools this
/// small, the order of allocations decides the lengths of superblocks, which make a difference of up to 15 per cent.
fn fill(store: &Store, rng: &mut Rng, model: &mut Model, can_reuse: bool) -> Outcome {
    let value = value(rng);
    let mut counts = [0u32; 2];
    for count in &mut counts {
        loop {
            let key = [b"fill".to_vec(), count.to_be_bytes().to_vec(), vec![b'f'; 200]].concat();
            match store.put(&key, &value) {
                Ok(_) => *count += 1,
                Err(error) if is_full(&error) => break,
                Err(error) => return Err(Finding::new("refused", format_args!("filling: {error}"))),
            }
        }
        lookups(store, rng, model).or_else(|finding| match &*finding.class {
            // The lookups expect a count of the model's keys only.
            "answer" if finding.what.starts_with("count") => Ok(()),
            _ => Err(finding),
        })?;
        for number in 0..*count {
            let key = [b"fill".to_vec(), number.to_be_bytes().to_vec(), vec![b'f'; 200]].concat();
            let deleted = expect_ok("delete in a full pool", store.delete(&key))?;
            ensure(deleted, "lost", format_args!("key {number} of {count} in a full pool"))?;
        }
    }
    ensure(
        counts[1] * 100 >= counts[0] * 85 || !can_reuse,
        "full",
        format_args!("{} keys with {} bytes fit, then {}", counts[0], value.len(), counts[1]),
    )
}

/// Runs a thread that changes the store, and ends.
fn thread(store: &Store, rng: &mut Rng, model: &mut Model) -> Outcome {
    let mut choices = rng.fork();
    let work = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            for _ in 0..30 {
                put(store, &mut choices, model)?;
                delete(store, &mut choices, model)?;
            }
            Ok(())
        });
        thread.join()
    });
    expect_ok("a thread", work.map_err(|_| "it panicked"))?
}
