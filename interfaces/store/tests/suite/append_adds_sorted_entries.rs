//! Appending adds all entries up to the first that is refused, in batches that savepoints take back.

use crate::place::Place;
use lodestone::{Error, Result, TreeDef};

const NUMBERS: TreeDef<u32, String> = TreeDef::new("numbers");
const NAMES: TreeDef<Vec<u8>, u8> = TreeDef::new("names");

fn entries(keys: impl Iterator<Item = u32>) -> impl Iterator<Item = (u32, String)> {
    keys.map(|key| (key, "x".repeat(key as usize % 50)))
}

#[test]
fn batches_follow_each_other() -> Result<()> {
    let place = Place::new();
    let store = place.open();
    for begin in [0, 5_000] {
        assert_eq!(store.write(|tx| tx.tree(NUMBERS)?.append(entries(begin..begin + 5_000)))?, 5_000);
    }
    // Values of 100 KiB fill a batch by their length.
    let large = "x".repeat(100 << 10);
    store.write(|tx| tx.tree(NUMBERS)?.append((10_000..10_010).map(|key| (key, &large))).map(drop))?;
    let found = store.read(|view| view.tree(NUMBERS)?.iter().collect::<Result<Vec<_>>>())?;
    assert!(found.into_iter().eq(entries(0..10_000).chain((10_000..10_010).map(|key| (key, large.clone())))));
    store.close()?;
    place.check(10_010);
    Ok(())
}

#[test]
fn savepoints_take_batches_back() -> Result<()> {
    let place = Place::new();
    let store = place.open();
    store.write(|tx| {
        let numbers = tx.tree(NUMBERS)?;
        numbers.append(entries(0..10))?;
        let savepoint = tx.savepoint();
        numbers.append(entries(10..3_000))?;
        tx.roll_back_to(savepoint)?;
        assert_eq!(numbers.append(entries(10..12))?, 2);
        Ok(())
    })?;
    assert!(
        store
            .read(|view| view.tree(NUMBERS)?.iter().map(|entry| Ok(entry?.0)).collect::<Result<Vec<_>>>())?
            .into_iter()
            .eq(0..12)
    );
    store.close()?;
    place.check(12);
    Ok(())
}

#[test]
fn refused_entry_ends_after_those_before_it() -> Result<()> {
    let place = Place::new();
    let store = place.open();
    let long = vec![b'z'; (64 << 10) + 1];
    let refused: [[&[u8]; 3]; 3] = [[b"a", b"b", b"ab"], [b"c", b"d", b"d"], [b"e", b"f", &long]];
    for (keys, is_expected) in
        refused.iter().zip([Error::is_not_ascending, Error::is_not_ascending, Error::is_invalid_key])
    {
        store.write(|tx| {
            let error = tx.tree(NAMES)?.append(keys.iter().map(|key| (*key, 1))).unwrap_err();
            assert!(is_expected(&error), "{error}");
            assert!(error.to_string().contains("names"), "{error}");
            Ok(())
        })?;
    }
    let found =
        store.read(|view| view.tree(NAMES)?.iter().map(|entry| Ok(entry?.0)).collect::<Result<Vec<_>>>())?;
    assert_eq!(found, [b"a", b"b", b"c", b"d", b"e", b"f"]);
    Ok(())
}
