use lode_heap::{PBox, Persist};

lode_heap::brand!(Shop);

#[derive(Persist)]
#[persist(brand = Shop)]
#[repr(C)]
struct Link<T> {
    value: T,
    next: PBox<Link<T>, Shop>,
}

fn persistent<T: Persist<Shop>>() {}

fn main() {
    persistent::<Link<String>>();
}
