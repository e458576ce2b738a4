use lode_heap::{HeapError, PBox, PCell, PMutex, PString, Persist, TypedPool};

lode_heap::brand!(Shop);

#[derive(Persist)]
#[repr(C)]
struct Node {
    number: u64,
    hits: PCell<u64, Shop>,
    next: PBox<Node, Shop>,
}

#[derive(Persist)]
#[repr(C)]
struct Names<B> {
    names: [PMutex<PString<B>, B>; 2],
}

/// The missing attribute is the only error: the rest of the program is checked as if it were there.
fn hits(pool: &TypedPool<Shop>) -> Result<u64, HeapError> {
    let node = pool.root::<Node>()?.expect("made before");
    pool.run(|tx| node.hits.get(tx))
}

fn main() {}
