//! The block device that all formats offer.

use crate::block_error::{BlockError, BlockFault};
use crate::error::VolumeError;

/// The work of a request. Its buffer is lent by the caller, and holds whole blocks.
#[derive(Debug)]
pub enum Op<'b> {
    /// Reads blocks from `block` on into the buffer.
    Read {
        /// Number of the first block.
        block: u64,
        /// The buffer.
        into: &'b mut [u8],
    },
    /// Writes blocks from `block` on.
    Write {
        /// Number of the first block.
        block: u64,
        /// The buffer.
        from: &'b [u8],
    },
    /// Makes blocks read as zeros. A block that takes space keeps it.
    Zero {
        /// Number of the first block.
        block: u64,
        /// Number of blocks.
        count: u64,
    },
    /// Gives up the content of blocks, and their space where the format can. From then on they read as zeros.
    Trim {
        /// Number of the first block.
        block: u64,
        /// Number of blocks.
        count: u64,
    },
}

impl Op<'_> {
    /// Returns the number of the first block.
    pub fn block(&self) -> u64 {
        match self {
            Op::Read { block, .. } | Op::Write { block, .. } => *block,
            Op::Zero { block, .. } | Op::Trim { block, .. } => *block,
        }
    }

    /// Returns true if the operation changes blocks.
    pub fn is_change(&self) -> bool {
        !matches!(self, Op::Read { .. })
    }
}

/// A request of a batch.
#[derive(Debug)]
pub struct Request<'b> {
    /// The work.
    pub op: Op<'b>,
    /// True if the work must be durable when the batch returns (forced unit access).
    pub is_fua: bool,
    /// True if a write may go to the place that a block has, so that a power cut may leave a mixture of old and new in it: for
    /// data whose user does without whole blocks, beside metadata that needs them. A format with checksums of its blocks
    /// keeps them whole anyway.
    pub is_in_place: bool,
    /// The result, which the device sets.
    pub result: Result<(), BlockError>,
}

impl<'b> Request<'b> {
    /// Returns a request without FUA, whose blocks stay whole.
    pub fn new(op: Op<'b>) -> Request<'b> {
        Request { op, is_fua: false, is_in_place: false, result: Ok(()) }
    }

    /// Returns the request with FUA.
    pub fn with_fua(self) -> Request<'b> {
        Request { is_fua: true, ..self }
    }

    /// Returns the request as one that may write to the places that blocks have.
    pub fn in_place(self) -> Request<'b> {
        Request { is_in_place: true, ..self }
    }
}

/// Blocks that follow each other and are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Number of blocks.
    pub count: u64,
    /// True if the blocks read as zeros and the format knows it without a look at their content.
    pub is_zero: bool,
}

/// Blocks that are read and written by number, from any number of threads.
///
/// # Durability
/// Without a [volatile cache](BlockDevice::has_volatile_cache), a batch is durable when it returns, and FUA is free. With
/// one, it is visible then, and durable after the next flush, or if it has FUA.
pub trait BlockDevice: Send + Sync {
    /// Returns the size of a block in bytes.
    fn block_size(&self) -> usize;

    /// Returns the number of blocks. It may grow while the device is open.
    fn block_count(&self) -> u64;

    /// Returns true if every change is refused.
    fn is_read_only(&self) -> bool;

    /// Returns true if a batch without FUA is durable only after a [`flush`](BlockDevice::flush).
    fn has_volatile_cache(&self) -> bool;

    /// Returns true if the volatile cache lies in the memory of the process, so that its end loses what was not flushed. That
    /// of other devices lies in the page cache.
    fn has_process_cache(&self) -> bool {
        false
    }

