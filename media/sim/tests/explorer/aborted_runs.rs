//! Runs that do not end, and recoveries that fail by themselves, are told apart and end the exploration.

use lode_layout::PoolOffset;
use lode_pmem::{Event, FaultScope, Medium, Readable};
use lode_sim::{
    Actor, Failure, HistoryPrefix, Machine, RecoveryFailure, Report, RunAbort, Setup, SimMedium, Subject,
    explore,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Behaviour of the threads of [`MisbehavingEngine`], or of its recovery.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Misbehavior {
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

struct MisbehavingEngine(Misbehavior, AtomicU64);

struct Shared {
    medium: Arc<SimMedium>,
    lock: Mutex<()>,
    turns: AtomicU64,
}

impl Subject for MisbehavingEngine {
    type Engine = Shared;
    type Operation = ();
    type Contents = u64;
    type Legal = ();
    type Mismatch = &'static str;
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
                Misbehavior::SpinsForEver => (0..u32::MAX).for_each(|round| medium.relax(round)),
                Misbehavior::WaitsForEver => medium.wait_while(&Event::new(), &mut || true),
                Misbehavior::Panics if actor.thread == 1 => panic!("thread {} is odd", actor.thread),
                Misbehavior::LocksAcrossCalls => {
                    let _guard = shared.lock.lock();
                    medium.store8(PoolOffset::new(64), round);
                }
                // The other thread counts too, but makes no call of the medium.
                _ => {
                    let turn = shared.turns.fetch_add(1, Ordering::AcqRel);
                    (0..2).for_each(|round| medium.relax(round));
                    medium.wait_while(&Event::new(), &mut || shared.turns.load(Ordering::Acquire) < turn);
                }
            }
        }
    }

    fn recover(&self, medium: Arc<SimMedium>) -> Result<u64, &'static str> {
        let count = medium.memory().reading(|memory| memory.load8(PoolOffset::new(128))).expect("memory");
        match self.0 {
            Misbehavior::RecoveryPanics => panic!("odd"),
            Misbehavior::RecoveryRefuses => return Err("odd"),
            Misbehavior::RecoveryStoresOutside => medium.store8(PoolOffset::new(4096), 1),
            Misbehavior::RecoveryMarks => {
                // Each image is recovered from twice, and only the second recovery sees the stores of the first.
                let is_second = self.1.fetch_add(1, Ordering::AcqRel) % 2 == 1;
                medium.store8(PoolOffset::new(128), 1);
                return Ok(u64::from((count == 1) != is_second));
            }
            Misbehavior::RecoveryCounts => medium.store8(PoolOffset::new(128), count + 1),
            _ => (),
        }
        Ok(count)
    }

    fn legal(&self, _moment: &HistoryPrefix<()>) {}

    fn check(&self, _legal: &(), count: &u64) -> Result<(), &'static str> {
        if *count == 0 { Ok(()) } else { Err("what a recovery stored was not undone before the next image") }
    }
}

fn explored(misbehavior: Misbehavior, threads: usize) -> Report {
    let report = explore(
        &MisbehavingEngine(misbehavior, AtomicU64::new(0)),
        &Setup { threads, operations: 5, nested_one_in: 0, ..Setup::default() },
    );
    println!("{report}");
    report
}

fn failure(misbehavior: Misbehavior, threads: usize) -> Failure {
    explored(misbehavior, threads).violation.expect("a violation").failure
}

#[test]
fn progressing_threads_are_not_aborted() {
    for threads in 1..=3 {
        assert_eq!(explored(Misbehavior::Nothing, threads).violation, None);
    }
}

#[test]
fn recovery_stores_are_undone() {
    assert_eq!(explored(Misbehavior::RecoveryMarks, 2).violation, None);
}

#[test]
fn stuck_threads_are_aborted() {
    assert!(matches!(failure(Misbehavior::SpinsForEver, 2), Failure::Stopped(RunAbort::Livelock { .. })));
    let Failure::Stopped(RunAbort::Deadlock { waiting, .. }) = failure(Misbehavior::WaitsForEver, 3) else {
        panic!("want a deadlock")
    };
    assert_eq!(waiting, [0, 1, 2]);
    for misbehavior in [Misbehavior::SpinsForEver, Misbehavior::WaitsForEver] {
        let Failure::Stopped(RunAbort::Panic { message, .. }) = failure(misbehavior, 1) else {
            panic!("want a panic")
        };
        assert_eq!(message, "the only thread waits for another one");
    }
}

#[test]
fn panic_of_one_thread_aborts_all() {
    let message = "thread 1 is odd".to_owned();
    assert_eq!(failure(Misbehavior::Panics, 3), Failure::Stopped(RunAbort::Panic { thread: 1, message }));
}

#[test]
fn lock_across_medium_calls_is_hang() {
    let failure = failure(Misbehavior::LocksAcrossCalls, 2);
    assert!(matches!(failure, Failure::Stopped(RunAbort::Hang { .. })), "{failure}");
}

#[test]
fn failed_recoveries_are_reported() {
    let failure = |misbehavior| match failure(misbehavior, 1) {
        Failure::PowerCut(failure) => failure,
        failure => panic!("want a recovery failure, got {failure}"),
    };
    let message = "odd".to_owned();
    assert_eq!(failure(Misbehavior::RecoveryPanics), RecoveryFailure::Panicked { round: 1, message });
    let error = "odd".to_owned();
    assert_eq!(failure(Misbehavior::RecoveryRefuses), RecoveryFailure::Refused { round: 1, error });
    assert!(matches!(failure(Misbehavior::RecoveryStoresOutside), RecoveryFailure::Fault { round: 1, .. }));
    let (first, second) = ("0".to_owned(), "1".to_owned());
    assert_eq!(failure(Misbehavior::RecoveryCounts), RecoveryFailure::Unstable { first, second });
}

#[test]
fn contract_violations_panic() {
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
fn out_of_range_stores_fault() {
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
        assert!(FaultScope::run(outside).is_err());
    }
    let are_zero = |memory: &Readable| (0..512).all(|word| memory.load8(PoolOffset::new(8 * word)) == 0);
    assert_eq!(medium.memory().reading(are_zero), Ok(true));
    let last = medium.memory().reading(|memory| {
        medium.store(PoolOffset::new(4089), &[1; 7]);
        memory.load8(PoolOffset::new(4088))
    });
    assert_eq!(last, Ok(0x0101_0101_0101_0100));
}
