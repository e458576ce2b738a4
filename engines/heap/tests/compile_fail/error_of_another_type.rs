use lode_heap::{HeapError, PCell, TypedPool};
use std::io;

lode_heap::brand!(Shop);

fn returned(pool: &TypedPool<Shop>, visits: &PCell<u64, Shop>) -> Result<(), HeapError> {
    pool.run(|tx| match visits.get(tx)? {
        0 => Err(io::Error::other("nobody was here")),
        _ => Ok(()),
    })
}

fn converted(pool: &TypedPool<Shop>, visits: &PCell<u64, Shop>) -> Result<(), HeapError> {
    pool.run(|tx| {
        let number: u64 = "seven".parse()?;
        visits.set(tx, number)
    })
}

fn main() {}
