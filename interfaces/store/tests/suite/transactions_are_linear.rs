//! The work of a transaction is proportional to its changes: a change costs the same after hundreds of others and after
//! thousands.
//!
//! A child process makes one transaction under valgrind, which counts the instructions that it executes.

use crate::place::Place;
use lode_testing::skip;
use lodestone::typed::{CreateOptions, LayoutName, PCell, PVec, Persist, TypedStore, TypedTransaction};
use lodestone::{Durability, Result, TreeDef};
use std::env;
use std::process::Command;

lodestone::typed::brand!(Shop);

#[derive(Persist)]
#[persist(brand = Shop)]
#[repr(C)]
struct Root {
    counter: PCell<u64, Shop>,
    list: PVec<u64, Shop>,
}

const PAIRS: TreeDef<u64, Vec<u8>> = TreeDef::new("pairs");
const VALUE: [u8; 100] = [7; 100];

/// Changes of a short transaction, and of a long one. Between them lie the limits for the record in the log's ring.
const FEW: u64 = 1000;
const MANY: u64 = 8 * FEW;
/// A change of the long transaction may take so many times the instructions of one of the short transaction. With work for
/// each change before it, it takes many times more.
const MOST: f64 = 1.3;

/// Variables that tell the child process which changes to make, and how many.
const KIND: &str = "LODE_LINEAR_KIND";
const COUNT: &str = "LODE_LINEAR_COUNT";

#[test]
fn puts_are_linear() {
    assert_linear("puts");
}

#[test]
fn deletes_are_linear() {
    assert_linear("deletes");
}

#[test]
fn mixtures_are_linear() {
    assert_linear("mixture");
}

#[test]
fn cells_and_lists_are_linear() {
    assert_linear("typed");
}

fn assert_linear(kind: &str) {
    let Some(empty) = instructions(kind, 0) else {
        return skip("transactions_are_linear", "valgrind is not installed");
    };
    let each = |count: u64| instructions(kind, count).unwrap().saturating_sub(empty) as f64 / count as f64;
    let (few, many) = (each(FEW), each(MANY));
    println!("{kind}: {few:.0} instructions a change in a transaction of {FEW}, {many:.0} in one of {MANY}");
    assert!(few > 100.0, "{kind}: no work");
    assert!(many < MOST * few, "{kind}: {few:.0} instructions a change, then {many:.0}");
}

/// Returns the number of instructions of a child process that makes `count` changes in one transaction; `None` without
/// valgrind.
fn instructions(kind: &str, count: u64) -> Option<u64> {
    let child = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(env::current_exe().unwrap())
        .args(["transactions_are_linear::one_transaction", "--exact", "--ignored", "--test-threads=1"])
        .envs([(KIND, kind.to_owned()), (COUNT, count.to_string())])
        .output()
        .inspect_err(|error| assert_eq!(error.kind(), std::io::ErrorKind::NotFound))
        .ok()?;
    let text = String::from_utf8(child.stderr).unwrap();
    assert!(child.status.success(), "{text}{}", String::from_utf8_lossy(&child.stdout));
    let (_, number) = text.rsplit_once("refs:").unwrap();
    Some(number.trim().replace(',', "").parse().unwrap())
}

#[test]
#[ignore = "the child process of the others"]
fn one_transaction() {
    let count = env::var(COUNT).unwrap().parse().unwrap();
    let place = Place::new();
    // Under valgrind there is no address space to grow in.
    let options = CreateOptions::new(64 << 20, LayoutName::new("shop").unwrap());
    let options = CreateOptions { durability: Some(Durability::None), ..options };
    let store = TypedStore::<Shop>::create(&place.path(), &options).unwrap();
    let shop: &Root = store.root_or_init(|_| Ok(Root { counter: PCell::new(0), list: PVec::new() })).unwrap();
    let kind = env::var(KIND).unwrap();
    let change = match kind.as_str() {
        "puts" => put,
        "deletes" => delete,
        "mixture" => mix,
        _ => change_typed,
    };
    // The tree has its height before.
    let others = if kind == "deletes" { 0..MANY } else { MANY..2 * MANY };
    store.write(|tx| others.clone().try_for_each(|index| put(tx, shop, index))).unwrap();
    store.write(|tx| (0..count).try_for_each(|index| change(tx, shop, index))).unwrap();
}

type Tx<'t> = TypedTransaction<'t, Shop>;

/// Returns a key that is no other number's.
fn key(index: u64) -> u64 {
    index.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn put(tx: &Tx<'_>, _: &Root, index: u64) -> Result<()> {
    tx.tree(PAIRS)?.put(key(index), VALUE).map(drop)
}

fn delete(tx: &Tx<'_>, _: &Root, index: u64) -> Result<()> {
    assert!(tx.tree(PAIRS)?.delete(key(index))?);
    Ok(())
}

/// Puts a key, reads and replaces an older one, and deletes every other.
fn mix(tx: &Tx<'_>, _: &Root, index: u64) -> Result<()> {
    let pairs = tx.tree(PAIRS)?;
    pairs.put(key(index), VALUE)?;
    let older = key((index / 2) | 1);
    if index > 1 {
        assert!(pairs.get(older)?.is_some());
        pairs.put(older, &VALUE[..50])?;
    }
    if index.is_multiple_of(2) {
        pairs.delete(key(index))?;
    }
    Ok(())
}

/// Sets and reads a cell, and pushes twice for each pop.
fn change_typed(tx: &Tx<'_>, shop: &Root, index: u64) -> Result<()> {
    shop.counter.set(tx, shop.counter.get(tx)? + 1)?;
    shop.list.push(tx, index)?;
    if index.is_multiple_of(2) {
        assert_eq!(shop.list.pop(tx)?, Some(index));
    }
    Ok(())
}
