use lode_heap::Persist;

#[derive(Persist)]
#[repr(C)]
struct Record<T> {
    number: T,
}

fn main() {}
