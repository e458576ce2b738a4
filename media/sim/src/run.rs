//! One recorded run of a workload.

use crate::history::{Actor, History, HistoryEntry};
use crate::poison::Poison;
use crate::report::Failure;
use crate::schedule::{RunAbort, Schedule, message};
use crate::trace::MediumEvent;
use crate::{Setup, SimMedium, Subject};
use lode_layout::{PoolOffset, WORD, bug};
use lode_pmem::{Durability, FaultScope, Medium};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The record of a run.
#[derive(Debug)]
pub(crate) struct Run<T> {
    /// The words of the formatted medium.
    pub(crate) start: Vec<u64>,
    /// The events of the medium since then.
    pub(crate) events: Vec<MediumEvent>,
    /// The notes of the threads.
    pub(crate) entries: Vec<HistoryEntry<T>>,
}

/// Runs the workload as [`run`] does, on a medium with this poison.
pub(crate) fn run_poisoned<S: Subject>(
    subject: &S,
    setup: &Setup,
    seed: u64,
    poison: &Arc<Poison>,
) -> Result<Run<S::Operation>, Failure> {
    run_with(subject, setup, seed, setup.operations, Some(Arc::clone(poison)))
}

/// Runs the workload with a seed, in threads of its own. So the thread-local state of engines is as in a new process.
pub(crate) fn run<S: Subject>(
    subject: &S,
    setup: &Setup,
    seed: u64,
    operations: u64,
) -> Result<Run<S::Operation>, Failure> {
    run_with(subject, setup, seed, operations, None)
}

fn run_with<S: Subject>(
    subject: &S,
    setup: &Setup,
    seed: u64,
    operations: u64,
    poison: Option<Arc<Poison>>,
) -> Result<Run<S::Operation>, Failure> {
    let chosen = bug::chosen();
    let whole = || {
        bug::inherit(chosen);
        run_here(subject, setup, seed, operations, poison)
    };
    thread::scope(|scope| scope.spawn(whole).join().unwrap_or_else(|payload| resume_unwind(payload)))
}

fn run_here<S: Subject>(
    subject: &S,
    setup: &Setup,
    seed: u64,
    operations: u64,
    poison: Option<Arc<Poison>>,
) -> Result<Run<S::Operation>, Failure> {
    let unusable = |error: String| Failure::Unusable { error };
    let mut rng = fastrand::Rng::with_seed(seed);
    let schedule = (setup.threads > 1).then(|| Arc::new(Schedule::new(setup.threads, rng.u64(..))));
    let fails = setup.failing_drains && setup.machine.durability == Durability::Commit && rng.bool();
    let failing = fails.then(|| rng.u64(0..2 + operations * setup.threads as u64));
    let medium = match poison {
        Some(poison) => SimMedium::with_poison(subject.size(), setup.machine, poison),
        None => SimMedium::new(subject.size(), setup.machine),
    };
    let medium = medium.map_err(|error| unusable(error.to_string()))?;
    let medium = Arc::new(medium.failing_drain(failing).scheduled(schedule));

    medium.arm_failing_drain(false);
    let formatted = FaultScope::run(|| subject.format(medium.clone()));
    formatted.map_err(|fault| unusable(fault.to_string()))?.map_err(|error| unusable(error.to_string()))?;
    medium.arm_failing_drain(true);
    let words = subject.size() / WORD;
    let all = medium
        .memory()
        .reading(|memory| (0..words).map(|word| memory.load8(PoolOffset::new(word * WORD))).collect());
    let start = all.map_err(|fault| unusable(fault.to_string()))?;

    medium.record(true);
    medium.arm_poison(true);
    let history = History::new(medium.clone());
    let started = FaultScope::run(|| subject.start(medium.clone()));
    match started.map_err(|fault| unusable(fault.to_string()))? {
        Ok(engine) => {
            medium.note_opened();
            run_threads(subject, setup, &engine, &medium, |thread| {
                Actor::new(thread, operations, seed, &history)
            })?;
        }
        Err(_) if medium.has_failed() || medium.has_lost_line() => (),
        Err(error) => return Err(unusable(error.to_string())),
    }
    medium.record(false);
    medium.arm_poison(false);
    Ok(Run { start, events: medium.trace().take(), entries: history.into_entries() })
}

fn run_threads<'h, S: Subject>(
    subject: &S,
    setup: &Setup,
    engine: &S::Engine,
    medium: &SimMedium,
    actor: impl Fn(usize) -> Actor<'h, S::Operation> + Sync,
) -> Result<(), Failure>
where
    S::Operation: 'h,
{
    let (stopped, faulty) = (Mutex::new(None), Mutex::new(None));
    let chosen = bug::chosen();
    let live = |thread: usize| {
        let enter = || {
            bug::inherit(chosen);
            if let Some(schedule) = &medium.schedule {
                schedule.enter(thread);
            }
            let scope = FaultScope::open();
            let end = catch_unwind(AssertUnwindSafe(|| subject.run(engine, &mut actor(thread))));
            Schedule::end();
            // Each operation is to report its faults itself.
            if let Err(fault) = scope.close() {
                *faulty.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
            }
            end
        };
        // The baton is handed on only after the engine's thread-local state is dropped, too.
        let end = thread::scope(|scope| scope.spawn(enter).join()).and_then(|end| end);
        let message = end.err().and_then(message);
        let stop = message.map(|message| RunAbort::Panic { thread, message });
        match &medium.schedule {
            Some(schedule) => schedule.leave(thread, stop),
            None => *stopped.lock().unwrap_or_else(PoisonError::into_inner) = stop,
        }
    };
    if setup.threads == 1 {
        live(0);
    } else {
        thread::scope(|scope| {
            let live = &live;
            for thread in 0..setup.threads {
                scope.spawn(move || live(thread));
            }
        });
    }
    let stop = medium.schedule.as_ref().and_then(|schedule| schedule.stop());
    match stop.or(stopped.into_inner().unwrap_or_else(PoisonError::into_inner)) {
        Some(stop) => Err(Failure::Stopped(stop)),
        None => match faulty.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(fault) => Err(Failure::Unusable { error: fault.to_string() }),
            None => Ok(()),
        },
    }
}
