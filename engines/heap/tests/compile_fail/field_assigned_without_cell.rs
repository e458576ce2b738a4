use lode_heap::{HeapError, PBox, Persist, TypedTx};

lode_heap::brand!(Mine);

#[derive(Persist)]
#[repr(C)]
struct Record {
    number: u64,
}

fn assigned(pointer: &PBox<Record, Mine>, tx: &TypedTx<'_, Mine>) -> Result<(), HeapError> {
    let record = pointer.get(tx)?.expect("linked");
    record.number = 5;
    Ok(())
}

fn assigned_new(tx: &TypedTx<'_, Mine>) -> Result<(), HeapError> {
    let record = tx.alloc(Record { number: 1 })?;
    record.number = 5;
    Ok(())
}

fn main() {}
