use lode_heap::Persist;

#[derive(Persist)]
#[repr(C)]
struct Record {
    number: u64,
    other: &'static u64,
}

fn main() {}
