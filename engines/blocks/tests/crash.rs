//! A power cut leaves each block whole: its old content or its new one.

use lode_blocks::explore::BlocksSubject;
use lode_pmem::Durability;
use lode_sim::{Cpu, Machine, Setup, WriteCache, explore, explore_poison, scaled_images};
use lode_testing::seed;

/// Size of the smallest pool: 8 blocks of 512 bytes, and 8 spares.
const SMALL: u64 = 64 << 10;

const COMMIT: Machine = Machine { cpu: Cpu::X86, durability: Durability::Commit };

fn subject(machine: Machine, size: u64, block_size: u32) -> BlocksSubject {
    let is_cached = machine.durability == Durability::Commit;
    let cache = if is_cached { WriteCache::Volatile } else { WriteCache::None };
    BlocksSubject { size, block_size, cache, grown: 0, large_request: 0 }
}

/// Explores a subject with so many threads, which share the operations.
fn survives(subject: BlocksSubject, machine: Machine, threads: usize, operations: u64, images: u64) {
    let images = scaled_images(images);
    let failing_drains = machine.durability == Durability::Commit;
    let seed = seed(1);
    let setup = Setup { machine, threads, operations, seed, images, failing_drains, ..Setup::default() };
    let report = explore(&subject, &setup);
    println!("{subject:?}, {machine}, {threads} threads: {report}");
    assert!(report.violation.is_none(), "{}", report.violation.expect("just seen"));
}

fn survives_power_cuts(size: u64, block_size: u32, operations: u64, images: u64) {
    for machine in Machine::ALL {
        for threads in 1..=3 {
            let subject = subject(machine, size, block_size);
            survives(subject, machine, threads, operations / threads as u64, images);
        }
    }
}

#[test]
fn blocks_are_never_torn_or_lost() {
    survives_power_cuts(SMALL, 512, 60, 3_000);
}

#[test]
fn blocks_of_several_sectors_are_never_torn() {
    survives_power_cuts(2 * SMALL, 1024, 36, 1_000);
}

/// A pool grows while threads write its blocks: after a power cut it has the old or the new size.
#[test]
fn growing_pools_lose_nothing() {
    for machine in Machine::ALL {
        for threads in 1..=3 {
            let subject = BlocksSubject { grown: SMALL + (16 << 10), ..subject(machine, SMALL, 512) };
            survives(subject, machine, threads, 36 / threads as u64, 2_000);
        }
    }
}

/// A flush of so many writes needs several records, which one sync makes durable.
#[test]
fn several_records_of_one_flush_are_never_torn() {
    let subject = BlocksSubject { large_request: 110, ..subject(COMMIT, 160 << 10, 512) };
    for threads in 1..=2 {
        survives(subject, COMMIT, threads, 8, 1_000);
    }
}

/// Records come around the end of the ring, some of them before a sync.
#[test]
fn records_around_the_end_of_the_ring_are_never_torn() {
    let subject = BlocksSubject { large_request: 60, ..subject(COMMIT, 160 << 10, 512) };
    for threads in 1..=2 {
        survives(subject, COMMIT, threads, 240 / threads as u64, 2_000);
    }
}

/// A line of a block, of the map or of the log is lost while threads use the blocks.
#[test]
fn lost_line_is_reported_and_loses_nothing_else() {
    for machine in Machine::ALL {
        for threads in 1..=3 {
            let subject = subject(machine, SMALL, 512);
            let images = scaled_images(300);
            let seed = seed(1);
            let setup = Setup { machine, threads, operations: 12, seed, images, ..Setup::default() };
            let report = explore_poison(&subject, &setup);
            println!("{machine}, {threads} threads: {report}");
            assert!(report.violation.is_none(), "{}", report.violation.expect("just seen"));
        }
    }
}

/// The line is lost after recovery has read a record that no sync proves, and before it writes it again.
#[test]
fn line_lost_while_recovery_writes_is_reported() {
    let subject = subject(COMMIT, SMALL, 512);
    let setup =
        Setup { machine: COMMIT, threads: 3, operations: 12, seed: 684, images: 1, ..Setup::default() };
    let report = explore_poison(&subject, &setup);
    assert_eq!(report.runs, 1);
    assert!(report.violation.is_none(), "{}", report.violation.expect("just seen"));
    assert_eq!(report.poisoned_runs, 1);
}
