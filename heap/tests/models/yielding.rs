//! Memory whose waiting is loom's.

use lode_layout::PoolOffset;
use lode_pmem::{Gate, Mapping, Medium, Memory, Rung, SyncError};

/// A medium of anonymous memory on the rung `line`, on which a thread that waits lets others run.
#[derive(Debug)]
pub(super) struct Yielding(Mapping);

impl Yielding {
    pub(super) fn new(len: u64) -> Yielding {
        Yielding(Mapping::options().rung(Rung::Line).reserve(len).map_anonymous(len).unwrap())
    }
}

impl Medium for Yielding {
    fn memory(&self) -> &Memory {
        self.0.memory()
    }
    fn rung(&self) -> Rung {
        self.0.rung()
    }
    fn log_block(&self) -> u64 {
        self.0.log_block()
    }
    fn store8(&self, at: PoolOffset, value: u64) {
        self.0.store8(at, value);
    }
    fn store(&self, at: PoolOffset, bytes: &[u8]) {
        self.0.store(at, bytes);
    }
    fn compare_exchange8(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> {
        self.0.compare_exchange8(at, current, new)
    }
    fn copy(&self, at: PoolOffset, bytes: &[u8]) {
        self.0.copy(at, bytes);
    }
    fn flush(&self, at: PoolOffset, len: u64) {
        self.0.flush(at, len);
    }
    fn drain(&self) -> Result<(), SyncError> {
        self.0.drain()
    }
    fn log_write(&self, at: PoolOffset, bytes: &[u8]) -> Result<(), SyncError> {
        self.0.log_write(at, bytes)
    }
    fn relax(&self, _: u32) {
        loom::thread::yield_now();
    }
    fn wait_while(&self, _: &Gate, blocked: &mut dyn FnMut() -> bool) {
        while blocked() {
            loom::thread::yield_now();
        }
    }
}
