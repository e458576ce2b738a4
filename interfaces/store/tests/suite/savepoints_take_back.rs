//! Rolling back to a savepoint takes back keys and trees, and nothing before it.

use crate::place::Place;
use lodestone::{Result, TreeDef};

const NUMBERS: TreeDef<u8, u64> = TreeDef::new("numbers");
const OTHERS: TreeDef<u8, u64> = TreeDef::new("others");

#[test]
fn savepoints_nest() -> Result<()> {
    let place = Place::new();
    let store = place.open();
    store.put(NUMBERS, 1, 1)?;
    store.write(|tx| {
        let numbers = tx.tree(NUMBERS)?;
        numbers.put(2, 2)?;
        let first = tx.savepoint();
        numbers.put(1, 10)?;
        let second = tx.savepoint();
        numbers.delete(1)?;
        tx.roll_back_to(second)?;
        assert_eq!(numbers.get(1)?, Some(10));
        // A savepoint can be used again.
        numbers.put(3, 3)?;
        tx.roll_back_to(second)?;
        tx.roll_back_to(first)?;
        assert!(tx.roll_back_to(second).is_err_and(|error| error.is_savepoint_gone()));
        numbers.put(4, 4)?;
        Ok(())
    })?;
    let entries = store.read(|view| view.tree(NUMBERS)?.iter().collect::<Result<Vec<_>>>())?;
    assert_eq!(entries, [(1, 1), (2, 2), (4, 4)]);
    Ok(())
}

#[test]
fn trees_come_back() -> Result<()> {
    let place = Place::new();
    let store = place.open();
    store.put(NUMBERS, 1, 1)?;
    store.write(|tx| {
        let numbers = tx.tree(NUMBERS)?;
        let savepoint = tx.savepoint();
        let others = tx.tree(OTHERS)?;
        others.put(5, 5)?;
        tx.drop_tree("numbers")?;
        tx.rename_tree("others", "numbers")?;
        tx.drop_tree("numbers")?;
        tx.tree(NUMBERS)?.put(9, 9)?;
        tx.roll_back_to(savepoint)?;
        assert_eq!(tx.tree_names()?, ["numbers"]);
        assert!(others.get(5).is_err_and(|error| error.is_no_tree()), "its tree was never made");
        assert_eq!((numbers.get(1)?, numbers.count()?), (Some(1), 1));
        Ok(())
    })?;
    store.close()?;
    place.check(1);
    Ok(())
}

#[test]
fn savepoint_of_other_transaction_is_refused() {
    let place = Place::new();
    let store = place.open();
    let savepoint = store.write(|tx| Ok(tx.savepoint())).unwrap();
    let refused = store.write(|tx| {
        tx.savepoint();
        tx.roll_back_to(savepoint)
    });
    assert!(refused.is_err_and(|error| error.is_savepoint_gone()));
}
