//! The explorer finds every seeded bug of the log. Built with `--cfg lode_bugs`.
#![cfg(lode_bugs)]

use lode_layout::bug::Bug;
use lode_log::bugs;
use lode_log::explore::LogSubject;
use lode_log::pmdk::explore::PmemLogSubject;
use lode_pmem::Durability;
use lode_sim::{Cpu, Machine, Setup, Subject, find_seeded_bug};

const LINE: Machine = Machine { cpu: Cpu::X86, durability: Durability::Line };
const COMMIT: Machine = Machine { cpu: Cpu::X86, durability: Durability::Commit };

fn log(durability: Durability) -> LogSubject {
    LogSubject::new(2048, durability)
}

/// Few runs show some bugs; these tests begin with the seed of one of those.
fn is_found<S: Subject>(bug: &'static Bug, subject: &S, machine: Machine, threads: usize, seed: u64) {
    let failing_drains = machine.durability == Durability::Commit;
    let operations = 60 / threads as u64;
    let setup =
        Setup { machine, threads, operations, images: 3_000, seed, failing_drains, ..Setup::default() };
    match find_seeded_bug(bug, subject, &setup, 40) {
        Ok(violation) => println!("{bug}: {violation}"),
        Err(error) => panic!("{bug}: {error}"),
    }
}

macro_rules! found {
    ($($test:ident: $bug:ident on $machine:ident with $threads:literal, $subject:path $(, from $seed:literal)?;)+) => {
        $(#[test]
        fn $test() {
            let seed = [$($seed,)? 1000][0];
            is_found(&bugs::$bug, &$subject($machine.durability), $machine, $threads, seed);
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
    append_not_drained: APPEND_NOT_DRAINED on LINE with 1, log;
    returned_before_earlier: RETURNED_BEFORE_EARLIER on LINE with 3, log;
    epoch_kept: EPOCH_KEPT on LINE with 1, log;
    epoch_kept_with_cache: EPOCH_KEPT on COMMIT with 1, log;
    content_not_compared: CONTENT_NOT_COMPARED on LINE with 1, log;
    table_not_covered: TABLE_NOT_COVERED on LINE with 1, log, from 30001;
    table_not_covered_with_cache: TABLE_NOT_COVERED on COMMIT with 1, log, from 4004;
    index_not_compared: INDEX_NOT_COMPARED on LINE with 1, log;
    head_frame_reused: HEAD_FRAME_REUSED on LINE with 1, log;
    proves_all_before: PROVES_ALL_BEFORE on LINE with 3, log;
    head_before_state: HEAD_BEFORE_STATE on LINE with 3, log;
    end_not_durable: END_NOT_DURABLE on COMMIT with 1, log;
    position_not_compared: POSITION_NOT_COMPARED on LINE with 1, log;
    persist_not_awaited: PERSIST_NOT_AWAITED on COMMIT with 3, log;
    followed_before_durable: FOLLOWED_BEFORE_DURABLE on COMMIT with 1, log;
    full_not_checked: FULL_NOT_CHECKED on LINE with 1, log;
    pmdk_bytes_not_drained: PMDK_BYTES_NOT_DRAINED on LINE with 1, PmemLogSubject::new;
    pmdk_bytes_not_drained_with_cache: PMDK_BYTES_NOT_DRAINED on COMMIT with 1, PmemLogSubject::new;
    pmdk_word_not_drained: PMDK_WORD_NOT_DRAINED on LINE with 1, PmemLogSubject::new;
    pmdk_later_bytes_committed: PMDK_LATER_BYTES_COMMITTED on COMMIT with 3, PmemLogSubject::new;
}
