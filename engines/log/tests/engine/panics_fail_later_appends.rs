//! A thread that panics in the middle of an append: others fail, and wait for nothing.

use crate::disk::{Disk, UUID, all};
use lode_layout::Durability;
use lode_log::{AppendLog, AppendLogError};
use lode_pmem::{Layer, Mapping, SyncError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A medium whose next drain panics once it is told so.
struct Panicking {
    medium: Arc<Mapping>,
    panics: Arc<AtomicBool>,
}

impl Layer for Panicking {
    type Inner = Mapping;

    fn inner(&self) -> &Mapping {
        &self.medium
    }

    fn drain(&self) -> Result<(), SyncError> {
        assert!(!self.panics.swap(false, Ordering::Relaxed), "a drain that panics");
        lode_pmem::Medium::drain(&*self.medium)
    }
}

#[test]
fn append_after_a_panic_fails_and_does_not_wait() {
    let disk = Disk::new(64 << 10, Durability::Line);
    let panics = Arc::new(AtomicBool::new(false));
    let medium = Panicking { medium: Arc::clone(&disk.medium), panics: Arc::clone(&panics) };
    let (log, _) = AppendLog::open(medium, &disk.geometry, UUID, [8; 2]).unwrap();
    log.append(b"one").unwrap();
    panics.store(true, Ordering::Relaxed);
    catch_unwind(AssertUnwindSafe(|| log.append(b"two"))).unwrap_err();
    assert_eq!(log.append(b"three"), Err(AppendLogError::Poisoned));
    drop(log);
    assert_eq!(all(&disk.open())[0], Ok(b"one".to_vec()));
}
