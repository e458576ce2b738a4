//! A store that shrinks keeps its trees, and gives back the space of dropped trees and deleted keys.

use crate::place::Place;
use lodestone::{Result, TreeDef};

const NAMES: [&str; 3] = ["cold", "warm", "hot"];

fn tree(name: &str) -> TreeDef<'_, u32, Vec<u8>> {
    TreeDef::new(name)
}

fn value(key: u32) -> Vec<u8> {
    vec![key as u8; key as usize % 700]
}

#[test]
fn trees_move_to_free_space() -> Result<()> {
    let place = Place::new();
    let store = place.open();
    let size_of_empty = store.size();
    assert!(size_of_empty <= 256 << 10, "an empty store takes {size_of_empty} bytes");
    store.write(|tx| tx.tree(tree("dropped"))?.append((0..4000).map(|key| (key, value(key)))).map(drop))?;
    for name in NAMES {
        store.write(|tx| tx.tree(tree(name))?.append((0..2000).map(|key| (key, value(key)))).map(drop))?;
    }
    assert!(store.write(|tx| tx.drop_tree("dropped"))?);
    store.write(|tx| {
        for name in NAMES {
            let tree = tx.tree(tree(name))?;
            for key in (0..2000).filter(|key| key % 10 != 0) {
                tree.delete(key)?;
            }
        }
        Ok(())
    })?;
    let before = store.size();
    assert!(Place::options().shrink(place.path()).is_err_and(|error| error.is_in_use()));
    store.close()?;
    let size = Place::options().shrink(place.path())?;
    // 600 keys of 350 bytes.
    assert!(size < 1 << 20 && size * 4 < before, "{size} bytes instead of {before}");
    place.check(600);
    let store = place.open();
    assert_eq!(store.size(), size);
    for name in NAMES {
        let found = store.read(|view| view.tree(tree(name))?.iter().collect::<Result<Vec<_>>>())?;
        assert!(found.into_iter().eq((0..2000).step_by(10).map(|key| (key, value(key)))), "{name}");
    }
    // It grows again.
    store.write(|tx| tx.tree(tree("new"))?.append((0..4000).map(|key| (key, value(key)))).map(drop))?;
    store.close()?;
    place.check(4600);
    assert!(
        Place::options().shrink(place.path().with_extension("none")).is_err_and(|error| error.is_not_found())
    );
    Ok(())
}
