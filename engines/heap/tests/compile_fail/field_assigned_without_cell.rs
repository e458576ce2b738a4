use lode_heap::{HeapError, PBox, PCell, Persist, TypedTx};

lode_heap::brand!(Mine);

#[derive(Persist)]
#[persist(brand = Mine)]
#[repr(C)]
struct Record {
    number: u64,
    uses: PCell<u64, Mine>,
}

fn assigned(pointer: &PBox<Record, Mine>, tx: &TypedTx<'_, Mine>) -> Result<(), HeapError> {
    let record = pointer.get(tx)?.expect("linked");
    record.number += 5;
    Ok(())
}

fn assigned_new(tx: &TypedTx<'_, Mine>) -> Result<(), HeapError> {
    let record = tx.alloc(Record { number: 1, uses: PCell::new(0) })?;
    record.number = 5;
    Ok(())
}

fn main() {}
