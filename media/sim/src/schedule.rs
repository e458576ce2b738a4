//! The scheduler: logical threads pass a baton to each other at calls of the medium, in an order that a seed
//! determines.
//!
//! In a build with `--cfg lode_bugs`, operations on words and locks that threads share, and loads from the medium, are
//! switching points too (`lode_pmem::scheduled`). In a share of the runs, a thread that gives up the baton is stalled:
//! it gets no turn for a drawn number of the other threads' calls, or until no other thread makes progress.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

/// Number of consecutive calls that only wait, after which the threads are reported to wait for each other.
const IDLE_MAX: u64 = 20_000;
/// At a call that makes stores durable, a thread gives up the baton with a probability of at least one in this many.
const DURABLE_SWITCH_ONE_IN: u32 = 8;
/// At such a switch, the thread is stalled with a probability of at least one in this many.
const DURABLE_STALL_ONE_IN: u32 = 16;
/// Seconds without any call of the medium, after which the holder of the baton is reported to hang.
const HANG_S: u32 = 5;
/// Number of rounds of spinning for the baton before the thread is parked.
const SPINS: u32 = 30;
/// Number of switches that a [`RunAbort`] keeps.
const SWITCHES_KEPT: usize = 48;
/// The turn while no thread holds the baton.
const NO_THREAD: usize = usize::MAX;

thread_local! {
    static CURRENT: Cell<u8> = const { Cell::new(0) };
    /// True once the thread is at its end, when it must not unwind.
    static ENDING: Cell<bool> = const { Cell::new(false) };
}

#[cfg(lode_bugs)]
thread_local! {
    /// Number of operations on shared words left before the one at which another thread may run.
    static WORDS_LEFT: Cell<u32> = const { Cell::new(0) };
}

/// Returns the number of the calling logical thread.
pub(crate) fn current() -> u8 {
    CURRENT.get()
}

/// The reasons why a run ends before its threads do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunAbort {
    /// Each thread waits for a condition that only another thread could change.
    Deadlock {
        /// The threads that wait.
        waiting: Vec<usize>,
        /// The last threads that held the baton, oldest first.
        switches: Vec<u8>,
    },
    /// The threads call only [`relax`](lode_pmem::Medium::relax) and make no progress.
    Livelock {
        /// The last threads that held the baton, oldest first.
        switches: Vec<u8>,
    },
    /// A thread holds the baton but does not call the medium: it blocks where the simulator can't see it.
    Hang {
        /// The thread.
        thread: usize,
    },
    /// A thread panicked.
    Panic {
        /// The thread.
        thread: usize,
        /// Message of the panic.
        message: String,
    },
}

impl fmt::Display for RunAbort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunAbort::Deadlock { waiting, switches } => {
                write!(
                    f,
                    "deadlock: threads {waiting:?} wait for each other; the last turns were {switches:?}"
                )
            }
            RunAbort::Livelock { switches } => {
                write!(f, "livelock: no thread gets on; the last turns were {switches:?}")
            }
            RunAbort::Hang { thread } => {
                write!(f, "thread {thread} blocks without the medium: it waits for a lock, or does not end")
            }
            RunAbort::Panic { thread, message } => write!(f, "thread {thread} panicked: {message}"),
        }
    }
}

/// The payload of the panic that ends the other threads of a stopped run.
struct Stopped;

