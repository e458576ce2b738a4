use lode_heap::{PBox, Persist};

lode_heap::brand!(Mine);
lode_heap::brand!(Other);

#[derive(Persist)]
#[persist(brand = Mine)]
#[repr(C)]
struct Record {
    pointer: PBox<u64, Other>,
}

fn main() {}
