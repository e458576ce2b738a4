//! The explorer finds every seeded bug of the heap. Built with `--cfg lode_bugs`.
#![cfg(lode_bugs)]

mod migrating;

use lode_heap::bugs;
use lode_heap::explore::{GrowingSubject, HeapSubject, IsolationSubject, LaterSubject, LogSubject};
use lode_layout::bug::Bug;
use lode_pmem::Durability;
use lode_sim::{Cpu, Machine, Setup, Subject, find_seeded_bug};
use migrating::MigratingSubject;

const LINE: Machine = Machine { cpu: Cpu::X86, durability: Durability::Line };
const COMMIT: Machine = Machine { cpu: Cpu::X86, durability: Durability::Commit };

const LOG: LogSubject = LogSubject { size: 0x10000, log_len: 0x4000 };
const ISOLATION: IsolationSubject = IsolationSubject { size: 0x30000 };
const LATER: LaterSubject = LaterSubject { size: 0x30000 };
const HEAP: HeapSubject = HeapSubject { size: 0x30000, sizes: 5, later: false };
const MIGRATING: MigratingSubject = MigratingSubject { size: 0x30000, notes: false };
const SMALL_GROWING: GrowingSubject =
    GrowingSubject { heap: HeapSubject { size: 0x38000, sizes: 6, later: false }, size_max: 0x90000 };
const GROWING: GrowingSubject =
    GrowingSubject { heap: HeapSubject { size: 0x60000, sizes: 5, later: false }, size_max: 0x90000 };

/// Number of explorations in which a bug has to be found.
const EXPLORATIONS: u64 = 40;

/// Few runs show some bugs; these tests begin with the seed of one of those.
fn is_found(bug: &'static Bug, subject: &impl Subject, machine: Machine, threads: usize, seed: u64) {
    let failing_drains = machine.durability == Durability::Commit;
    let operations = 150 / threads as u64;
    let setup =
        Setup { machine, threads, operations, images: 20_000, seed, failing_drains, ..Setup::default() };
    match find_seeded_bug(bug, subject, &setup, EXPLORATIONS) {
        Ok(violation) => println!("{bug}: {violation}"),
        Err(error) => panic!("{bug}: {error}"),
    }
}

macro_rules! found {
    ($($test:ident: $bug:ident in $subject:ident on $machine:ident with $threads:literal $(from $seed:literal)?;)+) => {
        $(#[test]
        fn $test() {
            let seed = [$($seed,)? 1000][0];
            is_found(&bugs::$bug, &$subject, $machine, $threads, seed);
        })+

        #[test]
        fn every_seeded_bug_has_a_test() {
            let tested = [$(bugs::$bug.name()),+];
            for bug in bugs::ALL.iter().chain(&bugs::OF_HEAP) {
                assert!(tested.contains(&bug.name()), "{bug}");
            }
        }
    };
}

found! {
    write_back_before_drain: WRITE_BACK_BEFORE_DRAIN in LOG on LINE with 1;
    epoch_not_in_checksum: EPOCH_NOT_IN_CHECKSUM in LOG on LINE with 1;
    torn_record: TORN_RECORD in LOG on LINE with 1;
    epoch_not_drained: EPOCH_NOT_DRAINED in LOG on LINE with 1;
    checkpoint_before_write_back: CHECKPOINT_BEFORE_WRITE_BACK in LOG on LINE with 3;
    checkpoint_without_flush: CHECKPOINT_WITHOUT_FLUSH in LOG on LINE with 1;
    checkpoint_without_drain: CHECKPOINT_WITHOUT_DRAIN in LOG on LINE with 1;
    reuse_before_slot: REUSE_BEFORE_SLOT in LOG on LINE with 3;
    early_lock_release: EARLY_LOCK_RELEASE in HEAP on LINE with 3;
    early_reuse: EARLY_REUSE in HEAP on LINE with 1;
    payload_unchecked: PAYLOAD_UNCHECKED in HEAP on LINE with 1;
    overwritten_payload_checked: OVERWRITTEN_PAYLOAD_CHECKED in HEAP on LINE with 2;
    spill_not_drained: SPILL_NOT_DRAINED in HEAP on LINE with 1 from 21000;
    group_commit_before_sync: GROUP_COMMIT_BEFORE_SYNC in LOG on COMMIT with 2;
    recovery_slot_before_drain: RECOVERY_SLOT_BEFORE_DRAIN in LOG on LINE with 1;
    replay_by_ring: REPLAY_BY_RING in LOG on LINE with 2;
    failed_sync_ignored: FAILED_SYNC_IGNORED in LOG on COMMIT with 2;
    log_moved_with_records: LOG_MOVED_WITH_RECORDS in GROWING on LINE with 1;
    log_moved_before_header: LOG_MOVED_BEFORE_HEADER in GROWING on LINE with 2;
    rings_added_before_slot: RINGS_ADDED_BEFORE_SLOT in GROWING on LINE with 3 from 14049;
    space_before_header: SPACE_BEFORE_HEADER in SMALL_GROWING on LINE with 3 from 4509;
    reads_not_validated: READS_NOT_VALIDATED in ISOLATION on LINE with 2;
    reads_not_extended: READS_NOT_EXTENDED in ISOLATION on LINE with 2;
    snapshot_without_lanes: SNAPSHOT_WITHOUT_LANES in ISOLATION on LINE with 3;
    snapshot_in_write_back: SNAPSHOT_IN_WRITE_BACK in ISOLATION on COMMIT with 3;
    snapshot_without_waiting_records: SNAPSHOT_WITHOUT_WAITING_RECORDS in ISOLATION on COMMIT with 3;
    snapshot_before_early_reads: SNAPSHOT_BEFORE_EARLY_READS in ISOLATION on COMMIT with 3 from 7033;
    word_kept_too_late: WORD_KEPT_TOO_LATE in ISOLATION on LINE with 2;
    snapshot_between_reads_and_number: SNAPSHOT_BETWEEN_READS_AND_NUMBER in ISOLATION on LINE with 3 from 15040;
    handed_on_without_words: HANDED_ON_WITHOUT_WORDS in ISOLATION on COMMIT with 3 from 20000;
    write_back_out_of_order: WRITE_BACK_OUT_OF_ORDER in ISOLATION on COMMIT with 3;
    replay_after_gap: REPLAY_AFTER_GAP in HEAP on COMMIT with 3 from 44030;
    returns_before_what_it_read: RETURNS_BEFORE_WHAT_IT_READ in ISOLATION on COMMIT with 3;
    checkpoint_over_waiting: CHECKPOINT_OVER_WAITING in LATER on COMMIT with 2;
    ticket_before_sync: TICKET_BEFORE_SYNC in LATER on COMMIT with 2;
    ticket_after_failed_sync: TICKET_AFTER_FAILED_SYNC in LATER on COMMIT with 2 from 2004;
    retyped_alone: RETYPED_ALONE in MIGRATING on LINE with 1;
}