/// Returns the message of a panic; `None` if the panic only ended a thread of a stopped run.
pub(crate) fn message(payload: Box<dyn Any + Send>) -> Option<String> {
    if payload.is::<Stopped>() {
        return None;
    }
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    Some(text.unwrap_or("a panic without a message").to_owned())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThreadState {
    Ready,
    /// The thread waits. Its condition was still unmet when the count of progress was this.
    Waiting(u64),
    Done,
}

#[derive(Debug)]
struct Inner {
    rng: fastrand::Rng,
    /// One in this many calls gives up the baton.
    switch_one_in: u32,
    /// On average, one in this many operations on shared words gives up the baton.
    #[cfg(lode_bugs)]
    switch_words_one_in: u32,
    states: Vec<ThreadState>,
    handles: Vec<Option<Thread>>,
    /// Number of calls that may have changed the condition that another thread waits for.
    progress: u64,
    /// Number of calls since the last one that did more than wait.
    idle: u64,
    stalls: Stalls,
    switches: Vec<u8>,
    stop: Option<RunAbort>,
}

/// The stalled threads, which get no turn.
#[derive(Debug)]
struct Stalls {
    /// For each thread, the number of calls of other threads during which it gets no turn.
    calls_left: Vec<u32>,
    /// Number of stalls that the run may still have.
    left: u32,
    /// One in this many switches stalls the thread.
    one_in: u32,
    /// Number of consecutive calls that only wait, after which the threads are assumed to wait for a stalled one.
    idle_max: u64,
}

impl Stalls {
    fn new(threads: usize, rng: &mut fastrand::Rng) -> Stalls {
        let left = [0, 0, 1, 2, 8, 64][rng.usize(0..6)];
        let one_in = [2, 16, 128, 1024][rng.usize(0..4)];
        let idle_max = [8, 64, 1024][rng.usize(0..3)];
        Stalls { calls_left: vec![0; threads], left, one_in, idle_max }
    }

    fn is_any(&self) -> bool {
        self.calls_left.iter().any(|calls| *calls > 0)
    }

    /// Counts a call of the thread `me`.
    fn count(&mut self, me: usize) {
        for calls in
            self.calls_left.iter_mut().enumerate().filter(|(thread, _)| *thread != me).map(|(_, c)| c)
        {
            *calls = calls.saturating_sub(1);
        }
    }

    /// Draws whether the thread `me` is stalled, and stalls it then. Returns true if it is.
    fn draw(&mut self, me: usize, durable: bool, rng: &mut fastrand::Rng) -> bool {
        let one_in = if durable { self.one_in.min(DURABLE_STALL_ONE_IN) } else { self.one_in };
        if self.left == 0 || rng.u32(0..one_in) != 0 {
            return false;
        }
        self.left -= 1;
        self.calls_left[me] = 1 << rng.u32(2..15);
        true
    }
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
    /// Returns a scheduler for `threads` logical threads, whose choices follow from `seed`.
    pub(crate) fn new(threads: usize, seed: u64) -> Schedule {
        let mut rng = fastrand::Rng::with_seed(seed);
        let switch_one_in = [1, 2, 4, 16, 64][rng.usize(0..5)];
        let turn = rng.usize(0..threads);
        let stalls = Stalls::new(threads, &mut rng);
        let inner = Inner {
            switch_one_in,
            #[cfg(lode_bugs)]
            switch_words_one_in: [4, 16, 64, 256, 2048][rng.usize(0..5)],
            rng,
            stalls,
            states: vec![ThreadState::Ready; threads],
            handles: vec![None; threads],
            progress: 1,
            idle: 0,
            switches: vec![turn as u8],
            stop: None,
        };
        let (turn, started) = (AtomicUsize::new(turn), AtomicUsize::new(0));
        Schedule { inner: Mutex::new(inner), turn, started, threads }
    }

    /// Returns true if logical threads take turns: the run has several, and at least one has started.
    pub(crate) fn is_shared(&self) -> bool {
        // ORDER: none needed; a thread sees its own `enter`, and shares no data before it.
        self.threads > 1 && self.started.load(Ordering::Relaxed) > 0
    }

    /// Makes the calling thread the logical thread `me`, and waits for its first turn.
    pub(crate) fn enter(self: &Arc<Schedule>, me: usize) {
        CURRENT.set(me as u8);
        #[cfg(lode_bugs)]
        lode_pmem::scheduled::install(Some(self.clone()));
        // ORDER: none needed, see `is_shared`.
        self.started.fetch_add(1, Ordering::Relaxed);
        self.inner().handles[me] = Some(thread::current());
        self.await_turn(me);
    }

    /// Notes that the calling thread is at its end. It keeps the baton until [`leave`](Schedule::leave), but its last
    /// calls do not end by unwinding.
    pub(crate) fn end() {
        ENDING.set(true);
    }

    /// Ends the logical thread `me`, which has run to its end, and hands the baton on.
    pub(crate) fn leave(&self, me: usize, stop: Option<RunAbort>) {
        // ORDER: none needed, see `is_shared`.
        self.started.fetch_sub(1, Ordering::Relaxed);
        let mut inner = self.inner();
        inner.states[me] = ThreadState::Done;
        inner.progress += 1;
        inner.idle = 0;
        if inner.stop.is_none() {
            inner.stop = stop;
        }
        if inner.stop.is_some() {
            self.wake_all(inner);
        } else {
            self.pass_baton(inner, me);
        }
    }

    /// Returns the reason why the run was stopped, if it was.
    pub(crate) fn stop(&self) -> Option<RunAbort> {
        self.inner().stop.clone()
    }

    /// Takes a step at a call of the medium: another thread may run first. At a call that makes stores `durable`,
    /// switches and stalls are more likely, because there are far fewer such calls than stores.
    pub(crate) fn step(&self, durable: bool) {
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
        inner.stalls.count(me);
        let switch_one_in =
            if durable { inner.switch_one_in.min(DURABLE_SWITCH_ONE_IN) } else { inner.switch_one_in };
        if inner.rng.u32(0..switch_one_in) == 0 {
            self.switch(inner, me, durable);
        }
    }

    /// Gives up the baton. The thread may get it back at once, or only after a stall.
    fn switch(&self, mut inner: MutexGuard<'_, Inner>, me: usize, durable: bool) {
        let Inner { stalls, rng, idle, .. } = &mut *inner;
        if stalls.draw(me, durable, rng) {
            // From here on other threads may wait for this one in vain.
            *idle = 0;
        }
        self.pass_baton(inner, me);
        self.await_turn(me);
    }

    /// Takes a step in a loop that waits for another thread: another thread runs first if it can.
    pub(crate) fn relax(&self) {
        let me = current() as usize;
        let mut inner = self.inner();
        if self.is_stopped(&inner) {
            return;
        }
        inner.progress += 1;
        if self.is_idle(&mut inner, me) {
            let switches = inner.switches.clone();
            return self.abort(inner, RunAbort::Livelock { switches });
        }
        // The thread waits for a condition that only another thread can change.
        inner.states[me] = ThreadState::Waiting(inner.progress - 1);
        self.pass_baton(inner, me);
        self.await_turn(me);
        self.inner().states[me] = ThreadState::Ready;
    }

    /// Lets other threads run as long as `blocked` returns true.
    pub(crate) fn wait_while(&self, blocked: &mut dyn FnMut() -> bool) {
        self.step(false);
        let me = current() as usize;
        while blocked() {
            let mut inner = self.inner();
            if self.is_stopped(&inner) {
                return;
            }
            if self.is_idle(&mut inner, me) {
                let switches = inner.switches.clone();
                return self.abort(inner, RunAbort::Livelock { switches });
            }
            inner.states[me] = ThreadState::Waiting(inner.progress);
            self.pass_baton(inner, me);
            self.await_turn(me);
        }
        self.inner().states[me] = ThreadState::Ready;
    }

    /// Counts a call of `me` that only waits. Returns true after so many of them in a row that no thread makes
    /// progress. Stalled threads are released first.
    fn is_idle(&self, inner: &mut Inner, me: usize) -> bool {
        inner.idle += 1;
        inner.stalls.count(me);
        if inner.idle > inner.stalls.idle_max && inner.stalls.is_any() {
            inner.stalls.calls_left.fill(0);
            inner.idle = 0;
        }
        inner.idle > IDLE_MAX
    }

    /// Gives the baton to a thread that can run, to a stalled one only if no other can. Stops the run if no thread can
    /// run.
    fn pass_baton(&self, mut inner: MutexGuard<'_, Inner>, me: usize) {
        let progress = inner.progress;
        let can_run = |state: &ThreadState| match state {
            ThreadState::Ready => true,
            ThreadState::Waiting(since) => *since < progress,
            ThreadState::Done => false,
        };
        let mut able: Vec<usize> =
            (0..self.threads).filter(|thread| can_run(&inner.states[*thread])).collect();
        if able.iter().any(|thread| inner.stalls.calls_left[*thread] == 0) {
            able.retain(|thread| inner.stalls.calls_left[*thread] == 0);
        }
        if able.len() > 1 && matches!(inner.states[me], ThreadState::Waiting(_)) {
            able.retain(|thread| *thread != me);
        }
        let Some(next) = inner.rng.choice(&able).copied() else {
            let waiting: Vec<usize> =
                (0..self.threads).filter(|t| inner.states[*t] != ThreadState::Done).collect();
            if waiting.is_empty() {
                // ORDER: pairs with the acquire of `await_turn`.
                self.turn.store(NO_THREAD, Ordering::Release);
                return;
            }
            let switches = inner.switches.clone();
            return self.abort(inner, RunAbort::Deadlock { waiting, switches });
        };
        inner.stalls.calls_left[next] = 0;
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
        // ORDER: pairs with the release of `pass_baton`.
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
            // Wake-ups count as seconds too, but each follows a change of turn, which is progress.
            // ORDER: pairs with the release of `pass_baton`.
            let holder = self.turn.load(Ordering::Acquire);
            if seconds > HANG_S && holder != me {
                return self.abort(inner, RunAbort::Hang { thread: holder });
            }
        }
        self.is_stopped(&self.inner());
    }

    /// Stops the run. This thread unwinds now, the others when they are woken.
    fn abort(&self, mut inner: MutexGuard<'_, Inner>, stop: RunAbort) {
        inner.stop.get_or_insert(stop);
        self.wake_all(inner);
        if !thread::panicking() && !ENDING.get() {
            resume_unwind(Box::new(Stopped));
        }
    }

    /// Unwinds the calling thread if the run was stopped. Returns true if the run was stopped and the thread unwinds
    /// already.
    fn is_stopped(&self, inner: &Inner) -> bool {
        if inner.stop.is_some() && !thread::panicking() && !ENDING.get() {
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

/// Switching points at operations on words that the threads share.
#[cfg(lode_bugs)]
impl lode_pmem::scheduled::Scheduler for Schedule {
    fn step(&self) {
        let left = WORDS_LEFT.get();
        if left > 0 || ENDING.get() || !self.is_shared() {
            return WORDS_LEFT.set(left.saturating_sub(1));
        }
        let mut inner = self.inner();
        if self.is_stopped(&inner) {
            return;
        }
        let switch_one_in = inner.switch_words_one_in;
        WORDS_LEFT.set(inner.rng.u32(0..2 * switch_one_in));
        // The operation may have changed a condition that others wait for, but seeing a word is not progress by itself.
        inner.progress += 1;
        self.switch(inner, current() as usize, false);
    }

    fn wait(&self) -> bool {
        let takes_turns = self.is_shared() && self.stop().is_none();
        if takes_turns {
            self.relax();
        }
        takes_turns
    }
}
