use lode_heap::{CellValue, PBox};

lode_heap::brand!(Shop);

#[derive(CellValue, Clone, Copy)]
struct Link {
    next: PBox<u64, Shop>,
}

fn main() {}
