//! Calls of trees take what stands for keys and values, and iterate over typed pairs.

use crate::place::Place;
use lodestone::{Error, Result, Transaction, TreeDef};
use std::collections::BTreeSet;

const SAMPLES: TreeDef<(String, i64), Vec<u8>> = TreeDef::new("samples");
const WORDS: TreeDef<String, u64> = TreeDef::new("words");

#[test]
fn tuples_sort_and_have_prefixes() -> Result<()> {
    let place = Place::new();
    let store = place.open();
    store.write(|tx| {
        let samples = tx.tree(SAMPLES)?;
        for site in ["n", "north", "north\0", "south"] {
            for time in [7, -1, 0] {
                samples.put((site, time), site.as_bytes())?;
            }
        }
        let of_north: Vec<_> =
            samples.prefix(("north",)).map(|sample| Ok(sample?.0)).collect::<Result<_>>()?;
        assert_eq!(of_north, [-1, 0, 7].map(|time| ("north".to_owned(), time)));
        let times = samples.range(("north", 0)..=("north", 7)).rev();
        assert_eq!(
            times.map(|sample| sample.map(|((_, time), _)| time)).collect::<Result<Vec<_>>>()?,
            [7, 0]
        );
        assert_eq!(samples.get((String::from("south"), -1))?, Some(b"south".to_vec()));
        assert_eq!(samples.retain(..("north", i64::MIN), |_, _| false)?, 3);
        assert_eq!(samples.count()?, 9);
        Ok(())
    })
}

#[test]
fn scan_shows_changes_of_its_transaction() -> Result<()> {
    let place = Place::new();
    let store = place.open();
    store.write(|tx| {
        let words = tx.tree(WORDS)?;
        for word in ["a", "b", "c", "d", "e", "f", "g"] {
            words.put(word, 1)?;
        }
        let mut seen = vec![];
        for entry in words.iter() {
            let (word, count) = entry?;
            // Removes the next word, and changes the one after it.
            match word.as_str() {
                "a" => drop(words.delete("b")?),
                "c" => drop(words.put("d", 2)?),
                "f" => drop(words.put("ff", 3)?),
                _ => {}
            }
            seen.push((word, count));
        }
        let seen: Vec<_> = seen.iter().map(|(word, count)| (word.as_str(), *count)).collect();
        assert_eq!(seen, [("a", 1), ("c", 1), ("d", 2), ("e", 1), ("f", 1), ("ff", 3), ("g", 1)]);
        let mut both = words.iter();
        assert_eq!(both.next_back().unwrap()?.0, "g");
        words.delete("ff")?;
        assert_eq!(both.next_back().unwrap()?.0, "f");
        assert_eq!(both.next().unwrap()?.0, "a");
        Ok(())
    })
}

#[test]
fn queue_pops_at_both_ends() -> Result<()> {
    let place = Place::new();
    let store = place.open();
    store.write(|tx| tx.tree(WORDS)?.append([("a", 1), ("b", 2), ("c", 3)]))?;
    let popped = store.write(|tx| {
        let words = tx.tree(WORDS)?;
        Ok((words.pop_first()?, words.pop_last()?, words.pop_last()?, words.pop_first()?))
    })?;
    let word = |word: &str, count| Some((word.to_owned(), count));
    assert_eq!(popped, (word("a", 1), word("c", 3), word("b", 2), None));
    Ok(())
}

#[test]
fn pops_see_changes_between_them() -> Result<()> {
    let place = Place::new();
    let numbers: TreeDef<u32, ()> = TreeDef::new("numbers");
    place.open().write(|tx| {
        let (tree, other, mut model) = (tx.tree(numbers)?, tx.tree(numbers)?, BTreeSet::from_iter(10..100));
        tree.append(model.iter().map(|number| (*number, ())))?;
        for round in 0..6 {
            for _ in 0..5 {
                assert_eq!(tree.pop_first()?.map(|entry| entry.0), model.pop_first());
                assert_eq!(tree.pop_last()?.map(|entry| entry.0), model.pop_last());
            }
            match round {
                0 => assert_eq!(tree.put(3, ())?, !model.insert(3)),
                1 => assert_eq!(other.put(200, ())?, !model.insert(200)),
                2 => assert_eq!(other.delete(35)?, model.remove(&35)),
                3 => {
                    let savepoint = tx.savepoint();
                    assert!(tree.pop_first()?.is_some() && tree.pop_last()?.is_some());
                    tx.roll_back_to(savepoint)?;
                }
                _ => {}
            }
        }
        Ok(())
    })
}

const NUMBERS: TreeDef<u32, u32> = TreeDef::new("numbers");

