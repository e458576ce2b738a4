//! Trees, ranges, transactions and snapshots of a store behave as ordered maps do.

use crate::place::Place;
use lode_testing::{scaled, seed};
use lodestone::{Error, ReadTree, Result, Snapshot, Store, Transaction, TreeDef, WriteTree};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

type Model = BTreeMap<String, BTreeMap<i32, Vec<u8>>>;

/// Trees that there may be.
const TREES: usize = 5;

fn def(name: &str) -> TreeDef<'_, i32, Vec<u8>> {
    TreeDef::new(name)
}

fn random_value(random: &mut fastrand::Rng) -> Vec<u8> {
    // Values of up to 8 bytes change in place.
    let len = [0, 3, 8, 8, 40, 300][random.usize(..6)];
    vec![random.u8(..); len]
}

fn random_bounds(random: &mut fastrand::Rng, keys: i32) -> (Bound<i32>, Bound<i32>) {
    let (one, other) = (random.i32(-keys..keys), random.i32(-keys..keys));
    let (least, most) = (one.min(other), one.max(other) + 1);
    let bound = |key: i32, kind: u8| match kind {
        0 => Bound::Included(key),
        1 => Bound::Excluded(key),
        _ => Bound::Unbounded,
    };
    (bound(least, random.u8(..3)), bound(most, random.u8(..3)))
}

/// Takes entries from both ends in a random order, up to `most`, and returns those of the front and those of the back.
fn take_from_both_ends<T>(
    mut entries: impl DoubleEndedIterator<Item = T>,
    most: usize,
    random: &mut fastrand::Rng,
) -> (Vec<T>, Vec<T>) {
    let (mut front, mut back) = (vec![], vec![]);
    let is_forward = [1, 2, 9][random.usize(..3)];
    for _ in 0..most {
        let (entry, taken) = match random.u8(..10) < is_forward {
            true => (entries.next(), &mut front),
            false => (entries.next_back(), &mut back),
        };
        match entry {
            Some(entry) => taken.push(entry),
            None => break,
        }
    }
    (front, back)
}

/// Changes one tree, and its model, in one of many ways.
fn change(
    tree: &WriteTree<'_, i32, Vec<u8>>,
    model: &mut BTreeMap<i32, Vec<u8>>,
    random: &mut fastrand::Rng,
    keys: i32,
) -> Result<()> {
    let (key, value) = (random.i32(-keys..keys), random_value(random));
    match random.u8(..16) {
        0..5 => assert_eq!(tree.put(key, &value)?, model.insert(key, value).is_some()),
        5 => assert_eq!(tree.insert(key, &value)?, model.insert(key, value)),
        6..8 => assert_eq!(tree.delete(key)?, model.remove(&key).is_some()),
        8 => assert_eq!(tree.remove(key)?, model.remove(&key)),
        9 => {
            let longer =
                |old: Option<Vec<u8>>| old.filter(|old| old.len() < 9).map(|old| [&old[..], &[7]].concat());
            let new = longer(model.get(&key).cloned());
            assert_eq!(tree.update(key, longer)?, new);
            match new {
                Some(new) => drop(model.insert(key, new)),
                None => drop(model.remove(&key)),
            }
        }
        10 => {
            let expected = model.get(&key).cloned().filter(|_| random.bool());
            let fits = expected.as_ref() == model.get(&key);
            assert_eq!(tree.compare_and_set(key, expected, Some(&value))?, fits);
            if fits {
                model.insert(key, value);
            }
        }
        11 => {
            let found = tree.entry(key)?.and_modify(|old| old.push(1))?.or_insert(value.clone())?;
            let want = model.entry(key).and_modify(|old| old.push(1)).or_insert(value);
            assert_eq!(&found, want);
        }
        12..14 => {
            for _ in 0..random.u8(1..5) {
                assert_eq!(tree.pop_first()?, model.pop_first());
                assert_eq!(tree.pop_last()?, model.pop_last());
            }
        }
        14 => {
            let bounds = random_bounds(random, keys);
            let is_odd = |key: &i32| key % 2 != 0;
            let most = [usize::MAX, 3][random.usize(..2)];
            let extracted = tree.extract_if(bounds, |key, _| is_odd(key)).take(most);
            let extracted: Vec<(i32, Vec<u8>)> = extracted.collect::<Result<_>>()?;
            let odd = model.range(bounds).filter(|(key, _)| is_odd(key)).take(most);
            let odd: Vec<_> = odd.map(|(key, value)| (*key, value.clone())).collect();
            assert_eq!(extracted, odd);
            odd.iter().for_each(|(key, _)| drop(model.remove(key)));
        }
        _ => {
            let from = model.last_key_value().map_or(0, |(key, _)| key + 1);
            let entries: Vec<_> = (from..from + 3).map(|key| (key, random_value(random))).collect();
            assert_eq!(tree.append(entries.clone())?, 3);
            model.extend(entries);
        }
    }
    Ok(())
}

/// Compares what a transaction sees of one tree with its model.
fn compare_in(
    tree: &WriteTree<'_, i32, Vec<u8>>,
    model: &BTreeMap<i32, Vec<u8>>,
    random: &mut fastrand::Rng,
    keys: i32,
) -> Result<()> {
    let key = random.i32(-keys..keys);
    assert_eq!(tree.get(key)?.as_ref(), model.get(&key));
    assert_eq!(tree.contains(key)?, model.contains_key(&key));
    assert_eq!(tree.count()?, model.len() as u64);
    let own = |(key, value): (&i32, &Vec<u8>)| (*key, value.clone());
    assert_eq!(tree.first()?, model.first_key_value().map(own));
    assert_eq!(tree.last()?, model.last_key_value().map(own));
    let (bounds, seed) = (random_bounds(random, keys), random.u64(..));
    let same = || fastrand::Rng::with_seed(seed);
    let most = [3, 30, usize::MAX][random.usize(..3)];
    let found = take_from_both_ends(tree.range(bounds).map(|entry| entry.unwrap()), most, &mut same());
    assert_eq!(found, take_from_both_ends(model.range(bounds).map(own), most, &mut same()));
    Ok(())
}

