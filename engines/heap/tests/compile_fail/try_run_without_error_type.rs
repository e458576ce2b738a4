use lode_heap::{HeapError, PCell, TypedPool};

lode_heap::brand!(Shop);

fn visit(pool: &TypedPool<Shop>, visits: &PCell<u64, Shop>) -> Result<(), HeapError> {
    pool.try_run(|tx| {
        visits.set(tx, 1)?;
        Ok(())
    })?;
    Ok(())
}

fn main() {}
