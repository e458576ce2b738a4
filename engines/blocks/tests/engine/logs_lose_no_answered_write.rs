//! At durability `commit`, writes of several threads share the log: what becomes of one decides what the others may return.

use crate::disk::{Disk, UUID, block, read};
use lode_blocks::{Blocks, BlocksError};
use lode_layout::{Durability, PoolOffset};
use lode_pmem::{Fault, FaultKind, Mapping, Medium};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const WRITERS: u64 = 6;

/// A medium that loses a record when it is stored, while others wait for their turn.
struct LosesRecord {
    inner: Arc<Mapping>,
    log: Range<u64>,
    is_armed: AtomicBool,
    is_storing: AtomicBool,
    begun: AtomicU64,
}

impl lode_pmem::Layer for LosesRecord {
    type Inner = Mapping;

    fn inner(&self) -> &Mapping {
        &self.inner
    }

    fn copy(&self, at: PoolOffset, bytes: &[u8]) {
        if !self.log.contains(&at.get()) || !self.is_armed.swap(false, Ordering::SeqCst) {
            return Medium::copy(&*self.inner, at, bytes);
        }
        self.is_storing.store(true, Ordering::SeqCst);
        while self.begun.load(Ordering::SeqCst) < WRITERS {
            thread::yield_now();
        }
        // Time for the others to come as far as they can. The test holds without it, too.
        thread::sleep(Duration::from_millis(50));
        Fault { kind: FaultKind::Poison, at, len: bytes.len() as u64 }.raise();
    }
}

#[test]
fn no_write_returns_after_a_lost_record() {
    let disk = Disk::new(4 << 20, 4096, Durability::Commit);
    let log = disk.geometry.log_off().get()..disk.geometry.log_off().get() + disk.geometry.log_len();
    let medium = Arc::new(LosesRecord {
        inner: Arc::clone(&disk.medium),
        log,
        is_armed: AtomicBool::new(false),
        is_storing: AtomicBool::new(false),
        begun: AtomicU64::new(0),
    });
    let blocks = Blocks::open(Arc::clone(&medium), &disk.geometry, UUID, [7; 2]).unwrap().0;
    medium.is_armed.store(true, Ordering::SeqCst);
    let (lost, others) = thread::scope(|scope| {
        let (blocks, medium) = (&blocks, &medium);
        let lost = scope.spawn(|| blocks.write(0, &block(blocks, 1)));
        let write = |lba: u64| {
            while !medium.is_storing.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            medium.begun.fetch_add(1, Ordering::SeqCst);
            blocks.write(lba, &block(blocks, lba))
        };
        let others: Vec<_> = (1..=WRITERS).map(|lba| scope.spawn(move || write(lba))).collect();
        let others: Vec<_> = others.into_iter().map(|writer| writer.join().unwrap()).collect();
        (lost.join().unwrap(), others)
    });
    assert!(matches!(lost, Err(BlocksError::InDoubt(_))), "{lost:?}");
    drop(blocks);
    let blocks = disk.open();
    for (lba, other) in (1..).zip(others) {
        match other {
            Ok(()) => assert_eq!(read(&blocks, lba), block(&blocks, lba), "block {lba} is lost"),
            Err(error) => assert!(matches!(error, BlocksError::Poisoned), "{error:?}"),
        }
    }
}

/// A flush makes records durable, and recovery must not take one of them for torn, however many writes overlap with the flushes.
#[test]
fn rot_of_flushed_blocks_is_found_beside_writers() {
    let disk = Disk::new(16 << 20, 512, Durability::Commit);
    let blocks = disk.open();
    blocks.write(0, &block(&blocks, 1)).unwrap();
    blocks.close().unwrap();
    let blocks = disk.open();
    let tag = 0x7e57_7e57_7e57;
    blocks.write(0, &block(&blocks, tag)).unwrap();
    // So many records that a flush of all of them makes a checkpoint, if no flush before had the log for itself.
    const RECORDS: u64 = 3000;
    const WRITERS: u64 = 4;
    let (written, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    let lba = 1 + written.fetch_add(1, Ordering::Relaxed) % RECORDS;
                    blocks.write(lba, &block(&blocks, lba)).unwrap();
                }
            });
        }
        let mut before = 0;
        // Each writer has one begun that may not be in the log yet.
        while before < RECORDS + WRITERS {
            before = written.load(Ordering::Relaxed);
            blocks.flush().unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
    });
    drop(blocks);
    let len = disk.medium.memory().len();
    let at = (0..len).step_by(64).find(|at| disk.word(*at) == tag && disk.word(at + 504) == tag).unwrap();
    disk.put(at, &[0xff; 100]);
    let found = disk.try_open().and_then(|blocks| blocks.read(0, &mut [0; 512]));
    assert!(found.is_err(), "the content before a flushed write is returned");
}
