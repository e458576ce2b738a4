//! The explorer finds every seeded bug of the log. Built with `--cfg lode_bugs`.
#![cfg(lode_bugs)]

use lode_layout::bug::Bug;
use lode_log::bugs;
use lode_log::explore::LogSubject;
use lode_log::pmdk::explore::PmemLogSubject;
use lode_pmem::Durability;
use lode_sim::{Budget, Cpu, Machine, Setup, Subject, explore};

const LINE: Machine = Machine { cpu: Cpu::X86, durability: Durability::Line };
const COMMIT: Machine = Machine { cpu: Cpu::X86, durability: Durability::Commit };

fn log(durability: Durability) -> LogSubject {
    LogSubject::new(2048, durability)
}

fn is_found<S: Subject>(bug: &'static Bug, subject: &S, machine: Machine, threads: usize) {
    let report = bug.plant(|| {
        (1..=40).map(|seed| seed * 1000).find_map(|seed| {
            let budget = Budget { images: 3_000, seconds: 20.0 };
            let operations = 60 / threads as u64;
            let failing_drains = machine.durability == Durability::Commit;
            let setup =
                Setup { machine, threads, operations, budget, seed, failing_drains, ..Setup::default() };
            explore(subject, &setup).violation
        })
    });
    assert!(bug.was_reached(), "{bug}: the wrong code was never run");
    let violation = report.unwrap_or_else(|| panic!("{bug}: not found"));
    println!("{bug}: {violation}");
}

macro_rules! found {
    ($($test:ident: $bug:ident on $machine:ident with $threads:literal, $subject:path;)+) => {
        $(#[test]
        fn $test() {
            is_found(&bugs::$bug, &$subject($machine.durability), $machine, $threads);
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
    table_not_covered: TABLE_NOT_COVERED on LINE with 1, log;
    table_not_covered_with_cache: TABLE_NOT_COVERED on COMMIT with 1, log;
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
