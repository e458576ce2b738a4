//! The explorer finds every seeded bug of the blocks. Built with `--cfg lode_bugs`.
#![cfg(lode_bugs)]

use lode_blocks::bugs;
use lode_blocks::explore::BlocksSubject;
use lode_layout::bug::Bug;
use lode_pmem::Durability;
use lode_redo::bugs as log_bugs;
use lode_sim::{Cpu, Machine, Setup, WriteCache, find_seeded_bug};

const LINE: Machine = Machine { cpu: Cpu::X86, durability: Durability::Line };
const COMMIT: Machine = Machine { cpu: Cpu::X86, durability: Durability::Commit };

/// The smallest pool.
const SMALL: BlocksSubject =
    BlocksSubject { size: 64 << 10, block_size: 512, cache: WriteCache::None, grown: 0, large_request: 0 };
/// A pool with requests for which a flush needs several records.
const LARGE: BlocksSubject = BlocksSubject { size: 160 << 10, large_request: 110, ..SMALL };
/// A pool whose records come around the end of the ring.
const WRAPPING: BlocksSubject = BlocksSubject { large_request: 60, ..LARGE };
/// The smallest pool with many large requests. They use up the spares, so that data blocks are written again all the time.
const BUSY: BlocksSubject = BlocksSubject { large_request: 8, ..SMALL };
/// A pool that grows.
const GROWING: BlocksSubject = BlocksSubject { grown: 80 << 10, ..SMALL };

/// Few runs show some bugs; these tests begin with the seed of one of those.
fn is_found(bug: &'static Bug, subject: BlocksSubject, machine: Machine, threads: usize, seed: u64) {
    let is_commit = machine.durability == Durability::Commit;
    let cache = if is_commit { WriteCache::Volatile } else { WriteCache::None };
    let subject = BlocksSubject { cache, ..subject };
    // A wrong read shows in the run itself: many runs, with one image of each.
    let (explorations, images) =
        if subject.large_request == BUSY.large_request { (500, 1) } else { (40, 5_000) };
    let operations = match subject.large_request {
        101.. => 8,
        9.. => 240,
        8 => 120,
        _ => 60 / threads as u64,
    };
    let failing_drains = is_commit;
    let setup = Setup { machine, threads, operations, images, seed, failing_drains, ..Setup::default() };
    match find_seeded_bug(bug, &subject, &setup, explorations) {
        Ok(violation) => println!("{bug}: {violation}"),
        Err(error) => panic!("{bug}: {error}"),
    }
}

macro_rules! found {
    ($($test:ident: $from:ident::$bug:ident in $pool:ident on $machine:ident with $threads:literal $(from $seed:literal)?;)+) => {
        $(#[test]
        fn $test() {
            let seed = [$($seed,)? 1000][0];
            is_found(&$from::$bug, $pool, $machine, $threads, seed);
        })+

        #[test]
        fn every_seeded_bug_has_a_test() {
            let tested = [$($from::$bug.name()),+];
            for bug in bugs::ALL.iter().chain(&log_bugs::OF_PAYLOADS) {
                assert!(tested.contains(&bug.name()), "{bug}");
            }
        }
    };
}

found! {
    map_before_record: bugs::MAP_BEFORE_RECORD in SMALL on LINE with 1;
    reused_before_checkpoint: bugs::REUSED_BEFORE_CHECKPOINT in SMALL on LINE with 3 from 4003;
    checksum_of_a_part: bugs::CHECKSUM_OF_A_PART in SMALL on LINE with 1;
    record_without_payload: bugs::RECORD_WITHOUT_PAYLOAD in SMALL on LINE with 1;
    record_without_payload_with_cache: bugs::RECORD_WITHOUT_PAYLOAD in SMALL on COMMIT with 1;
    payload_unchecked: log_bugs::PAYLOAD_UNCHECKED in SMALL on LINE with 3;
    last_payload_only: log_bugs::LAST_PAYLOAD_ONLY in LARGE on COMMIT with 1;
    deferred_not_written_back: log_bugs::DEFERRED_NOT_WRITTEN_BACK in SMALL on COMMIT with 1;
    lane_slot_reused_before_slot: log_bugs::REUSE_BEFORE_SLOT in SMALL on LINE with 3;
    readers_not_awaited: bugs::READERS_NOT_AWAITED in BUSY on LINE with 3 from 157000;
    read_not_repeated: bugs::READ_NOT_REPEATED in BUSY on COMMIT with 3 from 250000;
    zero_not_logged: bugs::ZERO_NOT_LOGGED in SMALL on LINE with 1;
    stripes_not_held: bugs::STRIPES_NOT_HELD in SMALL on LINE with 3;
    flush_of_own_writes: bugs::FLUSH_OF_OWN_WRITES in SMALL on COMMIT with 3;
    forgotten_before_checkpoint: bugs::FORGOTTEN_BEFORE_CHECKPOINT in SMALL on COMMIT with 1;
    replaced_word_of_pool: bugs::REPLACED_WORD_OF_POOL in SMALL on COMMIT with 1;
    record_stored_at_sync: log_bugs::RECORD_STORED_AT_SYNC in SMALL on COMMIT with 1;
    padded_before_drain: log_bugs::PADDED_BEFORE_DRAIN in SMALL on COMMIT with 3;
    wrapped_before_drain: log_bugs::WRAPPED_BEFORE_DRAIN in WRAPPING on COMMIT with 1 from 6004;
    replayed_before_drain: log_bugs::REPLAYED_BEFORE_DRAIN in SMALL on COMMIT with 1;
    left_in_clean_pages: log_bugs::LEFT_IN_CLEAN_PAGES in SMALL on COMMIT with 3;
    segment_not_drained: bugs::SEGMENT_NOT_DRAINED in GROWING on LINE with 1 from 12004;
    segment_not_synced: bugs::SEGMENT_NOT_DRAINED in GROWING on COMMIT with 1 from 5002;
    new_map_not_cleared: bugs::NEW_MAP_NOT_CLEARED in GROWING on LINE with 1;
}