    /// Runs the requests of a batch in order, and sets the result of each. One that fails does not stop the rest. Blocks of
    /// a failed request before its first faulty block may have been read or changed.
    ///
    /// # Durability
    /// See [`BlockDevice`].
    fn run(&self, batch: &mut [Request<'_>]);

    /// Makes all batches durable that have returned.
    ///
    /// # Errors
    /// Fails if a sync does. The device then accepts no more writes.
    fn flush(&self) -> Result<(), BlockError>;

    /// Returns the longest run of alike blocks from `block` on, of at most `count` blocks.
    ///
    /// # Errors
    /// Fails if the volume does not have these blocks, at least one, or if the state of the first one can't be read.
    ///
    /// # Cost
    /// Reads an entry of the table or map for each block; asks the file of a raw volume once or twice.
    fn status(&self, block: u64, count: u64) -> Result<Extent, BlockError>;

    /// Returns true if the device can [`grow`](BlockDevice::grow).
    fn can_grow(&self) -> bool {
        false
    }

    /// Grows the device to `capacity` bytes or some more, while it is used. The new blocks are zeros, and their space is
    /// taken.
    ///
    /// # Errors
    /// [`VolumeError::FixedCapacity`] if it can't, [`VolumeError::Shrinks`], and those of the file. The device then has its old
    /// size, and can be used unless a sync failed.
    ///
    /// # Durability
    /// The new size is durable on return. After a crash before that, the device has its old or its new size.
    fn grow(&self, capacity: u64) -> Result<(), VolumeError> {
        let _ = capacity;
        Err(VolumeError::FixedCapacity)
    }

    /// Returns the number of bytes of all blocks.
    fn capacity(&self) -> u64 {
        self.block_count() * self.block_size() as u64
    }
}

/// Returns a function that turns a fault of `block` into its error.
pub(crate) fn of_block<F: Into<BlockFault>>(block: u64, block_size: usize) -> impl Fn(F) -> BlockError {
    move |fault| BlockError { block, block_size: block_size as u64, fault: fault.into() }
}

/// Checks that a device may run an operation, has all of its blocks, and that its buffer holds whole ones. A device calls it
/// before it changes anything.
pub(crate) fn check_op(device: &(impl BlockDevice + ?Sized), op: &Op<'_>) -> Result<(), BlockError> {
    let size = device.block_size();
    if op.is_change() && device.is_read_only() {
        return Err(of_block(op.block(), size)(BlockFault::ReadOnly));
    }
    let blocks = |len: usize| match len.is_multiple_of(size) {
        true => Ok((len / size) as u64),
        false => Err(of_block(op.block(), size)(BlockFault::Length { len, block_size: size })),
    };
    let count = match op {
        Op::Read { into, .. } => blocks(into.len())?,
        Op::Write { from, .. } => blocks(from.len())?,
        Op::Zero { count, .. } | Op::Trim { count, .. } => *count,
    };
    check_range(device, op.block(), count)
}

/// Checks that a device has `count` blocks from `block` on.
pub(crate) fn check_range(
    device: &(impl BlockDevice + ?Sized),
    block: u64,
    count: u64,
) -> Result<(), BlockError> {
    let total = device.block_count();
    match block.checked_add(count) {
        Some(end) if end <= total => Ok(()),
        _ => Err(of_block(block.max(total), device.block_size())(BlockFault::NoBlock { count: total })),
    }
}

/// Finds the run of alike blocks of a device that tells for each block whether it is zeros.
pub(crate) fn run_of_alike<F: Into<BlockFault>>(
    device: &(impl BlockDevice + ?Sized),
    block: u64,
    count: u64,
    is_zero: impl Fn(u64) -> Result<bool, F>,
) -> Result<Extent, BlockError> {
    check_range(device, block, count.max(1))?;
    let first = is_zero(block).map_err(of_block(block, device.block_size()))?;
    // A block whose state can't be read begins a run of its own.
    let is_alike = |block: &u64| is_zero(*block).is_ok_and(|is_zero| is_zero == first);
    let more = (block + 1..block + count.max(1)).take_while(is_alike).count() as u64;
    Ok(Extent { count: more + 1, is_zero: first })
}

/// Reads blocks from `first` on, one by one.
pub(crate) fn read_each<F: Into<BlockFault>>(
    first: u64,
    into: &mut [u8],
    block_size: usize,
    read: impl Fn(u64, &mut [u8]) -> Result<(), F>,
) -> Result<(), BlockError> {
    (first..)
        .zip(into.chunks_exact_mut(block_size))
        .try_for_each(|(block, into)| read(block, into).map_err(of_block(block, block_size)))
}

/// Writes blocks from `first` on, one by one.
pub(crate) fn write_each<F: Into<BlockFault>>(
    first: u64,
    from: &[u8],
    block_size: usize,
    write: impl Fn(u64, &[u8]) -> Result<(), F>,
) -> Result<(), BlockError> {
    (first..)
        .zip(from.chunks_exact(block_size))
        .try_for_each(|(block, from)| write(block, from).map_err(of_block(block, block_size)))
}

/// Makes the changes of a batch that `needs_flush` names durable: calls `flush` with the first block of the first one, and
/// sets its error on each of them.
pub(crate) fn flush_changes(
    batch: &mut [Request<'_>],
    needs_flush: impl Fn(&Request<'_>) -> bool,
    flush: impl FnOnce(u64) -> Result<(), BlockError>,
) {
    let is_one = |request: &Request<'_>| request.op.is_change() && needs_flush(request);
    let Some(first) = batch.iter().find(|request| is_one(request)) else { return };
    let Err(error) = flush(first.op.block()) else { return };
    for request in batch.iter_mut().filter(|request| is_one(request)) {
        if request.result.is_ok() {
            request.result = Err(error);
        }
    }
}
