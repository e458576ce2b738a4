//! Structs and enums of a fixed size are values, and a tree keeps which type.

use crate::place::Place;
use lodestone::{CellValue, Fixed, Result, TreeDef};

#[derive(CellValue, Clone, Copy, Debug, PartialEq)]
struct Place2d {
    x: i32,
    y: i32,
}

#[derive(CellValue, Clone, Copy, Debug, PartialEq)]
struct Sample {
    mass: f64,
    place: Place2d,
    readings: [u16; 4],
    state: State,
}

#[derive(CellValue, Clone, Copy, Debug, PartialEq)]
enum State {
    Dry,
    Wet { since: Option<u32> },
}

mod changed {
    use lodestone::CellValue;

    #[derive(CellValue, Clone, Copy, Debug, PartialEq)]
    pub(super) struct Sample {
        mass: f64,
        place: [i32; 2],
        readings: [u16; 4],
    }
}

#[derive(CellValue, Clone, Copy, Debug, PartialEq)]
#[persist(type_number = 7)]
struct Short {
    word: u32,
}

#[derive(CellValue, Clone, Copy, Debug, PartialEq)]
#[persist(type_number = 7)]
struct Long {
    word: u32,
    more: u32,
}

const SAMPLES: TreeDef<u64, Fixed<Sample>> = TreeDef::new("samples");

#[test]
fn structs_round_trip() -> Result<()> {
    let place = Place::new();
    let store = place.open();
    let sample = |key: i32| Sample {
        mass: f64::from(key),
        place: Place2d { x: key, y: -key },
        readings: [9, 8, 7, 6],
        state: if key % 2 == 0 { State::Dry } else { State::Wet { since: Some(key as u32) } },
    };
    store.write(|tx| {
        let samples = tx.tree(SAMPLES)?;
        samples.append((0..100).map(|key| (key, Fixed(sample(key as i32)))))?;
        samples.update(7, |old| old.map(|Fixed(old)| Fixed(Sample { mass: 0.5, ..old })))?;
        assert!(samples.compare_and_set(8, Some(Fixed(sample(8))), Some(Fixed(sample(80))))?);
        Ok(())
    })?;
    store.close()?;
    let store = place.open();
    let found = store.read(|view| view.tree(SAMPLES)?.iter().collect::<Result<Vec<_>>>())?;
    assert_eq!(found.len(), 100);
    for (key, Fixed(found)) in found {
        let wanted = match key {
            7 => Sample { mass: 0.5, ..sample(7) },
            8 => sample(80),
            _ => sample(key as i32),
        };
        assert_eq!(found, wanted);
    }
    Ok(())
}

#[test]
fn changed_structs_are_refused() -> Result<()> {
    let place = Place::new();
    let store = place.open();
    let sample = Sample { mass: 1.0, place: Place2d { x: 1, y: 2 }, readings: [0; 4], state: State::Dry };
    store.put(SAMPLES, 1, Fixed(sample))?;
    let changed: TreeDef<u64, Fixed<changed::Sample>> = TreeDef::new("samples");
    assert!(store.get(changed, 1).is_err_and(|error| error.is_wrong_type()));

    let (short, long): (TreeDef<u8, Fixed<Short>>, TreeDef<u8, Fixed<Long>>) =
        (TreeDef::new("words"), TreeDef::new("words"));
    store.put(short, 1, Fixed(Short { word: 3 }))?;
    assert!(store.get(long, 1).is_err_and(|error| error.is_malformed()));
    store.put(long, 2, Fixed(Long { word: 3, more: 4 }))?;
    assert_eq!(store.get(long, 2)?, Some(Fixed(Long { word: 3, more: 4 })));
    Ok(())
}
