use lode_heap::{HeapError, PBox, PCell, TypedTx};

lode_heap::brand!(Mine);
lode_heap::brand!(Other);

fn store(cell: &PCell<u64, Mine>, tx: &TypedTx<'_, Other>) -> Result<(), HeapError> {
    cell.set(tx, 1)
}

fn link(pointer: &PBox<u64, Mine>, mine: &TypedTx<'_, Mine>, other: &TypedTx<'_, Other>) -> Result<(), HeapError> {
    pointer.set(mine, other.alloc(1)?)
}

fn main() {}
