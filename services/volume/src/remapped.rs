//! Batches on blocks that a map names: a write goes to a fresh place, and changes that follow each other share drains.

use crate::block_error::{BlockError, BlockFault};
use crate::device::{BlockDevice, Op, Request, check_op, of_block, read_each, write_each};

/// Blocks of one group of changes that become zeros, at most. A longer request runs alone.
const ZEROS_MAX: u64 = 1 << 16;

/// The new content of a block; `None` for zeros.
pub(crate) type Change<'c> = (u64, Option<&'c [u8]>);

/// Blocks whose place a map names.
pub(crate) trait RemappedBlocks {
    /// The reason why a block can't be read or written.
    type Fault: Into<BlockFault>;

    /// Reads a block.
    fn read(&self, block: u64, into: &mut [u8]) -> Result<(), Self::Fault>;

    /// Changes blocks, with shared drains. The last change of a block counts. After a failure, some of them may be changed.
    fn change_batch(&self, changes: &[Change<'_>]) -> Result<(), Self::Fault>;

    /// Writes blocks, with shared drains, so that a power cut may leave a mixture in each of them. The last content of a block
    /// counts. After a failure, some of them may be written.
    fn write_in_place(&self, writes: &[(u64, &[u8])]) -> Result<(), Self::Fault> {
        let changes: Vec<Change<'_>> = writes.iter().map(|(block, from)| (*block, Some(*from))).collect();
        self.change_batch(&changes)
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
    let size = device.block_size();
    let mut rest = batch;
    while !rest.is_empty() {
        let alike = length_of_group(rest);
        let group;
        (group, rest) = rest.split_at_mut(alike);
        match group {
            [one] if !matches!(one.op, Op::Write { .. }) => run_alone(blocks, size, one),
            changes => change_together(blocks, size, changes),
        }
    }
}

/// Returns the number of requests, at least one, that run together: changes that follow each other, all in place or none.
fn length_of_group(batch: &[Request<'_>]) -> usize {
    let zeros = |request: &Request<'_>| match request.op {
        Op::Zero { count, .. } | Op::Trim { count, .. } if request.result.is_ok() => count,
        _ => 0,
    };
    let (Some(first), mut total) = (batch.first(), 0_u64) else { return 0 };
    let together = batch.iter().take_while(|request| {
        total = total.saturating_add(zeros(request));
        request.op.is_change() && is_in_place(request) == is_in_place(first) && total <= ZEROS_MAX
    });
    together.count().max(1)
}

/// Returns true for a write to the place that its blocks have.
fn is_in_place(request: &Request<'_>) -> bool {
    request.is_in_place && matches!(request.op, Op::Write { .. })
}

/// Runs changes that follow each other, all in place or none.
fn change_together(blocks: &impl RemappedBlocks, size: usize, requests: &mut [Request<'_>]) {
    let is_in_place = requests.first().is_some_and(is_in_place);
    let mut changes = Vec::with_capacity(requests.len());
    requests.iter().for_each(|request| add_changes(request, size, &mut changes));
    let done = match is_in_place {
        true => {
            let writes = changes.iter().filter_map(|(block, from)| from.map(|from| (*block, from)));
            blocks.write_in_place(&writes.collect::<Vec<_>>())
        }
        false => blocks.change_batch(&changes),
    };
    let Err(fault) = done else { return };
    let fault = fault.into();
    for request in requests.iter_mut().filter(|request| request.result.is_ok()) {
        request.result = match (&request.op, fault.is_in_doubt()) {
            (op, true) => Err(of_block(op.block(), size)(fault)),
            // Once more one by one, so that each request has the fault of its own block.
            (Op::Write { block, from }, false) => {
                write_each(*block, from, size, |block, from| match is_in_place {
                    true => blocks.write_in_place(&[(block, from)]),
                    false => blocks.change_batch(&[(block, Some(from))]),
                })
            }
            (Op::Zero { block, count } | Op::Trim { block, count }, false) => {
                zero(blocks, size, *block, *count)
            }
            (Op::Read { .. }, false) => unreachable!("a read runs alone"),
        };
    }
}

/// Adds the changes of a request, none if it is refused.
fn add_changes<'b>(request: &Request<'b>, size: usize, changes: &mut Vec<Change<'b>>) {
    match request.op {
        _ if request.result.is_err() => {}
        Op::Write { block, from } => {
            changes.extend((block..).zip(from.chunks_exact(size).map(Some)));
        }
        Op::Zero { block, count } | Op::Trim { block, count } => {
            changes.extend((block..block + count).map(|block| (block, None)));
        }
        Op::Read { .. } => {}
    }
}

/// Runs a read, or a request that makes blocks zeros.
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
