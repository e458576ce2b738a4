use lode_heap::{PCell, Persist};

lode_heap::brand!(Shop);

#[derive(Persist)]
#[persist(brand = Shop)]
#[repr(C)]
struct Item {
    due: Option<u64>,
    size: (u32, u32),
    count: PCell<u64, Shop>,
}

fn main() {}
