use lode_heap::{HeapError, PCell, TypedTx};

lode_heap::brand!(Mine);

fn added(uses: &PCell<u64, Mine>, _tx: &TypedTx<'_, Mine>) -> Result<(), HeapError> {
    *uses += 1;
    Ok(())
}

fn compared(uses: &PCell<u64, Mine>, _tx: &TypedTx<'_, Mine>) -> Result<bool, HeapError> {
    Ok(*uses == 0)
}

fn main() {}
