use lode_heap::{PCell, Persist};

lode_heap::brand!(Shop);

fn copied(cell: &PCell<[u64; 500], Shop>) {
    let mut bytes = [0; 4000];
    Persist::<Shop>::copy_to(cell, &mut bytes);
}

fn main() {}
