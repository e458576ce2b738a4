use lode_heap::Persist;

#[derive(Persist)]
#[repr(C)]
struct Record {
    number: u64,
    other: std::sync::atomic::AtomicU64,
}

fn main() {}
