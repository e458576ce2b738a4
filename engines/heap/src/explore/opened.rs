//! A heap, or a whole pool, that fills a simulated medium.

use crate::error::HeapError;
use crate::heap::Heap;
use crate::shrink::empty_tail;
use lode_layout::{Durability, Geometry, Header, LayoutName};
use lode_pool::{Headers, PoolError};
use lode_sim::SimMedium;
use std::sync::Arc;
use uuid::Uuid;

/// The reason why a pool that a power cut left can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// An error of its headers.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// An error of its heap.
    #[error(transparent)]
    Heap(#[from] HeapError),
}

/// Formats the heap and opens it for the first time, as life 2 of the log.
pub fn format_heap(
    medium: Arc<SimMedium>,
    size: u64,
    uuid: [u8; 16],
) -> Result<Heap<Arc<SimMedium>>, HeapError> {
    Heap::format(&medium, &geometry(size), &uuid, [1, 1])?;
    open_heap(medium, size, uuid, 2)
}

/// Opens the heap. Each opening of an exploration is a `life` of its own, whose number no other has.
pub fn open_heap(
    medium: Arc<SimMedium>,
    size: u64,
    uuid: [u8; 16],
    life: u64,
) -> Result<Heap<Arc<SimMedium>>, HeapError> {
    Ok(Heap::open(medium, &geometry(size), uuid, [life; 2])?.0)
}

/// Makes a pool of `size` bytes, headers included, and opens its heap for the first time, as life 2 of the log.
pub fn format_pool(
    medium: Arc<SimMedium>,
    size: u64,
    uuid: [u8; 16],
) -> Result<Heap<Arc<SimMedium>>, Unusable> {
    let geometry = geometry(size);
    let layout = LayoutName::new("explored").expect("a layout name");
    let header = Header::new(Uuid::from_bytes(uuid), layout, geometry, Durability::None, 1);
    lode_pool::format(&*medium, header, |_, _| Ok::<_, PoolError>(()))?;
    Heap::format(&medium, &geometry, &uuid, [1, 1])?;
    Ok(Heap::open(medium, &geometry, uuid, [2; 2])?.0)
}

/// Opens a pool that [`format_pool`] made: its headers and its heap.
pub fn open_pool(
    medium: Arc<SimMedium>,
    uuid: [u8; 16],
    life: u64,
) -> Result<(Headers, Heap<Arc<SimMedium>>), Unusable> {
    let mut headers = Headers::read(&*medium)?;
    headers.complete_update(&*medium)?;
    let (heap, _) = Heap::open(medium, headers.geometry(), uuid, [life; 2])?;
    Ok((headers, heap))
}

/// Shrinks a pool whose heap is closed, as [`Pool::shrink`](crate::Pool::shrink) does. `life` returns the number of each
/// opening.
pub fn shrink_pool<E: From<Unusable>>(
    medium: &Arc<SimMedium>,
    headers: &mut Headers,
    uuid: [u8; 16],
    mut life: impl FnMut() -> u64,
    mover: impl Fn(&Heap<Arc<SimMedium>>) -> Result<(), E>,
) -> Result<(), E> {
    let geometry = *headers.geometry();
    let heap_error = |error| Unusable::Heap(error).into();
    let open = || {
        let opened = Heap::open(Arc::clone(medium), &geometry, uuid, [life(); 2]);
        opened.map(|(heap, _)| heap).map_err(heap_error)
    };
    let end = empty_tail(open, mover, heap_error)?;
    Ok(headers.shrink(&**medium, end).map_err(Unusable::Pool)?)
}

fn geometry(size: u64) -> Geometry {
    Geometry::plan(size).expect("a size")
}
