use lode_heap::{HeapError, PBox, Persist, TypedTx};

lode_heap::brand!(Shop);

#[derive(Persist)]
#[persist(brand = Shop)]
#[repr(C)]
struct Node {
    number: u64,
    next: PBox<Node, Shop>,
}

fn owned(tx: &TypedTx<'_, Shop>, head: &PBox<Node, Shop>) -> Result<(), HeapError> {
    let older = tx.alloc(Node { number: 1, next: PBox::null() })?;
    head.set(tx, tx.alloc(Node { number: 2, next: older })?)
}

fn taken(tx: &TypedTx<'_, Shop>, head: &PBox<Node, Shop>) -> Result<(), HeapError> {
    head.set(tx, tx.alloc(Node { number: 2, next: head.take(tx)? })?)
}

fn main() {}
