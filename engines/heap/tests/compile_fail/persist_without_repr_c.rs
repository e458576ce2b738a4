use lode_heap::Persist;

#[derive(Persist)]
struct Record {
    number: u64,
}

fn main() {}
