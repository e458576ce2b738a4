use lode_heap::{HeapError, Owned, PString, Persist, TypedTx};

lode_heap::brand!(Shop);

#[derive(Persist)]
#[persist(brand = Shop)]
#[repr(C)]
struct Item {
    name: PString<Shop>,
}

fn named<'t>(tx: &'t TypedTx<'_, Shop>, name: &str) -> Result<Owned<'t, Item, Shop>, HeapError> {
    tx.alloc(Item { name: name.into() })
}

fn main() {}
