//! Whole pools in memory, with headers, a heap and, for some, a tree of keys.

use crate::{memory, tree};
use lode_heap::Heap;
use lode_kv::LAYOUT_NAME;
use lode_layout::{Durability, Geometry, Header, LayoutName};
use lode_pmem::Mapping;
use lode_pool::{Headers, PoolError};
use std::sync::Arc;
use uuid::Uuid;

/// Makes a pool of `len` bytes with an empty tree, and opens its heap.
pub fn create(len: u64) -> Heap<Arc<Mapping>> {
    let heap = create_empty(len, LAYOUT_NAME);
    tree::create(&heap);
    heap
}

/// Makes a pool of `len` bytes with the layout of this name and no root object, and opens its heap.
pub fn create_empty(len: u64, layout: &str) -> Heap<Arc<Mapping>> {
    let medium = Arc::new(memory::persistent(len));
    let layout = LayoutName::new(layout).unwrap();
    let header = Header::new(Uuid::from_u128(5), layout, Geometry::plan(len).unwrap(), Durability::None, 1);
    let content = |medium: &Arc<Mapping>, header: &Header| {
        Heap::format(medium, &header.geometry, header.uuid.as_bytes(), [1, 2])
            .map_err(|_| PoolError::GenerationsExhausted)
    };
    lode_pool::format(&medium, header, content).unwrap();
    open(&medium, [3, 4]).unwrap()
}

/// Opens the heap of the pool on `medium`, for the log epoch `life`.
///
/// # Errors
/// The message of the error with which the headers or the heap refuse.
pub fn open(medium: &Arc<Mapping>, life: [u64; 2]) -> Result<Heap<Arc<Mapping>>, String> {
    let headers = Headers::read(&**medium).map_err(|error| error.to_string())?;
    let header = headers.current();
    let opened = Heap::open(Arc::clone(medium), &header.geometry, *header.uuid.as_bytes(), life);
    opened.map(|(heap, _)| heap).map_err(|error| error.to_string())
}
