use lode_heap::{PCell, Persist};

lode_heap::brand!(Shop);

#[derive(Persist)]
#[persist(brand = Shop)]
#[repr(C)]
struct Item {
    name: PCell<String, Shop>,
}

fn main() {}
