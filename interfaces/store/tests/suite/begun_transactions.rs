//! A transaction that is begun commits, reports its conflict, or changes nothing.

use crate::place::Place;
use lodestone::TreeDef;

const NUMBERS: TreeDef<u8, u64> = TreeDef::new("numbers");
const SUMS: TreeDef<u8, u64> = TreeDef::new("sums");

#[test]
fn commit_returns_conflict() {
    let place = Place::new();
    let store = place.open();
    store.put(NUMBERS, 1, 10).unwrap();
    store.put(SUMS, 1, 0).unwrap();
    let begin = || {
        let tx = store.begin().unwrap();
        let number = tx.tree(NUMBERS).unwrap().get(1).unwrap().unwrap();
        tx.tree(SUMS).unwrap().put(2, number + 1).unwrap();
        tx
    };
    let tx = begin();
    std::thread::scope(|scope| {
        scope.spawn(|| store.put(NUMBERS, 1, 20).unwrap());
    });
    let error = tx.commit().unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert_eq!(store.get(SUMS, 2).unwrap(), None);
    // The next attempt succeeds.
    begin().commit().unwrap();
    assert_eq!(store.get(SUMS, 2).unwrap(), Some(21));
}

#[test]
fn dropped_transaction_changes_nothing() {
    let place = Place::new();
    let store = place.open();
    store.put(NUMBERS, 1, 10).unwrap();
    let tx = store.begin().unwrap();
    tx.tree(NUMBERS).unwrap().put(1, 20).unwrap();
    tx.tree(TreeDef::<u8, u64>::new("others")).unwrap().put(1, 20).unwrap();
    drop(tx);
    assert_eq!(store.get(NUMBERS, 1).unwrap(), Some(10));
    assert_eq!(store.snapshot().unwrap().tree_names().unwrap(), ["numbers"]);
    store.close().unwrap();
    place.check(1);
}

#[test]
fn operations_that_are_no_part_of_transaction_are_refused() {
    let place = Place::new();
    let store = place.open();
    let refused = |what: &str, is_refused: bool| assert!(is_refused, "{what} inside of a transaction");
    let tx = store.begin().unwrap();
    refused("write", store.write(|_| Ok(())).is_err_and(|error| error.is_in_transaction()));
    refused("begin", store.begin().is_err_and(|error| error.is_in_transaction()));
    refused("snapshot", store.snapshot().is_err_and(|error| error.is_in_transaction()));
    refused("get", store.get(NUMBERS, 1).is_err_and(|error| error.is_in_transaction()));
    drop(tx);
    store
        .write(|_| {
            refused("put", store.put(NUMBERS, 1, 1).is_err_and(|error| error.is_in_transaction()));
            Ok(())
        })
        .unwrap();
    store.put(NUMBERS, 1, 1).unwrap();
}
