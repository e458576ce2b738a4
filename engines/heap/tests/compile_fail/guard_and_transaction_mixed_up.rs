use lode_heap::{Guard, HeapError, PCell, TypedTx};

lode_heap::brand!(Mine);

fn stale(cell: &PCell<u64, Mine>, tx: &TypedTx<'_, Mine>) -> Result<u64, HeapError> {
    cell.load(tx)
}

fn outside(cell: &PCell<u64, Mine>, guard: &Guard<'_, Mine>) -> Result<u64, HeapError> {
    cell.get(guard)
}

fn main() {}
