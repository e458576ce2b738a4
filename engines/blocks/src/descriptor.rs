//! The two copies of the descriptor on a medium.

use crate::error::Damage;
use lode_layout::{BLOCK, BlocksDescriptor, PoolOffset};
use lode_pmem::{FaultScope, Medium};

/// A copy of the descriptor: where it is, and what it says.
pub(crate) type Copy = (PoolOffset, Result<BlocksDescriptor, Damage>);

/// Reads both copies of the descriptor of a segment that begins and ends there.
pub(crate) fn copies<M: Medium>(medium: &M, (first, end): (PoolOffset, PoolOffset)) -> [Copy; 2] {
    [first, first.plus(BlocksDescriptor::COPY_STRIDE)].map(|at| {
        let mut bytes = [0; BlocksDescriptor::LEN];
        let read = medium.memory().reading(|memory| memory.read(at, &mut bytes));
        let decode = || BlocksDescriptor::decode(bytes, first, end);
        (
            at,
            read.map_err(Damage::Memory)
                .and_then(|()| decode().map_err(|error| Damage::Descriptor { at, error })),
        )
    })
}

/// Reads the descriptor of a segment that begins and ends there.
///
/// # Errors
/// Fails if neither copy is valid.
pub(crate) fn read<M: Medium>(
    medium: &M,
    place: (PoolOffset, PoolOffset),
) -> Result<BlocksDescriptor, Damage> {
    let [(_, first), (_, second)] = copies(medium, place);
    first.or_else(|error| second.map_err(|_| error))
}

/// Stores both copies. They become durable with the next drain.
///
/// # Errors
/// Fails if they can't be stored.
pub(crate) fn write<M: Medium>(medium: &M, descriptor: &BlocksDescriptor) -> Result<(), lode_pmem::Fault> {
    // The map follows the descriptor, in every segment that is planned here.
    let first = PoolOffset::new(descriptor.map_off.get() - BLOCK);
    let copies = [first, first.plus(BlocksDescriptor::COPY_STRIDE)];
    copies.into_iter().try_for_each(|at| write_copy(medium, at, descriptor))
}

/// Stores the copy at `at`. It becomes durable with the next drain.
///
/// # Errors
/// Fails if it can't be stored.
pub(crate) fn write_copy<M: Medium>(
    medium: &M,
    at: PoolOffset,
    descriptor: &BlocksDescriptor,
) -> Result<(), lode_pmem::Fault> {
    FaultScope::run(|| medium.copy(at, &descriptor.encode()))
}

/// Makes all blocks of a segment zeros. Durable with the next drain.
///
/// # Errors
/// Fails if the map can't be stored.
pub(crate) fn clear_map<M: Medium>(
    medium: &M,
    descriptor: &BlocksDescriptor,
) -> Result<(), lode_pmem::Fault> {
    const ZEROS: [u8; 4096] = [0; 4096];
    let (start, end) = (descriptor.map_off.get(), descriptor.data_off.get());
    FaultScope::run(|| {
        for at in (start..end).step_by(ZEROS.len()) {
            medium.copy(PoolOffset::new(at), &ZEROS);
        }
    })
}
