//! Each error says what failed, in which store and tree, and what to do; its questions tell the kinds apart.

use crate::place::Place;
use lode_heap::{CreateOptions, LayoutName, Pool};
use lodestone::{Durability, Error, Store, TreeDef};

const WORDS: TreeDef<String, u64> = TreeDef::new("words");

#[test]
fn wrong_types_are_refused() {
    let place = Place::new();
    let store = place.open();
    store.put(WORDS, "a", 1).unwrap();
    let error = store.get(TreeDef::<String, i64>::new("words"), "a").unwrap_err();
    assert!(error.is_wrong_type());
    let want = format!(
        "{}: tree \"words\": it maps str to u64, and was opened as one that maps str to i64; open it with its own \
         types, or choose another name",
        place.path().display()
    );
    assert_eq!(error.to_string(), want);
    let other = TreeDef::<(String, u8), u64>::new("words");
    assert!(store.put(other, ("a", 1), 1).is_err_and(|error| error.is_wrong_type()));
    assert!(store.read(|view| view.tree(other).map(drop)).is_err_and(|error| error.is_wrong_type()));
}

#[test]
fn names_and_keys_have_limits() {
    let place = Place::new();
    let store = place.open();
    for name in ["", &"n".repeat(256)] {
        let error = store.put(TreeDef::<u8, u8>::new(name), 1, 1).unwrap_err();
        assert!(error.is_invalid_key(), "{error}");
    }
    let longest = "n".repeat(255);
    store.put(TreeDef::<u8, u8>::new(&longest), 1, 1).unwrap();
    assert_eq!(store.snapshot().unwrap().tree_names().unwrap(), [longest]);
    let error = store.put(WORDS, "k".repeat(65_537), 1).unwrap_err();
    assert!(error.is_invalid_key() && error.tree() == Some("words"), "{error}");
    store.put(WORDS, "k".repeat(65_536), 1).unwrap();
}

#[test]
fn trees_that_do_not_exist_are_reported() {
    let place = Place::new();
    let store = place.open();
    assert!(store.get(WORDS, "a").is_err_and(|error| error.is_no_tree()));
    assert!(!store.delete(WORDS, "a").unwrap(), "nothing is made for a deletion");
    let snapshot = store.snapshot().unwrap();
    assert!(snapshot.get_tree(WORDS).unwrap().is_none());
    assert!(snapshot.tree(WORDS).is_err_and(|error| error.is_no_tree() && error.tree() == Some("words")));
    let made = store.write(|tx| {
        tx.create_tree(WORDS)?;
        tx.create_tree(WORDS).map(drop)
    });
    assert!(made.is_err_and(|error| error.is_tree_exists()));
    assert!(store.snapshot().unwrap().tree_names().unwrap().is_empty());
}

#[test]
fn values_of_other_programs_are_refused() {
    let place = Place::new();
    let store = place.open();
    let ascending = store.write(|tx| tx.tree(WORDS)?.append([("a", 1), ("c", 2), ("b", 3)]));
    assert!(ascending.is_err_and(|error| error.is_not_ascending()));
    let before = store.write(|tx| {
        let words = tx.tree(WORDS)?;
        words.append([("a", 1), ("c", 2)])?;
        words.append([("b", 3)])
    });
    assert!(before.is_err_and(|error| error.is_not_ascending()));
}

#[test]
fn errors_of_opening_are_told_apart() {
    let place = Place::new();
    let options = Place::options();
    assert!(options.open_existing(place.path()).is_err_and(|error| error.is_not_found()));
    assert!(options.open_read_only(place.path()).is_err_and(|error| error.is_not_found()));
    let store = options.create_new(place.path()).unwrap();
    assert!(options.open(place.path()).is_err_and(|error| error.is_in_use()));
    assert!(options.create_new(place.path()).is_err_and(|error| error.is_already_exists()));
    store.put(WORDS, "a", 1).unwrap();
    let snapshot = store.snapshot().unwrap();
    assert!(store.close().is_err_and(|error| error.is_in_use()));
    assert!(options.open(place.path()).is_err_and(|error| error.is_in_use()), "the snapshot has it open");
    assert_eq!(snapshot.tree(WORDS).unwrap().get("a").unwrap(), Some(1));
    drop(snapshot);
    let reader = options.open_read_only(place.path()).unwrap();
    let other_reader: Store = options.open_read_only(place.path()).unwrap();
    assert_eq!((reader.get(WORDS, "a").unwrap(), other_reader.get(WORDS, "b").unwrap()), (Some(1), None));
    assert!(reader.put(WORDS, "a", 2).is_err_and(|error| error.is_read_only()));
    assert!(reader.write(|tx| tx.drop_tree("words")).is_err_and(|error| error.is_read_only()));
    std::fs::write(place.path().with_extension("text"), [b'x'; 100_000]).unwrap();
    let text = options.open(place.path().with_extension("text"));
    assert!(text.is_err_and(|error| error.is_not_a_store()));
}

