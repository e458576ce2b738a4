use lode_heap::Persist;

#[derive(Persist)]
#[repr(C)]
struct Record {
    small: u8,
    large: u64,
}

fn main() {}
