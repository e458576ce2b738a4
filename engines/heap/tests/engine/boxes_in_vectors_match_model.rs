//! A vector of boxes owns its elements: it gives them back as they were put in, frees them once, and moves none.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::pool::{Medium, Pool};
use lode_heap::{HeapError, Migrate, PBox, PCell, PString, PVec, Persist, TypedHeap};
use lode_layout::PoolOffset;
use lode_pmem::Medium as _;
use std::mem::offset_of;
use std::thread;

lode_heap::brand!(Stock);
lode_heap::brand!(Shared);
lode_heap::brand!(Damaged);
lode_heap::brand!(Changed);

/// An item that owns text, a vector of text, and items like itself.
#[derive(Persist)]
#[persist(brand = Stock)]
#[repr(C)]
struct Item {
    number: u64,
    name: PString<Stock>,
    tags: PVec<PBox<PString<Stock>, Stock>, Stock>,
    parts: PVec<PBox<Item, Stock>, Stock>,
}

#[derive(Persist)]
#[persist(brand = Stock)]
#[repr(C)]
struct Shop {
    items: PVec<PBox<Item, Stock>, Stock>,
}

/// The item as the process has it.
#[derive(Clone, Debug, PartialEq)]
struct Model {
    number: u64,
    name: String,
    tags: Vec<String>,
    parts: Vec<Model>,
}

impl Model {
    fn random(random: &mut fastrand::Rng, levels: u8) -> Model {
        let text = |random: &mut fastrand::Rng| "x".repeat(random.usize(..40));
        let parts = if levels == 0 { 0 } else { random.usize(..4) };
        Model {
            number: random.u64(..),
            name: text(random),
            tags: (0..random.usize(..4)).map(|_| text(random)).collect(),
            parts: (0..parts).map(|_| Model::random(random, levels - 1)).collect(),
        }
    }

    /// Number of objects that it takes: its own, those of its texts with their buffers, and those of its parts.
    fn objects(&self) -> usize {
        let text = |text: &str| usize::from(!text.is_empty());
        let tags: usize = self.tags.iter().map(|tag| 1 + text(tag)).sum();
        let parts: usize = self.parts.iter().map(Model::objects).sum();
        let buffers = usize::from(!self.tags.is_empty()) + usize::from(!self.parts.is_empty());
        1 + text(&self.name) + buffers + tags + parts
    }
}

type Tx<'a> = lode_heap::TypedTx<'a, Stock, Medium>;
type Owned<'a> = lode_heap::Owned<'a, Item, Stock, Medium>;

fn make<'t>(tx: &'t Tx<'_>, model: &Model) -> Result<Owned<'t>, HeapError> {
    let Model { number, .. } = *model;
    let item = tx.alloc(Item { number, name: PString::new(), tags: PVec::new(), parts: PVec::new() })?;
    item.name.set(tx, &model.name)?;
    for tag in &model.tags {
        item.tags.push(tx, tx.alloc(PString::new())?)?.set(tx, tag)?;
    }
    for part in &model.parts {
        item.parts.push(tx, make(tx, part)?)?;
    }
    Ok(item)
}

fn seen(tx: &Tx<'_>, item: &Item) -> Result<Model, HeapError> {
    let tags = item.tags.to_vec(tx)?.into_iter().map(|tag| tag.get(tx)).collect::<Result<_, _>>()?;
    let parts = item.parts.to_vec(tx)?.into_iter().map(|part| seen(tx, part)).collect::<Result<_, _>>()?;
    Ok(Model { number: item.number, name: item.name.get(tx)?, tags, parts })
}

fn loaded(guard: &lode_heap::Guard<'_, Stock, Medium>, item: &Item) -> Result<Model, HeapError> {
    let tags = item.tags.load_all(guard)?.into_iter().map(|tag| tag.load(guard)).collect::<Result<_, _>>()?;
    let parts: Vec<&Item> = item.parts.load_all(guard)?;
    let parts = parts.into_iter().map(|part| loaded(guard, part)).collect::<Result<_, _>>()?;
    Ok(Model { number: item.number, name: item.name.load(guard)?, tags, parts })
}