#[test]
fn ended_snapshot_is_reported() {
    let place = Place::new();
    let store = Place::options().snapshot_memory(64 << 10).open(place.path()).unwrap();
    let change = |value: u64| {
        store.write(|tx| {
            let words = tx.tree(WORDS)?;
            (0..2_000).try_for_each(|key| words.put(key.to_string(), value).map(drop))
        })
    };
    change(1).unwrap();
    let snapshot = store.snapshot().unwrap();
    let words = snapshot.tree(WORDS).unwrap();
    assert_eq!(words.get("7").unwrap(), Some(1));
    change(2).unwrap();
    assert!(words.get("7").is_err_and(|error| error.is_snapshot_ended()));
    let mut entries = words.iter();
    assert!(entries.next().unwrap().is_err_and(|error| error.is_snapshot_ended()));
    assert!(entries.next().is_none());
}

/// What a snapshot keeps back is counted, and free again when it is closed.
#[test]
fn kept_memory_of_snapshots_is_counted() {
    let place = Place::new();
    let store = place.open();
    let change = |value: u64| {
        store.write(|tx| {
            (0..1_000u32).try_for_each(|key| tx.tree(WORDS)?.put(key.to_string(), value).map(drop))
        })
    };
    change(1).unwrap();
    let nothing = store.snapshot_stats();
    assert_eq!((nothing.open, nothing.memory, nothing.space), (0, 0, 0));
    let (first, second) = (store.snapshot().unwrap(), store.snapshot().unwrap());
    change(2).unwrap();
    let kept = store.snapshot_stats();
    assert!(kept.open == 2 && kept.memory > 1_000 * 8 && kept.space == 0, "values change in place: {kept:?}");
    store
        .write(|tx| (0..1_000u32).try_for_each(|key| tx.tree(WORDS)?.delete(key.to_string()).map(drop)))
        .unwrap();
    let freed = store.snapshot_stats();
    assert!(freed.memory > kept.memory && freed.space > 1_000 * 8, "{freed:?}");
    drop((first, second));
    assert_eq!(store.snapshot_stats(), nothing);
}

#[test]
fn errors_of_callers_pass_through() {
    #[derive(Debug, PartialEq)]
    enum Mine {
        Refused,
        Store(bool),
    }
    impl From<Error> for Mine {
        fn from(error: Error) -> Mine {
            Mine::Store(error.is_no_tree())
        }
    }
    let place = Place::new();
    let store = place.open();
    let refused = store.try_write(|tx| {
        tx.tree(WORDS)?.put("a", 1)?;
        Err::<(), _>(Mine::Refused)
    });
    assert_eq!(refused, Err(Mine::Refused));
    assert_eq!(store.try_read(|view| view.tree(WORDS)?.get("a").map_err(Mine::from)), Err(Mine::Store(true)));
}

#[test]
fn pool_without_content_becomes_a_store() {
    let place = Place::new();
    let layout = LayoutName::new("store").unwrap();
    let options = CreateOptions { durability: Some(Durability::None), ..CreateOptions::new(1 << 20, layout) };
    Pool::create(&place.path(), &options).unwrap().close().unwrap();
    let reader = Place::options().open_read_only(place.path()).unwrap();
    assert!(reader.get(WORDS, "a").is_err_and(|error| error.is_no_tree()));
    assert!(reader.snapshot().unwrap().tree_names().unwrap().is_empty());
    drop(reader);
    let store = place.open();
    store.put(WORDS, "a", 1).unwrap();
    store.close().unwrap();
    assert_eq!(place.open().get(WORDS, "a").unwrap(), Some(1));
}

#[test]
fn pool_of_other_layout_is_refused() {
    let place = Place::new();
    let layout = LayoutName::new("kv").unwrap();
    let options = CreateOptions { durability: Some(Durability::None), ..CreateOptions::new(1 << 20, layout) };
    Pool::create(&place.path(), &options).unwrap().close().unwrap();
    let error = Place::options().open(place.path()).unwrap_err();
    assert!(error.is_not_a_store(), "{error}");
}
