use lode_heap::Persist;

#[derive(Persist)]
#[repr(C)]
struct Record {
    number: u64,
    other: *const u64,
}

fn main() {}
