//! The scheduler: logical threads hand a baton to each other at calls of the medium, as a seed says.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

/// Calls in a row that only wait, after which the threads are said to wait for each other.
const IDLE_MAX: u64 = 20_000;
/// Seconds without any call of the medium, after which the holder of the baton is said to hang.
const HANG_S: u32 = 5;
/// Rounds of spinning for the baton before the thread is parked.
const SPINS: u32 = 30;
/// The switches that a [`Stop`] keeps.
const SWITCHES_KEPT: usize = 48;
/// Says that nobody holds the baton.
const NOBODY: usize = usize::MAX;

thread_local! {
    static CURRENT: Cell<u8> = const { Cell::new(0) };
}

/// The number of the logical thread that calls.
pub(crate) fn current() -> u8 {
    CURRENT.get()
}

/// Why a run ended before its threads did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Each thread waits for a condition that only another one could change.
    Deadlock {
        /// The threads that wait.
        waiting: Vec<usize>,
        /// The last threads that held the baton, oldest first.
        switches: Vec<u8>,
    },
    /// The threads call nothing but [`relax`](lode_pmem::Medium::relax) and never get on.
    Livelock {
        /// The last threads that held the baton, oldest first.
        switches: Vec<u8>,
    },
    /// A thread holds the baton and calls the medium no more: it blocks outside of the simulator's sight.
    Hang {
        /// The thread.
        thread: usize,
    },
    /// A thread panicked.
    Panic {
        /// The thread.
        thread: usize,
        /// What it said.
        message: String,
    },
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::Deadlock { waiting, switches } => {
                write!(
                    f,
                    "deadlock: threads {waiting:?} wait for each other; the last turns were {switches:?}"
                )
            }
            Stop::Livelock { switches } => {
                write!(f, "livelock: no thread gets on; the last turns were {switches:?}")
            }
            Stop::Hang { thread } => {
                write!(f, "thread {thread} blocks without the medium: it waits for a lock, or does not end")
            }
            Stop::Panic { thread, message } => write!(f, "thread {thread} panicked: {message}"),
        }
    }
}

/// The payload of the panic that ends the other threads of a stopped run.
struct Stopped;

/// What a panic said, or nothing if it only ended a thread of a stopped run.
pub(crate) fn message(payload: Box<dyn Any + Send>) -> Option<String> {
    if payload.is::<Stopped>() {
        return None;
    }
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    Some(text.unwrap_or("a panic without a message").to_owned())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    /// Its condition held when the count of progress was this.
    Waiting(u64),
    Done,
}

#[derive(Debug)]
struct Inner {
    rng: fastrand::Rng,
    /// A thread keeps the baton at all but one of this many calls.
    keep: u32,
    states: Vec<State>,
    handles: Vec<Option<Thread>>,
    /// Calls that may have changed what another thread waits for.
    progress: u64,
    /// Calls since the last one that did more than wait.
    idle: u64,
    switches: Vec<u8>,
    stop: Option<Stop>,
}

/// The scheduler of one run.
#[derive(Debug)]
pub(crate) struct Schedule {
    inner: Mutex<Inner>,
    turn: AtomicUsize,
    started: AtomicUsize,
    threads: usize,
}

impl Schedule {
    /// A scheduler for `threads` logical threads, whose choices follow from `seed`.
    pub(crate) fn new(threads: usize, seed: u64) -> Schedule {
        let mut rng = fastrand::Rng::with_seed(seed);
        let keep = [1, 2, 4, 16, 64][rng.usize(0..5)];
        let turn = rng.usize(0..threads);
        let inner = Inner {
            rng,
            keep,
            states: vec![State::Ready; threads],
            handles: vec![None; threads],
            progress: 1,
            idle: 0,
            switches: vec![turn as u8],
            stop: None,
        };
        let (turn, started) = (AtomicUsize::new(turn), AtomicUsize::new(0));
        Schedule { inner: Mutex::new(inner), turn, started, threads }
    }

    /// Whether logical threads run, and more than one of them.
    pub(crate) fn is_shared(&self) -> bool {
        // ORDER: none needed; a thread sees its own `enter`, before which nothing is shared.
        self.threads > 1 && self.started.load(Ordering::Relaxed) > 0
    }

    /// Makes the calling thread the logical thread `me`, and waits for its first turn.
    pub(crate) fn enter(&self, me: usize) {
        CURRENT.set(me as u8);
        // ORDER: none needed, see `is_shared`.
        self.started.fetch_add(1, Ordering::Relaxed);
        self.inner().handles[me] = Some(thread::current());
        self.await_turn(me);
    }

    /// Ends the logical thread `me` and hands the baton on.
    pub(crate) fn leave(&self, me: usize, stop: Option<Stop>) {
        // ORDER: none needed, see `is_shared`.
        self.started.fetch_sub(1, Ordering::Relaxed);
        let mut inner = self.inner();
        inner.states[me] = State::Done;
        inner.progress += 1;
        inner.idle = 0;
        if inner.stop.is_none() {
            inner.stop = stop;
        }
        if inner.stop.is_some() {
            self.wake_all(inner);
        } else {
            self.hand_on(inner, me);
        }
    }

