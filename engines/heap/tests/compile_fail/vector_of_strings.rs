use lode_heap::{PCell, PDeque, PString, PVec, Persist};

lode_heap::brand!(Shop);

#[derive(Persist)]
#[persist(brand = Shop)]
#[repr(C)]
struct Names {
    names: PVec<String, Shop>,
    waiting: PDeque<String, Shop>,
    newest: PCell<PString<Shop>, Shop>,
}

fn main() {}
