//! The two copies of the descriptor on a medium.

use crate::error::Damage;
use lode_layout::{Geometry, LogDescriptor, PoolOffset};
use lode_pmem::{Fault, FaultScope, Medium};

/// A copy of the descriptor: where it is, and what it says.
pub(crate) type Copy = (PoolOffset, Result<LogDescriptor, Damage>);

/// Reads both copies.
pub(crate) fn copies<M: Medium>(medium: &M, geometry: &Geometry) -> [Copy; 2] {
    let extent = &geometry.extents()[0];
    places(geometry).map(|at| {
        let mut bytes = [0; LogDescriptor::LEN];
        let read = medium.memory().reading(|memory| memory.read(at, &mut bytes));
        let decode = || LogDescriptor::decode(bytes, extent);
        (
            at,
            read.map_err(Damage::Memory)
                .and_then(|()| decode().map_err(|error| Damage::Descriptor { at, error })),
        )
    })
}

/// Reads the descriptor.
///
/// # Errors
/// Fails if neither copy is valid.
pub(crate) fn read<M: Medium>(medium: &M, geometry: &Geometry) -> Result<LogDescriptor, Damage> {
    let [(_, first), (_, second)] = copies(medium, geometry);
    first.or_else(|error| second.map_err(|_| error))
}

/// Stores both copies. They become durable with the next drain.
///
/// # Errors
/// Fails if they can't be stored.
pub(crate) fn write<M: Medium>(
    medium: &M,
    geometry: &Geometry,
    descriptor: &LogDescriptor,
) -> Result<(), Fault> {
    let bytes = descriptor.encode();
    FaultScope::run(|| places(geometry).into_iter().for_each(|at| medium.copy(at, &bytes)))
}

fn places(geometry: &Geometry) -> [PoolOffset; 2] {
    let first = LogDescriptor::place(&geometry.extents()[0]);
    [first, first.plus(LogDescriptor::COPY_STRIDE)]
}
