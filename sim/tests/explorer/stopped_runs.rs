//! Runs that do not end, and recoveries that fail by themselves, are told apart and end the exploration.

use lode_layout::PoolOffset;
use lode_pmem::{FaultScope, Gate, Medium, Readable};
use lode_sim::{Actor, Breach, Fate, Machine, Moment, Report, Setup, SimMedium, Stop, Subject, explore};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Behaviour of the threads of [`Odd`], or of its recovery.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Oddity {
    Nothing,
    SpinsForEver,
    WaitsForEver,
    Panics,
    LocksAcrossCalls,
    RecoveryPanics,
    RecoveryRefuses,
    RecoveryStoresOutside,
    RecoveryCounts,
    RecoveryMarks,
}

struct Odd(Oddity, AtomicU64);

struct Shared {
    medium: Arc<SimMedium>,
    lock: Mutex<()>,
    turns: AtomicU64,
}

impl Subject for Odd {
    type Engine = Shared;
    type Operation = ();
    type Contents = u64;
    type Legal = ();
    type Wrong = &'static str;
    type Error = &'static str;

    fn size(&self) -> u64 {
        4096
    }

    fn format(&self, _medium: Arc<SimMedium>) -> Result<(), &'static str> {
        Ok(())
    }

    fn start(&self, medium: Arc<SimMedium>) -> Result<Shared, &'static str> {
        Ok(Shared { medium, lock: Mutex::new(()), turns: AtomicU64::new(0) })
    }

    fn run(&self, shared: &Shared, actor: &mut Actor<'_, ()>) {
        let medium = &shared.medium;
        for round in 0..actor.operations {
            medium.store8(PoolOffset::new(8 * actor.thread as u64), round);
            match self.0 {
                Oddity::SpinsForEver => (0..u32::MAX).for_each(|round| medium.relax(round)),
                Oddity::WaitsForEver => medium.wait_while(&Gate::new(), &mut || true),
                Oddity::Panics if actor.thread == 1 => panic!("thread {} is odd", actor.thread),
                Oddity::LocksAcrossCalls => {
                    let _guard = shared.lock.lock();
                    medium.store8(PoolOffset::new(64), round);
                }
                // The other thread counts too, but makes no call of the medium.
                _ => {
                    let turn = shared.turns.fetch_add(1, Ordering::AcqRel);
                    (0..2).for_each(|round| medium.relax(round));
                    medium.wait_while(&Gate::new(), &mut || shared.turns.load(Ordering::Acquire) < turn);
                }
            }
        }
    }

    fn recover(&self, medium: Arc<SimMedium>) -> Result<u64, &'static str> {
        let count =
            medium.memory().reading(|memory| memory.load8(PoolOffset::new(128))).expect("no byte is lost");
        match self.0 {
            Oddity::RecoveryPanics => panic!("odd"),
            Oddity::RecoveryRefuses => return Err("odd"),
            Oddity::RecoveryStoresOutside => medium.store8(PoolOffset::new(4096), 1),
            Oddity::RecoveryMarks => {
                // Each image is recovered from twice, and only the second recovery sees the stores of the first.
                let is_second = self.1.fetch_add(1, Ordering::AcqRel) % 2 == 1;
                medium.store8(PoolOffset::new(128), 1);
                return Ok(u64::from((count == 1) != is_second));
            }
            Oddity::RecoveryCounts => medium.store8(PoolOffset::new(128), count + 1),
            _ => (),
        }
        Ok(count)
    }

    fn legal(&self, _moment: &Moment<()>) {}

    fn check(&self, _legal: &(), count: &u64) -> Result<(), &'static str> {
        if *count == 0 { Ok(()) } else { Err("what a recovery stored was not undone before the next image") }
    }
}

fn explored(oddity: Oddity, threads: usize) -> Report {
    let report = explore(
        &Odd(oddity, AtomicU64::new(0)),
        &Setup { threads, operations: 5, nested_one_in: 0, ..Setup::default() },
    );
    println!("{report}");
    report
}

fn fate(oddity: Oddity, threads: usize) -> Fate {
    explored(oddity, threads).violation.expect("a violation").fate
}

