//! A repair that was killed is finished by the next one, with the same keys.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod fixture;

use fixture::pool::{Image, LIFE, contents};
use lode_index::repair_pool;
use lode_layout::PoolOffset;
use lode_pmem::{Mapping, Medium, Memory, Rung, SyncError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A medium that ends its user before one of its stores.
struct Dying {
    inner: Arc<Mapping>,
    stores_left: AtomicU64,
}

impl Dying {
    fn step(&self) {
        let left = self.stores_left.load(Ordering::Relaxed);
        self.stores_left.store(left.saturating_sub(1), Ordering::Relaxed);
        assert!(left > 0, "killed");
    }
}

impl Medium for Dying {
    fn memory(&self) -> &Memory {
        self.inner.memory()
    }
    fn rung(&self) -> Rung {
        self.inner.rung()
    }
    fn log_block(&self) -> u64 {
        self.inner.log_block()
    }
    fn store8(&self, at: PoolOffset, value: u64) {
        self.step();
        self.inner.store8(at, value);
    }
    fn store(&self, at: PoolOffset, bytes: &[u8]) {
        self.step();
        self.inner.store(at, bytes);
    }
    fn compare_exchange8(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> {
        self.step();
        self.inner.compare_exchange8(at, current, new)
    }
    fn copy(&self, at: PoolOffset, bytes: &[u8]) {
        self.step();
        self.inner.copy(at, bytes);
    }
    fn flush(&self, at: PoolOffset, len: u64) {
        self.inner.flush(at, len);
    }
    fn drain(&self) -> Result<(), SyncError> {
        self.inner.drain()
    }
    fn log_write(&self, at: PoolOffset, bytes: &[u8]) -> Result<(), SyncError> {
        self.step();
        self.inner.log_write(at, bytes)
    }
}

/// A pool with damage of every kind: a header copy, a slot copy, a node, a leaf, a bitmap.
fn damaged() -> Image {
    let mut image = Image::make(512 << 10, 120, false);
    let (_, objects) = image.open().unwrap();
    let [first, middle, last] =
        [1, objects.len() / 2, objects.len() - 1].map(|index| objects[index].at.get());
    let chunk = image.header().geometry.extents()[0].start.get() + 2 * lode_layout::CHUNK;
    for at in [100, 0x2010, first, middle + 8, last + 3, chunk + 0x41] {
        image.bytes[at as usize] ^= 0x55;
    }
    image
}

#[test]
fn and_run_again() {
    let image = damaged();
    let whole = image.medium();
    repair_pool(&whole, LIFE).unwrap();
    let (want, _) = contents(&whole).unwrap();
    assert!(want.len() + 5 > image.content.len());
    std::panic::set_hook(Box::new(|_| ()));
    let mut stops = 0;
    for stores in 0.. {
        let inner = image.medium();
        let dying = Arc::new(Dying { inner: Arc::clone(&inner), stores_left: AtomicU64::new(stores) });
        let ended = catch_unwind(AssertUnwindSafe(|| repair_pool(&dying, LIFE)));
        if ended.is_ok() {
            break;
        }
        stops += 1;
        let repair = repair_pool(&inner, [LIFE[0], LIFE[1] + 9]).unwrap();
        assert!(repair.after.is_clean(), "killed before store {stores}: {}", repair.after);
        assert!(contents(&inner).unwrap().0 == want, "killed before store {stores}");
    }
    let _ = std::panic::take_hook();
    println!("{stops} places to stop");
    assert!(stops > 50);
}
