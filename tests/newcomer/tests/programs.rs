//! Programs with one dependency compile and run.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "../../../interfaces/store/examples/typed_shop.rs"]
mod typed_shop;

use lodestone::typed::{CellValue, HeapError, Migrate, PBox, PCell, PString, PVec, Persist};
use lodestone::{Durability, Fixed, Store, TreeDef};

#[test]
fn typed_pools_need_no_other_crate() {
    typed_shop::main().unwrap();
}

lodestone::typed::brand!(Notes);

#[derive(Persist)]
#[persist(brand = Notes, was = NoteV1)]
#[repr(C)]
struct Note {
    text: PString<Notes>,
    stars: PCell<Option<Stars>, Notes>,
    replies: PVec<PBox<Note, Notes>, Notes>,
}

#[derive(Persist)]
#[persist(brand = Notes, name = "Note")]
#[repr(C)]
struct NoteV1 {
    text: PString<Notes>,
    replies: PVec<PBox<Note, Notes>, Notes>,
}

#[derive(CellValue, Clone, Copy, Debug, PartialEq)]
enum Stars {
    One,
    Many(u8),
}

impl Migrate<NoteV1> for Note {
    fn migrate(old: NoteV1) -> Result<Note, HeapError> {
        Ok(Note { text: old.text, stars: PCell::new(Some(Stars::Many(2))), replies: old.replies })
    }
}

/// The types of the derives are values of a store, too.
#[test]
fn values_of_stores_need_no_other_crate() {
    const STARS: TreeDef<String, Fixed<Stars>> = TreeDef::new("stars");
    let folder = tempfile::tempdir().unwrap();
    let store = Store::options().durability(Durability::None).open(folder.path().join("store")).unwrap();
    store.put(STARS, "a", Fixed(Stars::Many(3))).unwrap();
    let stars = store.get(STARS, "a").unwrap();
    assert_eq!(stars.map(|Fixed(stars)| stars), Some(Stars::Many(3)));
    assert_ne!(Stars::One, Stars::Many(1));
}
