//! Copies of the whole content of a volume, from and to streams of bytes.

use crate::block_error::BlockError;
use crate::device::{BlockDevice, Op, Request};
use std::io::{self, Read};
use std::ops::ControlFlow;

/// Bytes that are copied at a time.
const PART: usize = 1 << 20;

/// Number of parts that an import leaves in a volatile cache.
const PARTS_UNFLUSHED: u64 = 64;

/// The callback of a copy: it gets the number of bytes that are done since its last call, and may end the copy.
pub type Watch<'w> = dyn FnMut(u64) -> ControlFlow<()> + 'w;

/// The reason why a copy ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The input is not as long as the volume. Nothing was written.
    #[error("the input has {len} bytes, and the volume {want}; nothing was written")]
    Size {
        /// Length of the input in bytes.
        len: u64,
        /// Bytes of all blocks.
        want: u64,
    },
    /// The input ended early.
    #[error(
        "the input ended after {len} bytes, and the volume has {want}; the blocks before that are written"
    )]
    Short {
        /// Length of the input in bytes.
        len: u64,
        /// Bytes of all blocks.
        want: u64,
    },
    /// The input goes on after the last block.
    #[error("the input is longer than the {want} bytes of the volume, all of whose blocks are written")]
    Long {
        /// Bytes of all blocks.
        want: u64,
    },
    /// The input can't be read.
    #[error("the input can't be read after {done} bytes: {error}")]
    Input {
        /// Bytes before.
        done: u64,
        /// The error.
        #[source]
        error: io::Error,
    },
    /// The output can't be written.
    #[error("{0}")]
    Output(#[source] io::Error),
    /// A block can't be read or written.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// The callback has ended the copy.
    #[error("interrupted after {done} of {want} bytes")]
    Interrupted {
        /// Bytes that are done.
        done: u64,
        /// Bytes of all blocks.
        want: u64,
    },
}

/// The input of an import.
pub struct Source<'r> {
    /// The bytes.
    pub reader: &'r mut dyn Read,
    /// Their number, if it is known.
    pub len: Option<u64>,
}

/// Returns the number of blocks that are copied at a time.
fn step(device: &dyn BlockDevice) -> u64 {
    (PART / device.block_size()).max(1) as u64
}

/// Writes the whole content of a volume. Blocks of zeros are trimmed, so that they take no space.
///
/// # Errors
/// [`TransferError::Size`] before anything is written. After any other error, blocks before the end are written and
/// durable.
///
/// # Durability
/// The content is durable on return.
///
/// # Cost
/// One batch for each MiB, and a flush for each 64 of them.
pub fn import(
    device: &dyn BlockDevice,
    source: Source<'_>,
    watch: &mut Watch<'_>,
) -> Result<(), TransferError> {
    let want = device.capacity();
    if let Some(len) = source.len.filter(|len| *len != want) {
        return Err(TransferError::Size { len, want });
    }
    let imported = import_blocks(device, source.reader, watch);
    device.flush()?;
    imported
}

/// Writes the content, which the caller flushes.
fn import_blocks(
    device: &dyn BlockDevice,
    reader: &mut dyn Read,
    watch: &mut Watch<'_>,
) -> Result<(), TransferError> {
    let (size, want) = (device.block_size(), device.capacity());
    let (step, count) = (step(device), device.block_count());
    let mut part = vec![0; step as usize * size];
    let mut block = 0;
    while block < count {
        let part = &mut part[..step.min(count - block) as usize * size];
        let done = block * size as u64;
        let got = fill(reader, part).map_err(|error| TransferError::Input { done, error })?;
        let whole = got / size * size;
        run_all(device, &mut requests(&part[..whole], size, block))?;
        if got < part.len() {
            return Err(TransferError::Short { len: done + got as u64, want });
        }
        block += (got / size) as u64;
        if watch(got as u64).is_break() && block < count {
            return Err(TransferError::Interrupted { done: done + got as u64, want });
        }
        // What a volatile cache holds is bounded.
        if block % (step * PARTS_UNFLUSHED) == 0 {
            device.flush()?;
        }
    }
    let rest = fill(reader, &mut [0]).map_err(|error| TransferError::Input { done: want, error })?;
    if rest > 0 { Err(TransferError::Long { want }) } else { Ok(()) }
}

/// Runs a batch, and returns the first of its errors.
fn run_all(device: &dyn BlockDevice, batch: &mut [Request<'_>]) -> Result<(), BlockError> {
    device.run(batch);
    batch.iter().try_for_each(|request| request.result)
}

/// Reads until the buffer is full or the input ends; returns the number of bytes.
fn fill(reader: &mut dyn Read, into: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match reader.read(&mut into[done..]) {
            Ok(0) => break,
            Ok(len) => done += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Returns the requests that write these blocks from `first` on: one for each run of blocks of zeros, and of others.
fn requests(bytes: &[u8], size: usize, first: u64) -> Vec<Request<'_>> {
    let is_zero = |block: &[u8]| block.iter().all(|byte| *byte == 0);
    let mut requests = Vec::new();
    let mut rest = bytes;
    let mut block = first;
    while !rest.is_empty() {
        let are_zero = is_zero(&rest[..size]);
        let count = rest.chunks_exact(size).take_while(|block| is_zero(block) == are_zero).count();
        let (run, after) = rest.split_at(count * size);
        requests.push(Request::new(match are_zero {
            true => Op::Trim { block, count: count as u64 },
            false => Op::Write { block, from: run },
        }));
        (rest, block) = (after, block + count as u64);
    }
    requests
}

/// Reads the whole content of a volume, and passes it to `put` in order, each part with its offset.
///
/// # Errors
/// Fails with the first block that can't be read, and as `put` does.
///
/// # Cost
/// One batch for each MiB.
pub fn export(
    device: &dyn BlockDevice,
    put: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>,
    watch: &mut Watch<'_>,
) -> Result<(), TransferError> {
    let (size, want, count) = (device.block_size(), device.capacity(), device.block_count());
    let step = step(device);
    let mut part = vec![0; step as usize * size];
    let mut block = 0;
    while block < count {
        let into = &mut part[..step.min(count - block) as usize * size];
        let (len, at) = (into.len() as u64, block * size as u64);
        run_all(device, &mut [Request::new(Op::Read { block, into: &mut *into })])?;
        put(at, into).map_err(TransferError::Output)?;
        block += len / size as u64;
        if watch(len).is_break() && block < count {
            return Err(TransferError::Interrupted { done: at + len, want });
        }
    }
    Ok(())
}
