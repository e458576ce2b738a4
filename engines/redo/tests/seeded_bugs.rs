//! The explorer finds every seeded bug of memory that programs store to in place. Built with `--cfg lode_bugs`.
#![cfg(lode_bugs)]

use lode_layout::bug::Bug;
use lode_pmem::Durability;
use lode_redo::bugs;
use lode_redo::explore::CoverSubject;
use lode_sim::{Cpu, Machine, Setup, find_seeded_bug, find_seeded_bug_by_poison};

const LINE: Machine = Machine { cpu: Cpu::X86, durability: Durability::Line };

fn is_found(bug: &'static Bug, threads: usize) {
    is_found_in(&CoverSubject::new(LINE.durability), bug, threads);
}

/// Finds a bug of careful mode.
fn is_found_carefully(bug: &'static Bug, threads: usize) {
    is_found_in(&CoverSubject::new(LINE.durability).careful(), bug, threads);
}

/// Finds a bug of a log that moves.
fn is_found_moving(bug: &'static Bug, threads: usize) {
    is_found_in(&CoverSubject::new(LINE.durability).moving(), bug, threads);
}

fn is_found_in(subject: &CoverSubject, bug: &'static Bug, threads: usize) {
    let setup = Setup {
        machine: LINE,
        threads,
        operations: 60 / threads as u64,
        images: 3_000,
        seed: 1000,
        ..Setup::default()
    };
    match find_seeded_bug(bug, subject, &setup, 40) {
        Ok(violation) => println!("{bug}: {violation}"),
        Err(error) => panic!("{bug}: {error}"),
    }
}

/// Finds a bug in runs that lose a line of the medium.
fn is_found_by_poison(bug: &'static Bug, threads: usize, seed: u64) {
    let setup = Setup { machine: LINE, threads, operations: 12, images: 1_000, seed, ..Setup::default() };
    match find_seeded_bug_by_poison(bug, &CoverSubject::closed(LINE.durability), &setup, 40) {
        Ok(violation) => println!("{bug}: {violation}"),
        Err(error) => panic!("{bug}: {error}"),
    }
}

macro_rules! found {
    ($($test:ident: $bug:ident $with:ident $threads:literal $(from $seed:literal)?;)+) => {
        $(#[test]
        fn $test() {
            found!(@$with &bugs::$bug, $threads $(, $seed)?);
        })+

        #[test]
        fn every_seeded_bug_has_a_test() {
            let tested = [$(bugs::$bug.name()),+];
            for bug in bugs::OF_COVER {
                assert!(tested.contains(&bug.name()), "{bug}");
            }
        }
    };
    (@with $bug:expr, $threads:literal) => {
        is_found($bug, $threads)
    };
    (@carefully_with $bug:expr, $threads:literal) => {
        is_found_carefully($bug, $threads)
    };
    (@moving_with $bug:expr, $threads:literal) => {
        is_found_moving($bug, $threads)
    };
    (@by_poison_with $bug:expr, $threads:literal, $seed:literal) => {
        is_found_by_poison($bug, $threads, $seed)
    };
}

found! {
    image_left_out: IMAGE_LEFT_OUT with 1;
    image_before_claim: IMAGE_BEFORE_CLAIM with 3;
    claimed_taken_for_covered: CLAIMED_TAKEN_FOR_COVERED with 3;
    content_before_number: CONTENT_BEFORE_NUMBER with 3;
    unit_logged_whole: UNIT_LOGGED_WHOLE with 2;
    open_after_commit: OPEN_AFTER_COMMIT with 3;
    object_not_claimed: OBJECT_NOT_CLAIMED with 2;
    large_object_flushed: LARGE_OBJECT_FLUSHED with 2;
    persist_in_place: PERSIST_IN_PLACE with 1;
    state_not_asked_again: STATE_NOT_ASKED_AGAIN with 3;
    old_taken_for_free: OLD_TAKEN_FOR_FREE with 2;
    old_without_image: OLD_WITHOUT_IMAGE with 2;
    persist_of_open_bytes: PERSIST_OF_OPEN_BYTES with 1;
    commit_not_awaited: COMMIT_NOT_AWAITED with 3;
    end_not_noticed: END_NOT_NOTICED with 3;
    open_forgotten: OPEN_FORGOTTEN with 2;
    others_bytes_forgotten: OTHERS_BYTES_FORGOTTEN with 3;
    one_epoch: ONE_EPOCH with 2;
    abort_without_lane: ABORT_WITHOUT_LANE with 3;
    commits_before_images: COMMITS_BEFORE_IMAGES with 1;
    epoch_not_begun: EPOCH_NOT_BEGUN with 1;
    sealed_by_lane: SEALED_BY_LANE with 2;
    settled_before_flush: SETTLED_BEFORE_FLUSH carefully_with 2;
    words_left_pending: WORDS_LEFT_PENDING carefully_with 2;
    abort_not_settled: ABORT_NOT_SETTLED carefully_with 2;
    settled_replayed: SETTLED_REPLAYED carefully_with 1;
    moved_without_images: MOVED_WITHOUT_IMAGES moving_with 2;
    slot_names_first_area: SLOT_NAMES_FIRST_AREA moving_with 1;
    logged_after_failure: LOGGED_AFTER_FAILURE by_poison_with 2 from 36_000;
}
