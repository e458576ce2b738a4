use lode_heap::{PCell, Persist};

lode_heap::brand!(Shop);

#[derive(Persist)]
#[persist(brand = Shop)]
#[repr(C)]
struct Part {
    hits: PCell<u64, Shop>,
}

#[derive(Persist)]
#[repr(C)]
struct Whole {
    part: Part,
}

fn main() {}