#[test]
fn threads_that_get_on_are_left_alone() {
    for threads in 1..=3 {
        assert_eq!(explored(Oddity::Nothing, threads).violation, None);
    }
}

#[test]
fn what_recoveries_store_is_undone_before_the_next_image() {
    assert_eq!(explored(Oddity::RecoveryMarks, 2).violation, None);
}

#[test]
fn threads_that_do_not_get_on_are_stopped() {
    assert!(matches!(fate(Oddity::SpinsForEver, 2), Fate::Stopped(Stop::Livelock { .. })));
    let Fate::Stopped(Stop::Deadlock { waiting, .. }) = fate(Oddity::WaitsForEver, 3) else {
        panic!("want a deadlock")
    };
    assert_eq!(waiting, [0, 1, 2]);
    for oddity in [Oddity::SpinsForEver, Oddity::WaitsForEver] {
        let Fate::Stopped(Stop::Panic { message, .. }) = fate(oddity, 1) else { panic!("want a panic") };
        assert_eq!(message, "the only thread waits for another one");
    }
}

#[test]
fn a_panic_of_one_thread_ends_all() {
    let message = "thread 1 is odd".to_owned();
    assert_eq!(fate(Oddity::Panics, 3), Fate::Stopped(Stop::Panic { thread: 1, message }));
}

#[test]
fn a_lock_outside_of_the_mediums_sight_is_a_hang() {
    let fate = fate(Oddity::LocksAcrossCalls, 2);
    assert!(matches!(fate, Fate::Stopped(Stop::Hang { .. })), "{fate}");
}

#[test]
fn recoveries_that_go_wrong_are_breaches() {
    let breach = |oddity| match fate(oddity, 1) {
        Fate::Cut(breach) => breach,
        fate => panic!("want a breach, got {fate}"),
    };
    let message = "odd".to_owned();
    assert_eq!(breach(Oddity::RecoveryPanics), Breach::Panicked { round: 1, message });
    let error = "odd".to_owned();
    assert_eq!(breach(Oddity::RecoveryRefuses), Breach::Refused { round: 1, error });
    assert!(matches!(breach(Oddity::RecoveryStoresOutside), Breach::Fault { round: 1, .. }));
    let (first, second) = ("0".to_owned(), "1".to_owned());
    assert_eq!(breach(Oddity::RecoveryCounts), Breach::Unstable { first, second });
}

#[test]
fn what_the_trait_forbids_panics() {
    let medium = SimMedium::new(4096, Machine::ALL[0]).unwrap();
    for forbidden in [
        &(|| medium.copy(PoolOffset::new(4), &[0; 8])) as &dyn Fn(),
        &|| medium.copy(PoolOffset::new(8), &[0; 4]),
        &|| medium.log_write(PoolOffset::new(8), &[0; 64]).unwrap(),
        &|| medium.log_write(PoolOffset::new(64), &[0; 8]).unwrap(),
    ] {
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(forbidden)).is_err());
    }
}

#[test]
fn ranges_outside_raise_a_fault_and_change_nothing() {
    let medium = SimMedium::new(4096, Machine::ALL[0]).unwrap();
    for outside in [
        &(|| medium.store8(PoolOffset::new(4096), 1)) as &dyn Fn(),
        &|| medium.store8(PoolOffset::new(9), 1),
        &|| medium.store(PoolOffset::new(4090), &[1; 7]),
        &|| medium.copy(PoolOffset::new(4088), &[1; 16]),
        &|| medium.flush(PoolOffset::new(4000), 97),
        &|| medium.log_write(PoolOffset::new(u64::MAX - 63), &[1; 64]).unwrap(),
        &|| assert!(medium.compare_exchange8(PoolOffset::new(4096), 0, 1).is_ok()),
    ] {
        assert!(FaultScope::around(outside).is_err());
    }
    let are_zero = |memory: &Readable| (0..512).all(|word| memory.load8(PoolOffset::new(8 * word)) == 0);
    assert_eq!(medium.memory().reading(are_zero), Ok(true));
    let last = medium.memory().reading(|memory| {
        medium.store(PoolOffset::new(4089), &[1; 7]);
        memory.load8(PoolOffset::new(4088))
    });
    assert_eq!(last, Ok(0x0101_0101_0101_0100));
}