/// Compares all that a snapshot shows with what the store held when it was opened.
fn compare(snapshot: &Snapshot, model: &Model, random: &mut fastrand::Rng) {
    assert!(snapshot.tree_names().unwrap().iter().eq(model.keys()));
    for (name, tree) in model {
        let found: ReadTree<i32, Vec<u8>> = snapshot.tree(def(name)).unwrap();
        let own = |(key, value): (&i32, &Vec<u8>)| (*key, value.clone());
        assert_eq!(found.count().unwrap(), tree.len() as u64);
        assert_eq!(found.first().unwrap(), tree.first_key_value().map(own));
        assert_eq!(found.last().unwrap(), tree.last_key_value().map(own));
        let seed = random.u64(..);
        let same = || fastrand::Rng::with_seed(seed);
        let entries = found.iter().map(|entry| entry.unwrap());
        let want = take_from_both_ends(tree.iter().map(own), usize::MAX, &mut same());
        assert_eq!(take_from_both_ends(entries, usize::MAX, &mut same()), want);
        for (key, value) in tree.iter().step_by(5) {
            assert_eq!(found.get(key).unwrap().as_ref(), Some(value));
            assert_eq!(found.get(key + 1).unwrap().as_ref(), tree.get(&(key + 1)));
        }
    }
    assert!(snapshot.tree(def("no tree")).is_err_and(|error| error.is_no_tree()));
}

/// Makes some changes to trees and their keys, with a savepoint now and then.
fn transaction(
    tx: &Transaction<'_>,
    model: &mut Model,
    random: &mut fastrand::Rng,
    keys: i32,
    is_nested: bool,
) -> Result<()> {
    for _ in 0..[1, 3, 30][random.usize(..3)] {
        let name = format!("tree {}", random.usize(..TREES));
        match random.u8(..40) {
            0 => assert_eq!(tx.drop_tree(&name)?, model.remove(&name).is_some()),
            1 => {
                let new = format!("tree {}", random.usize(..TREES));
                let renamed = tx.rename_tree(&name, &new);
                match model.get(&name) {
                    None => assert!(renamed.is_err_and(|error| error.is_no_tree())),
                    Some(_) if model.contains_key(&new) => {
                        assert!(renamed.is_err_and(|error| error.is_tree_exists()));
                    }
                    Some(_) => {
                        renamed?;
                        let tree = model.remove(&name).unwrap();
                        model.insert(new, tree);
                    }
                }
            }
            2 if !is_nested => {
                let (savepoint, mut changed) = (tx.savepoint(), model.clone());
                transaction(tx, &mut changed, random, keys, true)?;
                match random.bool() {
                    true => tx.roll_back_to(savepoint)?,
                    false => *model = changed,
                }
            }
            3 => assert_eq!(tx.get_tree(def(&name))?.is_some(), model.contains_key(&name)),
            _ => {
                let (tree, model) = (tx.tree(def(&name))?, model.entry(name.clone()).or_default());
                change(&tree, model, random, keys)?;
                compare_in(&tree, model, random, keys)?;
            }
        }
    }
    assert!(tx.tree_names()?.iter().eq(model.keys()));
    Ok(())
}

#[test]
fn store_matches_ordered_maps() {
    let place = Place::new();
    let mut random = fastrand::Rng::with_seed(seed(3));
    let mut store: Store = place.open();
    let mut model = Model::new();
    let mut snapshots: VecDeque<(Snapshot, Model)> = VecDeque::new();
    for step in 0..scaled(4_000) {
        let keys = if step / 300 % 2 == 0 { 12 } else { 300 };
        let (fails, is_begun) = (random.u8(..8) == 0, random.u8(..4) == 0);
        let mut changed = model.clone();
        let done = if is_begun {
            let tx = store.begin().unwrap();
            transaction(&tx, &mut changed, &mut random, keys, false).unwrap();
            if fails { Err(Error::other("refused")) } else { tx.commit() }
        } else {
            store.write(|tx| {
                changed = model.clone();
                transaction(tx, &mut changed, &mut random, keys, false)?;
                if fails { Err(Error::other("refused")) } else { Ok(()) }
            })
        };
        match done {
            Ok(()) => model = changed,
            Err(error) => assert!(error.is_other() && fails, "{error}"),
        }
        if let Some((name, tree)) = model.iter().next() {
            let key = random.i32(-keys..keys);
            assert_eq!(store.get(def(name), key).unwrap().as_ref(), tree.get(&key));
        }
        if random.u8(..20) == 0 {
            snapshots.push_back((store.snapshot().unwrap(), model.clone()));
        }
        if (snapshots.len() > 6 || random.u8(..40) == 0)
            && let Some((snapshot, model)) = snapshots.pop_front()
        {
            compare(&snapshot, &model, &mut random);
        }
        if random.u16(..400) == 0 {
            snapshots.drain(..).for_each(|(snapshot, model)| compare(&snapshot, &model, &mut random));
            store.close().unwrap();
            place.check(model.values().map(|tree| tree.len() as u64).sum());
            store = place.open();
        }
    }
    drop((snapshots, store));
    place.check(model.values().map(|tree| tree.len() as u64).sum());
}