/// Removes some entries from both ends, does something else, and goes on.
fn remove_and_look(tx: &Transaction<'_>, model: &mut BTreeSet<u32>, round: u32) -> Result<()> {
    let (tree, other) = (tx.tree(NUMBERS)?, tx.tree(NUMBERS)?);
    let mut extracted = tree.extract_if(.., |number, _| number % 3 == 0);
    for _ in 0..30 {
        assert!(model.remove(&extracted.next().unwrap()?.0));
        assert!(model.remove(&extracted.next_back().unwrap()?.0));
    }
    match round {
        0 => assert_eq!(other.count()?, model.len() as u64),
        1 => assert!(other.iter().map(|entry| entry.unwrap().0).eq(model.iter().copied())),
        2 => assert_eq!(other.first()?.map(|entry| entry.0), model.first().copied()),
        3 => assert_eq!(other.pop_first()?.map(|entry| entry.0), model.pop_first()),
        4 => assert_eq!(other.retain(.., |number, _| number % 2 == 0)?, {
            let before = model.len();
            model.retain(|number| number % 2 == 0);
            (before - model.len()) as u64
        }),
        5 => assert_eq!(other.put(0, 0)?, !model.insert(0)),
        6 => {
            let savepoint = tx.savepoint();
            assert!(extracted.next().is_some() && other.pop_last()?.is_some());
            tx.roll_back_to(savepoint)?;
        }
        7 => assert!(tx.tree(WORDS)?.get("a")?.is_none()),
        // The removals are the last that the transaction does.
        _ => return Ok(()),
    }
    assert!(model.remove(&extracted.next().unwrap()?.0));
    Ok(())
}

/// Removals are made together, but whatever follows them sees them: reads, scans and changes of all handles, and the commit.
#[test]
fn removals_show_to_what_follows() -> Result<()> {
    let place = Place::new();
    let store = place.open();
    let mut model: BTreeSet<u32> = (0..3000).collect();
    store.write(|tx| tx.tree(NUMBERS)?.append(model.iter().map(|number| (*number, 0))))?;
    for round in 0..=8 {
        if round % 2 == 0 {
            let tx = store.begin()?;
            remove_and_look(&tx, &mut model, round)?;
            tx.commit()?;
        } else {
            store.write(|tx| remove_and_look(tx, &mut model, round))?;
        }
        let numbers = store.snapshot()?.tree(NUMBERS)?;
        assert!(numbers.iter().map(|entry| entry.unwrap().0).eq(model.iter().copied()), "round {round}");
        assert_eq!(numbers.count()?, model.len() as u64);
    }
    store.write(|tx| {
        let tree = tx.tree(NUMBERS)?;
        assert_eq!(tree.pop_first()?.map(|entry| entry.0), model.first().copied());
        tx.drop_tree("numbers")?;
        assert!(tree.pop_first().is_err_and(|error| error.is_no_tree()));
        Ok(())
    })?;
    store.close()?;
    place.check(0);
    Ok(())
}

/// The closure takes entries of the range away that were read with the one that it looks at.
#[test]
fn closure_of_extract_if_may_remove_others() -> Result<()> {
    let place = Place::new();
    let store = place.open();
    store.write(|tx| tx.tree(NUMBERS)?.append((0..100u32).map(|number| (number, 0))))?;
    let (popped, extracted) = store.write(|tx| {
        let (tree, same) = (tx.tree(NUMBERS)?, tx.tree(NUMBERS)?);
        let mut popped = Vec::new();
        let is_extracted = |number: &u32, _: &u32| {
            if number.is_multiple_of(10) && *number < 80 {
                popped.extend(same.pop_last().unwrap().map(|entry| entry.0));
            }
            true
        };
        let extracted = tree.extract_if(.., is_extracted).map(|entry| entry.map(|entry| entry.0));
        let extracted = extracted.collect::<Result<Vec<u32>>>()?;
        Ok::<_, Error>((popped, extracted))
    })?;
    let mut all: Vec<u32> = popped.into_iter().chain(extracted).collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..100), "each entry is handed out once");
    assert_eq!(store.snapshot()?.tree(NUMBERS)?.count()?, 0);
    store.close()?;
    place.check(0);
    Ok(())
}

#[cfg(feature = "serde")]
#[test]
fn json_values_gain_fields() -> Result<()> {
    use lodestone::Json;

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Old {
        name: String,
    }
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct New {
        name: String,
        #[serde(default)]
        mass: u32,
    }
    let place = Place::new();
    let store = place.open();
    store.put(TreeDef::<u8, Json<Old>>::new("stones"), 1, Json(Old { name: "basalt".into() }))?;
    let stones: TreeDef<u8, Json<New>> = TreeDef::new("stones");
    assert_eq!(store.get(stones, 1)?, Some(Json(New { name: "basalt".into(), mass: 0 })));
    let other = TreeDef::<u8, Json<u8>>::new("stones");
    assert!(store.get(other, 1).is_err_and(|error| error.is_malformed()));
    Ok(())
}
