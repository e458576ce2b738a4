//! A block device in memory, whose requests wait or fail as long as a test wants.

use lode_layout::PoolOffset;
use lode_pmem::{Fault, FaultKind, SyncError};
use lode_volume::{BlockDevice, BlockError, BlockFault, Extent, Op, Request};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;

/// A block device in memory. It has a volatile cache: [`durable`](MemoryDevice::durable) is what flushes and FUA covered.
#[derive(Debug)]
pub struct MemoryDevice {
    block_size: usize,
    block_count: u64,
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Debug)]
struct State {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    /// Number of requests of each batch.
    batches: Vec<usize>,
    poisoned: BTreeSet<u64>,
    flush_fails: bool,
    /// True after a failed flush.
    is_failed: bool,
    /// True if batches wait.
    is_shut: bool,
    /// True if the cache counts as memory of the process.
    is_process_cache: bool,
    /// Batches that wait.
    waiting: usize,
}

impl MemoryDevice {
    /// Returns a device of zeros.
    pub fn new(block_size: usize, block_count: u64) -> MemoryDevice {
        let bytes = vec![0; block_size * block_count as usize];
        let state = State {
            durable: bytes.clone(),
            bytes,
            batches: Vec::new(),
            poisoned: BTreeSet::new(),
            flush_fails: false,
            is_failed: false,
            is_shut: false,
            is_process_cache: false,
            waiting: 0,
        };
        MemoryDevice { block_size, block_count, state: Mutex::new(state), moved: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Returns the content.
    pub fn bytes(&self) -> Vec<u8> {
        self.state().bytes.clone()
    }

    /// Returns the content that would survive the loss of power.
    pub fn durable(&self) -> Vec<u8> {
        self.state().durable.clone()
    }

    /// Returns the number of requests of each batch since the last call.
    pub fn take_batches(&self) -> Vec<usize> {
        std::mem::take(&mut self.state().batches)
    }

    /// Makes each read and write of a block fail.
    pub fn poison(&self, block: u64) {
        self.state().poisoned.insert(block);
    }

    /// Makes flushes fail.
    pub fn fail_flushes(&self) {
        self.state().flush_fails = true;
    }

    /// Makes the cache count as memory of the process.
    pub fn lose_cache_with_process(&self) {
        self.state().is_process_cache = true;
    }

    /// Makes batches wait, or lets them go on.
    pub fn shut(&self, is_shut: bool) {
        self.state().is_shut = is_shut;
        self.moved.notify_all();
    }

    /// Returns when a batch waits.
    pub fn await_batch(&self) {
        drop(self.moved.wait_while(self.state(), |state| state.waiting == 0).unwrap());
    }

    fn error(&self, block: u64, fault: impl Into<BlockFault>) -> BlockError {
        BlockError { block, block_size: self.block_size as u64, fault: fault.into() }
    }

    fn run_one(&self, state: &mut State, op: &mut Op<'_>, is_fua: bool) -> Result<(), BlockError> {
        if op.is_change() && state.is_failed {
            return Err(self.error(op.block(), BlockFault::Poisoned));
        }
        let count = match op {
            Op::Read { into, .. } => into.len() / self.block_size,
            Op::Write { from, .. } => from.len() / self.block_size,
            Op::Zero { count, .. } | Op::Trim { count, .. } => *count as usize,
        };
        let blocks = op.block()..op.block() + count as u64;
        assert!(blocks.end <= self.block_count, "the caller checks the range");
        if let Some(block) = state.poisoned.range(blocks.clone()).next() {
            let at = PoolOffset::new(block * self.block_size as u64);
            let fault = Fault { kind: FaultKind::Poison, at, len: self.block_size as u64 };
            return Err(self.error(*block, fault));
        }
        let range = self.range(blocks);
        match op {
            Op::Read { into, .. } => into.copy_from_slice(&state.bytes[range.clone()]),
            Op::Write { from, .. } => state.bytes[range.clone()].copy_from_slice(from),
            Op::Zero { .. } | Op::Trim { .. } => state.bytes[range.clone()].fill(0),
        }
        if is_fua {
            let State { bytes, durable, .. } = state;
            durable[range.clone()].copy_from_slice(&bytes[range]);
        }
        Ok(())
    }

    fn range(&self, blocks: Range<u64>) -> Range<usize> {
        blocks.start as usize * self.block_size..blocks.end as usize * self.block_size
    }
}

impl BlockDevice for MemoryDevice {
    fn block_size(&self) -> usize {
        self.block_size
    }

    fn block_count(&self) -> u64 {
        self.block_count
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn has_volatile_cache(&self) -> bool {
        true
    }

    fn has_process_cache(&self) -> bool {
        self.state().is_process_cache
    }

    fn run(&self, batch: &mut [Request<'_>]) {
        let mut state = self.state();
        state.batches.push(batch.len());
        state.waiting += 1;
        self.moved.notify_all();
        state = self.moved.wait_while(state, |state| state.is_shut).unwrap();
        state.waiting -= 1;
        for request in batch {
            request.result = self.run_one(&mut state, &mut request.op, request.is_fua);
        }
        drop(state);
        // Another thread may run between this batch and the next one of the caller.
        thread::yield_now();
    }

    fn flush(&self) -> Result<(), BlockError> {
        let mut state = self.state();
        if state.is_failed || state.flush_fails {
            state.is_failed = true;
            return Err(self.error(0, SyncError { errno: 5 }));
        }
        state.durable = state.bytes.clone();
        Ok(())
    }

    fn status(&self, block: u64, count: u64) -> Result<Extent, BlockError> {
        let state = self.state();
        let is_zero = |block: u64| state.bytes[self.range(block..block + 1)].iter().all(|byte| *byte == 0);
        let first = is_zero(block);
        let more = (block + 1..block + count).take_while(|block| is_zero(*block) == first).count();
        Ok(Extent { count: 1 + more as u64, is_zero: first })
    }
}