    /// Why the run was stopped, if it was.
    pub(crate) fn stop(&self) -> Option<Stop> {
        self.inner().stop.clone()
    }

    /// A call of the medium: another thread may run first.
    pub(crate) fn step(&self) {
        if !self.is_shared() {
            return;
        }
        let me = current() as usize;
        let mut inner = self.inner();
        if self.is_stopped(&inner) {
            return;
        }
        inner.progress += 1;
        inner.idle = 0;
        let keep = inner.keep;
        if inner.rng.u32(0..keep) == 0 {
            self.hand_on(inner, me);
            self.await_turn(me);
        }
    }

    /// A round of a loop that waits for another thread: another one runs first if it can.
    pub(crate) fn relax(&self) {
        let me = current() as usize;
        let mut inner = self.inner();
        if self.is_stopped(&inner) {
            return;
        }
        inner.progress += 1;
        inner.idle += 1;
        if inner.idle > IDLE_MAX {
            let switches = inner.switches.clone();
            return self.give_up(inner, Stop::Livelock { switches });
        }
        // It waits for something that only another thread can change.
        inner.states[me] = State::Waiting(inner.progress - 1);
        self.hand_on(inner, me);
        self.await_turn(me);
        self.inner().states[me] = State::Ready;
    }

    /// Lets other threads run while `blocked` says so.
    pub(crate) fn wait_while(&self, blocked: &mut dyn FnMut() -> bool) {
        self.step();
        let me = current() as usize;
        while blocked() {
            let mut inner = self.inner();
            if self.is_stopped(&inner) {
                return;
            }
            inner.idle += 1;
            if inner.idle > IDLE_MAX {
                let switches = inner.switches.clone();
                return self.give_up(inner, Stop::Livelock { switches });
            }
            inner.states[me] = State::Waiting(inner.progress);
            self.hand_on(inner, me);
            self.await_turn(me);
        }
        self.inner().states[me] = State::Ready;
    }

    /// Gives the baton to a thread that can run; stops the run if none can.
    fn hand_on(&self, mut inner: MutexGuard<'_, Inner>, me: usize) {
        let progress = inner.progress;
        let can_run = |state: &State| match state {
            State::Ready => true,
            State::Waiting(since) => *since < progress,
            State::Done => false,
        };
        let mut able: Vec<usize> =
            (0..self.threads).filter(|thread| can_run(&inner.states[*thread])).collect();
        if able.len() > 1 && matches!(inner.states[me], State::Waiting(_)) {
            able.retain(|thread| *thread != me);
        }
        let Some(next) = inner.rng.choice(&able).copied() else {
            let waiting: Vec<usize> = (0..self.threads).filter(|t| inner.states[*t] != State::Done).collect();
            if waiting.is_empty() {
                // ORDER: pairs with the acquire of `await_turn`.
                self.turn.store(NOBODY, Ordering::Release);
                return;
            }
            let switches = inner.switches.clone();
            return self.give_up(inner, Stop::Deadlock { waiting, switches });
        };
        if next == me {
            return;
        }
        if inner.switches.len() == SWITCHES_KEPT {
            inner.switches.remove(0);
        }
        inner.switches.push(next as u8);
        let handle = inner.handles[next].clone();
        drop(inner);
        // ORDER: pairs with the acquire of `await_turn`: the next thread sees all that this one did.
        self.turn.store(next, Ordering::Release);
        if let Some(handle) = handle {
            handle.unpark();
        }
    }

    fn await_turn(&self, me: usize) {
        let (mut spins, mut seconds, mut seen) = (0, 0, 0);
        // ORDER: pairs with the release of `hand_on`.
        while self.turn.load(Ordering::Acquire) != me {
            if spins < SPINS {
                spins += 1;
                std::hint::spin_loop();
                continue;
            }
            thread::park_timeout(Duration::from_secs(1));
            let inner = self.inner();
            if self.is_stopped(&inner) {
                return;
            }
            seconds = if inner.progress == seen { seconds + 1 } else { 0 };
            seen = inner.progress;
            // Wake-ups count as seconds too, but each follows a hand-over, which is progress.
            // ORDER: pairs with the release of `hand_on`.
            let holder = self.turn.load(Ordering::Acquire);
            if seconds > HANG_S && holder != me {
                return self.give_up(inner, Stop::Hang { thread: holder });
            }
        }
        self.is_stopped(&self.inner());
    }

    /// Stops the run: this thread unwinds, the others when they are woken.
    fn give_up(&self, mut inner: MutexGuard<'_, Inner>, stop: Stop) {
        inner.stop.get_or_insert(stop);
        self.wake_all(inner);
        if !thread::panicking() {
            resume_unwind(Box::new(Stopped));
        }
    }

    /// Unwinds the calling thread if the run was stopped; tells it so if it unwinds already.
    fn is_stopped(&self, inner: &Inner) -> bool {
        if inner.stop.is_some() && !thread::panicking() {
            resume_unwind(Box::new(Stopped));
        }
        inner.stop.is_some()
    }

    fn wake_all(&self, inner: MutexGuard<'_, Inner>) {
        inner.handles.iter().flatten().for_each(Thread::unpark);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
