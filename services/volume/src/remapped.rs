//! Batches on blocks that a map names: a write goes to a fresh place, and writes that follow each other share drains.

use crate::block_error::{BlockError, BlockFault};
use crate::device::{BlockDevice, Op, Request, check_op, of_block, read_each, write_each};

/// Blocks whose place a map names.
pub(crate) trait RemappedBlocks {
    /// The reason why a block can't be read or written.
    type Fault: Into<BlockFault>;

    /// Reads a block.
    fn read(&self, block: u64, into: &mut [u8]) -> Result<(), Self::Fault>;

    /// Writes blocks that share drains. The last content of a block counts. After a failure, some of them may be written.
    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<(), Self::Fault>;

    /// Writes blocks as [`write_batch`](RemappedBlocks::write_batch) does, except that a power cut may leave a mixture in each of
    /// them.
    fn write_in_place(&self, writes: &[(u64, &[u8])]) -> Result<(), Self::Fault> {
        self.write_batch(writes)
    }

    /// Makes `count` blocks, at least one, read as zeros, with shared drains. After a failure, some of them may do so.
    fn zero(&self, first: u64, count: u64) -> Result<(), Self::Fault>;
}

/// Runs the requests of a batch in order, and sets their results.
pub(crate) fn run_batch(
    device: &(impl BlockDevice + ?Sized),
    blocks: &impl RemappedBlocks,
    batch: &mut [Request<'_>],
) {
    for request in batch.iter_mut() {
        request.result = check_op(device, &request.op);
    }
    let is_write = |request: &Request<'_>| matches!(request.op, Op::Write { .. });
    let together = |one: &Request<'_>, next: &Request<'_>| {
        is_write(one) && is_write(next) && one.is_in_place == next.is_in_place
    };
    for alike in batch.chunk_by_mut(together) {
        match alike {
            [first, ..] if is_write(first) => write_together(blocks, device.block_size(), alike),
            others => others.iter_mut().for_each(|request| run_alone(blocks, device.block_size(), request)),
        }
    }
}

/// Runs writes that follow each other, all in place or none.
fn write_together(blocks: &impl RemappedBlocks, size: usize, writes: &mut [Request<'_>]) {
    let is_in_place = writes.first().is_some_and(|request| request.is_in_place);
    let write = |all: &[(u64, &[u8])]| match is_in_place {
        true => blocks.write_in_place(all),
        false => blocks.write_batch(all),
    };
    let all: Vec<(u64, &[u8])> = writes.iter().flat_map(|request| contents(request, size)).collect();
    let Err(fault) = write(&all) else { return };
    let fault = fault.into();
    for request in writes.iter_mut().filter(|request| request.result.is_ok()) {
        let Op::Write { block, from } = &request.op else { continue };
        request.result = match fault.is_in_doubt() {
            true => Err(of_block(*block, size)(fault)),
            // Written once more one by one, so that each request has the fault of its own block.
            false => write_each(*block, from, size, |block, from| write(&[(block, from)])),
        };
    }
}

/// Returns the blocks that a write changes, none if it is refused.
fn contents<'b>(request: &Request<'b>, size: usize) -> impl Iterator<Item = (u64, &'b [u8])> {
    let (block, from) = match request.op {
        Op::Write { block, from } if request.result.is_ok() => (block, from),
        _ => (0, &[][..]),
    };
    (block..).zip(from.chunks_exact(size))
}

/// Runs a request that is no write.
fn run_alone(blocks: &impl RemappedBlocks, size: usize, request: &mut Request<'_>) {
    if request.result.is_err() {
        return;
    }
    request.result = match &mut request.op {
        Op::Read { block, into } => read_each(*block, into, size, |block, into| blocks.read(block, into)),
        Op::Zero { block, count } | Op::Trim { block, count } => zero(blocks, size, *block, *count),
        Op::Write { .. } => unreachable!("writes run together"),
    };
}

fn zero(blocks: &impl RemappedBlocks, size: usize, first: u64, count: u64) -> Result<(), BlockError> {
    if count == 0 {
        return Ok(());
    }
    let Err(fault) = blocks.zero(first, count) else { return Ok(()) };
    let fault = fault.into();
    if fault.is_in_doubt() {
        return Err(of_block(first, size)(fault));
    }
    // Once more one by one, so that the error names the faulty block.
    (first..first + count).try_for_each(|block| blocks.zero(block, 1).map_err(of_block(block, size)))
}
