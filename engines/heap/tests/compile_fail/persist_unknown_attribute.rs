use lode_heap::Persist;

#[derive(Persist)]
#[persist(krate = "elsewhere")]
#[repr(C)]
struct Misspelt {
    word: u64,
}

#[derive(Persist)]
#[persist(crate = "no path")]
#[repr(C)]
struct NoPath {
    word: u64,
}

fn main() {}