/// Changes the vector and its model in the same way, at random.
fn change(
    heap: &TypedHeap<Stock, Medium>,
    shop: &Shop,
    model: &mut Vec<Model>,
    random: &mut fastrand::Rng,
) -> Result<(), HeapError> {
    let mut after = model.clone();
    let gives_up = random.u8(..8) == 0;
    let items = &shop.items;
    let changed = heap.run(|tx| {
        after.clone_from(model);
        for _ in 0..random.u8(1..6) {
            let new = Model::random(random, 1);
            let index = random.usize(..after.len() + 2);
            let at = index as u64;
            let is_there = index < after.len();
            match random.u8(..12) {
                0..4 => {
                    let pushed = items.push(tx, make(tx, &new)?)?;
                    assert_eq!(seen(tx, pushed)?, new);
                    after.push(new);
                }
                4 => {
                    let old = items.replace(tx, at, make(tx, &new)?)?;
                    let old = old.map(|old| seen(tx, &old)).transpose()?;
                    assert_eq!(old, is_there.then(|| std::mem::replace(&mut after[index], new)));
                }
                5 => {
                    let popped = items.pop(tx)?.map(|item| seen(tx, &item)).transpose()?;
                    assert_eq!(popped, after.pop());
                }
                6 => {
                    let removed = items.remove(tx, at)?.map(|item| seen(tx, &item)).transpose()?;
                    assert_eq!(removed, is_there.then(|| after.remove(index)));
                }
                7 => {
                    let removed = items.swap_remove(tx, at)?.map(|item| seen(tx, &item)).transpose()?;
                    assert_eq!(removed, is_there.then(|| after.swap_remove(index)));
                }
                8 => {
                    items.truncate(tx, at)?;
                    after.truncate(index);
                }
                // From one vector to another, without a copy.
                9 if is_there && after.len() > 1 => {
                    let taken = items.remove(tx, at)?.unwrap();
                    let model = after.remove(index);
                    let owner = items.get(tx, after.len() as u64 - 1)?.unwrap();
                    owner.parts.push(tx, taken)?;
                    after.last_mut().unwrap().parts.push(model);
                }
                _ => {
                    let found = items.get(tx, at)?.map(|item| seen(tx, item)).transpose()?;
                    assert_eq!(found.as_ref(), after.get(index));
                }
            }
            assert_eq!(items.len(tx)?, after.len() as u64);
        }
        if gives_up { Err(HeapError::NeverValid { restarts: 0 }) } else { Ok(()) }
    });
    match changed {
        Ok(()) => *model = after,
        Err(HeapError::NeverValid { .. }) if gives_up => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

#[test]
fn vector_matches_model_and_leaks_nothing() {
    let mut pool = Pool::new(4 << 20);
    let mut random = fastrand::Rng::with_seed(11);
    let mut model: Vec<Model> = Vec::new();
    for _ in 0..20 {
        let heap = pool.typed::<Stock>();
        let shop = heap.root_or_init(|_| Ok(Shop { items: PVec::new() })).unwrap();
        for _ in 0..40 {
            change(&heap, shop, &mut model, &mut random).unwrap();
        }
        let guard = heap.guard();
        let items = shop.items.load_all(&guard).unwrap();
        let found: Vec<Model> = items.into_iter().map(|item| loaded(&guard, item).unwrap()).collect();
        assert_eq!(found, model);
        assert_eq!(shop.items.load_len(&guard), model.len() as u64);
        for index in 0..model.len() + 2 {
            let item = shop.items.load(&guard, index as u64).unwrap();
            assert_eq!(item.map(|item| loaded(&guard, item).unwrap()).as_ref(), model.get(index));
        }
    }
    let heap = pool.typed::<Stock>();
    let shop = heap.root::<Shop>().unwrap().unwrap();
    heap.run(|tx| shop.items.clear(tx)).unwrap();
    let objects = || heap.objects().count();
    assert_eq!(objects(), 3, "the root, the root object and its types");
    // An object that owns vectors is freed with all that these own, also what the transaction has just put in.
    let item = Model::random(&mut random, 3);
    heap.run(|tx| {
        let owned = make(tx, &item)?;
        assert_eq!(seen(tx, &owned)?, item);
        owned.free()
    })
    .unwrap();
    assert_eq!(objects(), 3);
    heap.run(|tx| shop.items.push(tx, make(tx, &item)?).map(drop)).unwrap();
    assert_eq!(objects(), 3 + 1 + item.objects());
    heap.run(|tx| shop.items.pop(tx).map(drop)).unwrap();
    assert_eq!(objects(), 3 + 1, "the buffer is left");
}

#[derive(Persist)]
#[persist(brand = Shared)]
#[repr(C)]
struct Work {
    waiting: PVec<PBox<PCell<u64, Shared>, Shared>, Shared>,
    done: PVec<PBox<PCell<u64, Shared>, Shared>, Shared>,
}

/// Two threads move objects from one vector to the other, and a reader looks on: none is lost, and none is there twice.
#[test]
fn threads_move_each_element_once() {
    const COUNT: u64 = 1000;
    let mut pool = Pool::new(4 << 20);
    let heap = pool.typed::<Shared>();
    let work = heap.root_or_init(|_| Ok(Work { waiting: PVec::new(), done: PVec::new() })).unwrap();
    heap.run(|tx| {
        let push = |number| work.waiting.push(tx, tx.alloc(PCell::new(number))?).map(drop);
        (0..COUNT).try_for_each(push)
    })
    .unwrap();
    let move_all = || {
        while heap
            .run(|tx| {
                let Some(owned) = work.waiting.pop(tx)? else { return Ok(false) };
                owned.set(tx, owned.get(tx)? + COUNT)?;
                work.done.push(tx, owned)?;
                Ok(true)
            })
            .unwrap()
        {}
    };
    thread::scope(|scope| {
        let movers = [scope.spawn(move_all), scope.spawn(move_all)];
        while movers.iter().any(|mover| !mover.is_finished()) {
            let guard = heap.guard();
            for done in work.done.load_all(&guard).unwrap() {
                assert!(done.load(&guard).unwrap() >= COUNT);
            }
            let all = heap.run(|tx| Ok(work.waiting.len(tx)? + work.done.len(tx)?));
            assert_eq!(all, Ok(COUNT));
        }
    });
    let guard = heap.guard();
    let mut done: Vec<u64> =
        work.done.load_all(&guard).unwrap().into_iter().map(|done| done.load(&guard).unwrap()).collect();
    done.sort_unstable();
    assert_eq!(done, (COUNT..2 * COUNT).collect::<Vec<_>>());
    assert_eq!(
        heap.objects().count() as u64,
        COUNT + 5,
        "the root, two buffers, the root object and its types"
    );
}

#[derive(Persist)]
#[persist(brand = Damaged)]
#[repr(C)]
struct Texts {
    texts: PVec<PBox<PString<Damaged>, Damaged>, Damaged>,
}

#[test]
fn damaged_vectors_are_errors() {
    let mut pool = Pool::new(1 << 20);
    let heap = pool.typed::<Damaged>();
    let root = heap.root_or_init(|_| Ok(Texts { texts: PVec::new() })).unwrap();
    let push = |tx: &lode_heap::TypedTx<'_, Damaged, Medium>| {
        root.texts.push(tx, tx.alloc(PString::new())?).map(drop)
    };
    heap.run(|tx| (0..3).try_for_each(|_| push(tx))).unwrap();
    let number = <Texts as Persist<Damaged>>::TYPE_NUMBER;
    let at =
        heap.objects().find(|object| object.as_ref().unwrap().type_number == number).unwrap().unwrap().at;
    let [buffer, len] = [0, 8].map(|word| at.plus(offset_of!(Texts, texts) as u64 + word));
    let load8 = |at| pool.medium().memory().reading(|memory| memory.load8(at)).unwrap();
    let buffer = PoolOffset::new(load8(buffer));
    let is_damage = |error: HeapError| assert!(error.is_damage(), "{error}");
    for length in [1 << 20, u64::MAX] {
        pool.medium().store8(len, length);
        is_damage(root.texts.load_all(&heap.guard()).err().unwrap());
        is_damage(heap.run(|tx| root.texts.to_vec(tx).map(drop)).err().unwrap());
        is_damage(heap.run(push).err().unwrap());
        is_damage(heap.run(|tx| root.texts.pop(tx).map(drop)).err().unwrap());
        is_damage(heap.run(|tx| root.texts.remove(tx, 0).map(drop)).err().unwrap());
        is_damage(heap.run(|tx| root.texts.truncate(tx, 1)).err().unwrap());
        is_damage(heap.run(|tx| root.texts.clear(tx)).err().unwrap());
    }
    pool.medium().store8(len, 3);
    // Elements that lead to nothing, out of the pool, and into an object.
    let sound = load8(buffer);
    for word in [0, u64::MAX - 7, sound + 8] {
        pool.medium().store8(buffer, word);
        is_damage(heap.run(|tx| root.texts.clear(tx)).err().unwrap());
        if word != sound + 8 {
            is_damage(root.texts.load(&heap.guard(), 0).err().unwrap());
            is_damage(heap.run(|tx| root.texts.get(tx, 0).map(drop)).err().unwrap());
            is_damage(heap.run(|tx| root.texts.swap_remove(tx, 0).map(drop)).err().unwrap());
        }
        assert!(root.texts.load(&heap.guard(), 1).unwrap().is_some(), "the others are as they were");
    }
    pool.medium().store8(buffer, sound);
    heap.run(|tx| root.texts.clear(tx)).unwrap();
    assert_eq!(heap.objects().count(), 3);
}

mod before {
    use super::{Changed, PBox, PString, PVec, Persist};

    #[derive(Persist)]
    #[persist(brand = Changed)]
    #[repr(C)]
    pub(super) struct Entry {
        pub(super) text: PString<Changed>,
        pub(super) entries: PVec<PBox<Entry, Changed>, Changed>,
        pub(super) dropped: PVec<PBox<Entry, Changed>, Changed>,
    }
}

#[derive(Persist)]
#[persist(brand = Changed, was = EntryV1)]
#[repr(C)]
struct Entry {
    read: PCell<bool, Changed>,
    entries: PVec<PBox<Entry, Changed>, Changed>,
    text: PString<Changed>,
}

#[derive(Persist)]
#[persist(brand = Changed, name = "Entry")]
#[repr(C)]
struct EntryV1 {
    text: PString<Changed>,
    entries: PVec<PBox<Entry, Changed>, Changed>,
    dropped: PVec<PBox<Entry, Changed>, Changed>,
}

impl Migrate<EntryV1> for Entry {
    fn migrate(old: EntryV1) -> Result<Entry, HeapError> {
        Ok(Entry { read: PCell::new(true), entries: old.entries, text: old.text })
    }
}

/// Elements become new objects in their places, and what a conversion leaves behind is freed, its older elements, too.
#[test]
fn elements_are_migrated() {
    for pointers in [1, 3, u64::MAX] {
        let mut pool = Pool::new(1 << 20);
        let old = pool.typed::<Changed>();
        let entry = || before::Entry { text: PString::new(), entries: PVec::new(), dropped: PVec::new() };
        let root = old.root_or_init(|_| Ok(entry())).unwrap();
        old.run(|tx| {
            for number in 0..10 {
                let one = root.entries.push(tx, tx.alloc(entry())?)?;
                one.text.set(tx, &format!("entry {number}"))?;
                one.entries.push(tx, tx.alloc(entry())?)?.text.set(tx, "inner")?;
                let left = root.dropped.push(tx, tx.alloc(entry())?)?;
                left.entries.push(tx, tx.alloc(entry())?)?.text.set(tx, "left behind")?;
            }
            Ok(())
        })
        .unwrap();
        drop(old);
        let mut heap = pool.typed::<Changed>();
        let migrated = heap.migrate_in_steps::<Entry>(pointers, &mut |_| ()).unwrap();
        assert_eq!(migrated.converted, 21, "those that are kept");
        let (root, guard) = (heap.root::<Entry>().unwrap().unwrap(), heap.guard());
        let entries = root.entries.load_all(&guard).unwrap();
        for (number, one) in entries.iter().enumerate() {
            assert_eq!(one.text.load(&guard), Ok(format!("entry {number}")));
            assert_eq!(one.read.load(&guard), Ok(true));
            let inner = one.entries.load_all(&guard).unwrap();
            assert_eq!((inner.len(), inner[0].text.load(&guard)), (1, Ok("inner".into())));
        }
        assert_eq!(entries.len(), 10);
        // Each entry with its text, ten vectors of one, and the vector of ten; the root, the root object and its types.
        assert_eq!(heap.objects().count(), 2 * 20 + 10 + 1 + 3);
    }
}
