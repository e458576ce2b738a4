//! The explorer finds every seeded bug of the table. Built with `--cfg lode_bugs`.
#![cfg(lode_bugs)]

use lode_btt::bugs;
use lode_btt::explore::BttSubject;
use lode_layout::bug::Bug;
use lode_nvdimm::BttDialect;
use lode_pmem::Durability;
use lode_sim::{Cpu, Machine, Setup, WriteCache, find_seeded_bug};

const LINE: Machine = Machine { cpu: Cpu::X86, durability: Durability::Line };
const ARM: Machine = Machine { cpu: Cpu::Arm, durability: Durability::Line };
const COMMIT: Machine = Machine { cpu: Cpu::X86, durability: Durability::Commit };

const TABLE: BttSubject = BttSubject::SMALL;
/// The first write makes it.
const NEW_TABLE: BttSubject = BttSubject { is_lazy: true, ..TABLE };
/// A block pool of PMDK.
const POOL: BttSubject = BttSubject { dialect: BttDialect::Pmdk, ..TABLE };
/// A table with a block that is written in place.
const IN_PLACE: BttSubject = BttSubject { in_place: true, ..TABLE };

/// Few runs show some bugs; these tests begin with the seed of one of those.
fn is_found(bug: &'static Bug, subject: BttSubject, machine: Machine, threads: usize, seed: u64) {
    let is_commit = machine.durability == Durability::Commit;
    let cache = if is_commit { WriteCache::Volatile } else { WriteCache::None };
    let subject = BttSubject { cache, ..subject };
    let images = if subject.in_place { 20_000 } else { 5_000 };
    let operations = if subject.is_lazy { 4 } else { 48 / threads as u64 };
    let failing_drains = is_commit;
    let setup = Setup { machine, threads, operations, images, seed, failing_drains, ..Setup::default() };
    match find_seeded_bug(bug, &subject, &setup, 40) {
        Ok(violation) => println!("{bug}: {violation}"),
        Err(error) => panic!("{bug}: {error}"),
    }
}

macro_rules! found {
    ($($test:ident: $bug:ident in $table:ident on $machine:ident with $threads:literal $(from $seed:literal)?;)+) => {
        $(#[test]
        fn $test() {
            let seed = [$($seed,)? 1000][0];
            is_found(&bugs::$bug, $table, $machine, $threads, seed);
        })+

        #[test]
        fn every_seeded_bug_has_a_test() {
            let tested = [$(bugs::$bug.name()),+];
            for bug in bugs::ALL {
                assert!(tested.contains(&bug.name()), "{bug}");
            }
        }
    };
}

found! {
    data_not_drained: DATA_NOT_DRAINED in TABLE on LINE with 1;
    data_not_synced: DATA_NOT_DRAINED in TABLE on COMMIT with 1;
    flog_not_drained: FLOG_NOT_DRAINED in TABLE on LINE with 1;
    flog_not_synced: FLOG_NOT_DRAINED in TABLE on COMMIT with 1;
    map_before_flog: MAP_BEFORE_FLOG in TABLE on LINE with 1;
    flog_halves_unordered: FLOG_HALVES_UNORDERED in TABLE on ARM with 1;
    slot_reused_before_map: SLOT_REUSED_BEFORE_MAP in TABLE on LINE with 3;
    old_entry_not_durable: OLD_ENTRY_NOT_DURABLE in TABLE on LINE with 3;
    block_twice_in_batch: BLOCK_TWICE_IN_BATCH in TABLE on LINE with 1;
    batch_flog_not_flushed: BATCH_FLOG_NOT_FLUSHED in TABLE on LINE with 1;
    seq_not_advanced: SEQ_NOT_ADVANCED in TABLE on LINE with 1;
    flog_place_not_changed: FLOG_PLACE_NOT_CHANGED in TABLE on LINE with 1;
    readers_not_awaited: READERS_NOT_AWAITED in TABLE on LINE with 3 from 7001;
    read_not_repeated: READ_NOT_REPEATED in TABLE on LINE with 3 from 15006;
    zero_not_drained: ZERO_NOT_DRAINED in TABLE on LINE with 1;
    zeros_after_drain: ZEROS_AFTER_DRAIN in TABLE on LINE with 1;
    lane_free_before_flush: LANE_FREE_BEFORE_FLUSH in TABLE on COMMIT with 1;
    flush_not_awaited: FLUSH_NOT_AWAITED in TABLE on COMMIT with 3;
    failed_sync_ignored: FAILED_SYNC_IGNORED in TABLE on COMMIT with 1;
    flog_ignored: FLOG_IGNORED in TABLE on LINE with 1;
    finished_before_drain: FINISHED_BEFORE_DRAIN in TABLE on LINE with 1;
    recovery_not_drained: RECOVERY_NOT_DRAINED in TABLE on LINE with 3;
    info_before_layout: INFO_BEFORE_LAYOUT in NEW_TABLE on LINE with 1;
    flog_without_state: FLOG_WITHOUT_STATE in POOL on LINE with 1;
    visible_state_in_flog: VISIBLE_STATE_IN_FLOG in POOL on COMMIT with 1;
    in_place_not_held: IN_PLACE_NOT_HELD in IN_PLACE on LINE with 3 from 14080;
    in_place_not_held_on_commit: IN_PLACE_NOT_HELD in IN_PLACE on COMMIT with 3 from 8048;
    in_place_not_drained: IN_PLACE_NOT_DRAINED in IN_PLACE on LINE with 1;
    in_place_not_noted: IN_PLACE_NOT_NOTED in IN_PLACE on COMMIT with 1 from 1027;
}
