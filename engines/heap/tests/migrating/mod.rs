//! A pool of typed data for the explorer: power is cut while it is migrated, and the migration goes on after that.

use lode_heap::explore::{format_heap, open_heap};
use lode_heap::{HeapError, Migrate, PBox, PCell, PString, Persist, TypedHeap};
use lode_sim::{Actor, HistoryPrefix, SimMedium, Subject};
use std::sync::{Arc, Mutex, PoisonError};

lode_heap::brand!(pub(crate) Explored);

const UUID: [u8; 16] = [7; 16];
/// Number of objects in the list.
const ITEMS: u64 = 5;

/// The program that made the pool.
mod before {
    use super::{Explored, PBox, PCell, PString, Persist};

    #[derive(Persist)]
    #[persist(brand = Explored)]
    #[repr(C)]
    pub(super) struct Item {
        pub(super) number: PCell<u32, Explored>,
        pub(super) note: PBox<PCell<u64, Explored>, Explored>,
        pub(super) name: PString<Explored>,
        pub(super) next: PBox<Item, Explored>,
    }
}

/// An item as it is now: with a larger number, and without a note.
#[derive(Persist)]
#[persist(brand = Explored, was = ItemV1)]
#[repr(C)]
struct Item {
    name: PString<Explored>,
    number: PCell<u64, Explored>,
    total: PCell<u64, Explored>,
    next: PBox<Item, Explored>,
}

#[derive(Persist)]
#[persist(brand = Explored, name = "Item")]
#[repr(C)]
struct ItemV1 {
    number: PCell<u32, Explored>,
    note: PBox<PCell<u64, Explored>, Explored>,
    name: PString<Explored>,
    next: PBox<Item, Explored>,
}

impl Migrate<ItemV1> for Item {
    fn migrate(old: ItemV1) -> Result<Item, HeapError> {
        let number = PCell::new(u64::from(old.number.into_value()?));
        Ok(Item { name: old.name, number, total: PCell::new(9), next: old.next })
    }
}

/// A migration of a heap of `size` bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MigratingSubject {
    /// Length of the medium in bytes.
    pub(crate) size: u64,
    /// True if the conversion leaves an object behind, so that no item is converted in place.
    pub(crate) notes: bool,
}

type Heap = TypedHeap<Explored, Arc<SimMedium>>;

/// What the migrated pool holds: the number and the name of each item, and the number of objects.
type Contents = (Vec<(u64, String)>, usize);

fn expected() -> Contents {
    let items = (0..ITEMS).rev().map(|number| (number, format!("item {number}"))).collect();
    // Each with its name; the root object and the types.
    (items, 2 * ITEMS as usize + 2)
}

impl Subject for MigratingSubject {
    type Engine = Mutex<Heap>;
    type Operation = ();
    type Contents = Contents;
    type Legal = ();
    type Mismatch = String;
    type Error = HeapError;

    fn size(&self) -> u64 {
        self.size
    }

    fn format(&self, medium: Arc<SimMedium>) -> Result<(), HeapError> {
        let heap = Heap::new(format_heap(medium, self.size, UUID)?);
        let item = |number| before::Item {
            number: PCell::new(number as u32),
            note: PBox::null(),
            name: PString::new(),
            next: PBox::null(),
        };
        let root = heap.root_or_init(|_| Ok(item(ITEMS - 1)))?;
        heap.run(|tx| {
            let mut last = root;
            for number in (0..ITEMS).rev() {
                last.name.set(tx, &format!("item {number}"))?;
                if self.notes {
                    last.note.set(tx, tx.alloc(PCell::new(number))?)?;
                }
                if number > 0 {
                    last.next.set(tx, tx.alloc(item(number - 1))?)?;
                    last = last.next.get(tx)?.expect("just set");
                }
            }
            Ok(())
        })?;
        heap.close()
    }

    fn start(&self, medium: Arc<SimMedium>) -> Result<Self::Engine, HeapError> {
        Ok(Mutex::new(Heap::new(open_heap(medium, self.size, UUID, 3)?)))
    }

    fn run(&self, engine: &Self::Engine, actor: &mut Actor<'_, ()>) {
        let ticket = actor.begin(());
        let mut heap = engine.lock().unwrap_or_else(PoisonError::into_inner);
        match heap.migrate_in_steps::<Item>(2, &mut |_| ()) {
            Ok(_) => actor.returned(ticket),
            Err(HeapError::InDoubt(_)) => actor.in_doubt(ticket),
            Err(_) => actor.refused(ticket),
        }
    }

    fn recover(&self, medium: Arc<SimMedium>) -> Result<Contents, HeapError> {
        let mut heap = Heap::new(open_heap(medium, self.size, UUID, 4)?);
        heap.migrate::<Item>(|_| ())?;
        let mut next = heap.root::<Item>()?;
        let guard = heap.guard();
        let mut items = Vec::new();
        while let Some(item) = next {
            assert_eq!(item.total.load(&guard), Ok(9));
            items.push((item.number.load(&guard)?, item.name.load(&guard)?));
            next = item.next.load(&guard)?;
        }
        Ok((items, heap.objects().count()))
    }

    fn legal(&self, _: &HistoryPrefix<()>) {}

    fn check(&self, (): &(), contents: &Contents) -> Result<(), String> {
        let expected = expected();
        match *contents == expected {
            true => Ok(()),
            false => Err(format!("the migrated pool holds {contents:?}, not {expected:?}")),
        }
    }
}
