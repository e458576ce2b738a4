//! A power cut inside of the recovery, and inside of the recovery after it, changes nothing of its result.

mod fixture;
mod heap;
mod subject;

use fixture::{LANES, Pool, SIZE, UNDO_OFF, WORDS, left_by_a_crash};
use lode_layout::{PmdkUlog, PoolOffset};
use lode_obj::{ObjView, recover};
use lode_pmem::Medium;
use lode_sim::{Machine, Recording, SimMedium};
use lode_testing::{budget, memory, seed};

fn simulated(bytes: &[u8], machine: Machine) -> SimMedium {
    let medium = SimMedium::new(SIZE, machine).expect("memory");
    medium.store(PoolOffset::NULL, bytes);
    medium
}

/// Recovers what a power cut left, and compares all bytes with those of a recovery that was not cut. The redo logs apart: a power cut
/// may leave half of the end of one, which is none that is in force.
fn check_recovered(medium: &SimMedium, want: &[u8]) -> Result<(), String> {
    recover(medium).map_err(|error| error.to_string())?;
    let in_force = ObjView::open(medium).and_then(|view| view.needs_recovery());
    if in_force.map_err(|error| error.to_string())? {
        return Err("a log is in force after the recovery".to_owned());
    }
    let mut found = memory::bytes(medium);
    for lane in 0..2 {
        let redo = (LANES + lane * PmdkUlog::LANE_LEN) as usize..;
        let len = UNDO_OFF as usize;
        found[redo.clone()][..len].copy_from_slice(&want[redo][..len]);
    }
    if found == want {
        return Ok(());
    }
    let at = found.iter().zip(want).position(|(found, want)| found != want).unwrap_or(0);
    Err(format!("byte {at:#x} is {:#x}, not {:#x}", found[at], want[at]))
}

/// Cuts the recovery of a pool everywhere, and one in `nested` of the recoveries after it. Returns the images, or what is wrong with one.
fn explore(machine: Machine, nested: u64, seed: u64) -> Result<u64, String> {
    let Pool { bytes } = left_by_a_crash();
    let reference = memory::from_bytes(&bytes);
    recover(&reference).map_err(|error| error.to_string())?;
    let want = memory::bytes(&reference);
    let medium = simulated(&bytes, machine);
    let (recording, recovered) = Recording::of(&medium, || recover(&medium));
    recovered.map_err(|error| error.to_string())?;
    let (mut images, mut wrong) = (0, Ok(()));
    recording.cut(seed, |left, _| {
        images += 1;
        if wrong.is_err() {
            return;
        }
        if images % nested == 0 {
            let again = simulated(&memory::bytes(left), machine);
            let (recording, _) = Recording::of(&again, || recover(&again));
            recording.cut(seed + images, |left, _| {
                images += 1;
                if wrong.is_ok() {
                    wrong = check_recovered(left, &want);
                }
            });
        } else {
            wrong = check_recovered(left, &want);
        }
    });
    wrong.map(|()| images)
}

#[test]
fn cut_recoveries_are_completed() {
    let nested = (180.0 / budget()).max(1.0) as u64;
    for machine in Machine::ALL {
        let images = explore(machine, nested, seed(1)).unwrap_or_else(|wrong| panic!("{machine}: {wrong}"));
        println!("{machine}: {images} images");
        assert!(images > 200, "{images}");
    }
}

#[test]
fn recovery_is_as_the_format_says() {
    let medium = memory::from_bytes(&left_by_a_crash().bytes);
    let done = recover(&medium).unwrap();
    assert_eq!((done.redone, done.undone, done.extensions, done.footers, done.grown_zones), (2, 2, 3, 2, 1));
    let view = ObjView::open(&medium).unwrap();
    assert!(!view.needs_recovery().unwrap());
    let word = |at: u64| medium.memory().reading(|memory| memory.load8(PoolOffset::new(WORDS + at))).unwrap();
    assert_eq!([word(0), word(8), word(16), word(1000)], [7, 9, u64::MAX, 0xF0]);
    assert_eq!([word(2048), word(4096 + 800)], [0x0101_0101_0101_0101, 0x0202_0202_0202_0202]);
    assert_eq!(
        [word(6000), word(7000), word(7104)],
        [0x0303_0303_0303_0303, 0x0404_0404_0404_0404, u64::MAX]
    );
    assert_eq!(recover(&medium).unwrap(), lode_obj::Recovery::default());
}

/// The explorer finds every seeded bug. Built with `--cfg lode_bugs`.
#[cfg(lode_bugs)]
#[test]
fn every_seeded_bug_is_found() {
    for bug in lode_obj::bugs::ALL {
        let machine = Machine::ALL[0];
        let found = bug.plant(|| {
            let fresh = memory::from_bytes(&left_by_a_crash().bytes);
            let is_done = recover(&fresh).is_ok()
                && ObjView::open(&fresh).is_ok_and(|view| view.needs_recovery() == Ok(false));
            !is_done || word_of_a_torn_log(&fresh) || explore(machine, 100, seed(1)).is_err()
        });
        assert!(bug.was_reached() && found, "{bug}");
    }
}

#[cfg(lode_bugs)]
fn word_of_a_torn_log(medium: &impl Medium) -> bool {
    medium.memory().reading(|memory| memory.load8(PoolOffset::new(WORDS + 16))) != Ok(u64::MAX)
}
