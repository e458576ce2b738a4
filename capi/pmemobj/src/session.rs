//! The transaction of a thread, as libpmemobj's manual pages describe it: stages, levels, locks, callbacks.
//!
//! ```text
//!   NONE --begin--> WORK --commit--> ONCOMMIT --process--> FINALLY --process--> NONE, end
//!                    |  \--abort---> ONABORT  --process--> FINALLY
//!                    begin: one level more, of the same pool; its end returns to WORK of the level above, or aborts that, too
//! ```
//!
//! No function here calls the program or jumps out: each returns the [`Step`] with which the exported function leaves, when all
//! frames of Rust are gone.

use crate::buffers;
use crate::fatal::fatal;
use crate::logs::{LogType, Logs};
use crate::pool::OpenPool;
use lode_capi_entry::Failure;
use lode_layout::PoolOffset;
use lode_obj::Transaction;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::mem::{self, ManuallyDrop};
use std::ops::Range;
use std::ptr;

/// Bytes of a jmp_buf of glibc.
#[cfg(target_arch = "aarch64")]
const JMP_BUF_LEN: usize = 312;
/// Bytes of a jmp_buf of glibc.
#[cfg(not(target_arch = "aarch64"))]
const JMP_BUF_LEN: usize = 200;

/// Bytes of a lock of the headers.
const LOCK_LEN: u64 = 64;

/// The place to which an abort jumps, as setjmp(3) stored it; all zeros for none.
pub(crate) type JumpBuffer = [u8; JMP_BUF_LEN];

thread_local! {
    /// Without a destructor, so that the library can be unloaded, and a thread end, at any time. A thread that ends in a transaction
    /// leaves it open, as with PMDK.
    static THREAD: Thread = const {
        Thread { stage: Cell::new(Stage::None), session: RefCell::new(ManuallyDrop::new(Session::new())) }
    };
}

/// The session of a thread.
struct Thread {
    /// The stage of the session, for the call that programs ask most.
    stage: Cell<Stage>,
    session: RefCell<ManuallyDrop<Session>>,
}

/// TX_STAGE_* of the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Stage {
    None = 0,
    Work = 1,
    OnCommit = 2,
    OnAbort = 3,
    Finally = 4,
}

/// POBJ_TX_FAILURE_* of the headers: what a call that fails does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum FailureBehavior {
    Abort = 0,
    Return = 1,
}

/// The program's function of the stages, and its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Callback {
    pub(crate) function: usize,
    pub(crate) argument: usize,
}

/// A lock that the transaction holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldLock {
    pub(crate) kind: LockKind,
    pub(crate) address: usize,
}

/// The kinds of locks that a transaction takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockKind {
    Mutex,
    ReadWrite,
}

/// The way in which an exported function leaves.
#[derive(Debug)]
pub(crate) enum Step {
    /// It returns.
    Return,
    /// It jumps to the buffer, whose setjmp(3) returns the number.
    Jump(*const JumpBuffer, i32),
    /// It calls the program's function, and takes the next step after that.
    Call { callback: Callback, pool: usize, stage: Stage, then: Then },
}

/// The step after a call of the program's function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Then {
    Return = 0,
    Commit = 1,
    Jump = 2,
    End = 3,
}

/// A begin whose end has not come.
#[derive(Debug)]
struct Level {
    jump: JumpBuffer,
    behavior: FailureBehavior,
}

/// The transaction of a thread, or the place for one.
#[derive(Debug)]
pub(crate) struct Session {
    stage: Stage,
    errno: i32,
    /// The pool; `None` outside of a transaction, and when the program has closed it.
    pool: Option<&'static OpenPool>,
    transaction: Option<Transaction>,
    /// Number of levels.
    depth: usize,
    outermost: Level,
    inner: Vec<Level>,
    locks: Vec<HeldLock>,
    callback: Option<Callback>,
    user_data: *mut c_void,
    pub(crate) logs: Logs,
    /// The memory that the program has appended to the logs, if it wants to be told of memory in two logs.
    appended: Vec<Range<usize>>,
}

/// Uses the session of the calling thread.
#[inline]
pub(crate) fn with<T>(call: impl FnOnce(&mut Session) -> T) -> T {
    THREAD.with(|thread| {
        let mut session = thread.session.borrow_mut();
        let result = call(&mut session);
        thread.stage.set(session.stage);
        result
    })
}

/// Returns the stage of the calling thread.
#[inline]
pub(crate) fn stage() -> Stage {
    THREAD.with(|thread| thread.stage.get())
}

/// Returns true in a signal handler that has interrupted a call of a transaction in the same thread.
pub(crate) fn is_in_call() -> bool {
    THREAD.with(|thread| thread.session.try_borrow_mut().is_err())
}

/// Rolls the calling thread's transaction back if it is in the pool with this handle, which is about to be closed.
pub(crate) fn forget_pool(handle: usize) {
    with(|session| {
        if session.pool.is_some_and(|pool| pool.base == handle) {
            session.roll_back();
            // The locks are in the memory of the pool.
            session.locks = Vec::new();
            session.pool = None;
        }
    });
}

impl Level {
    const fn new() -> Level {
        Level { jump: [0; JMP_BUF_LEN], behavior: FailureBehavior::Abort }
    }

    fn set_jump(&mut self, jump: Option<&JumpBuffer>) {
        match jump {
            Some(jump) => self.jump = *jump,
            None => self.jump = [0; JMP_BUF_LEN],
        }
    }
}

impl Session {
    const fn new() -> Session {
        Session {
            stage: Stage::None,
            errno: 0,
            pool: None,
            transaction: None,
            depth: 0,
            outermost: Level::new(),
            inner: Vec::new(),
            locks: Vec::new(),
            callback: None,
            user_data: ptr::null_mut(),
            logs: Logs::new(),
            appended: Vec::new(),
        }
    }

    /// Returns the error number of the last transaction, or 0.
    pub(crate) fn errno(&self) -> i32 {
        self.errno
    }

    /// Ends the process if the thread is in no transaction.
    pub(crate) fn assert_in_transaction(&self, call: &str) {
        if self.stage == Stage::None {
            fatal(&format!(
                "{call} called outside of transaction; call it between pmemobj_tx_begin and pmemobj_tx_end"
            ));
        }
    }

    /// Ends the process if the transaction is not in the stage WORK. Returns its pool.
    #[inline]
    pub(crate) fn assert_work(&self, call: &str) -> &'static OpenPool {
        match self.pool {
            Some(pool) if self.stage == Stage::Work => pool,
            _ => self.refuse_work(call),
        }
    }

    #[cold]
    fn refuse_work(&self, call: &str) -> ! {
        self.assert_in_transaction(call);
        if self.stage == Stage::Work {
            fatal(&format!(
                "{call} called in a transaction whose pool is closed; close a pool after pmemobj_tx_end"
            ));
        }
        fatal(&format!(
            "{call} called in invalid stage {}; call it before the commit or the abort",
            self.stage as i32
        ));
    }

    /// Begins a transaction, or a level of the one that is open. `jump` is all zeros for none.
    ///
    /// # Errors
    /// EINVAL if another pool's transaction is open, or if `pool` belongs to another process. The caller [aborts](Session::abort).
    pub(crate) fn begin(
        &mut self,
        pool: Result<&'static OpenPool, Failure>,
        jump: Option<&JumpBuffer>,
    ) -> Result<(), Failure> {
        match self.stage {
            Stage::Work => {
                let outer = self.assert_work("pmemobj_tx_begin");
                if !pool.is_ok_and(|pool| ptr::eq(pool, outer)) {
                    return Err(Failure::invalid(
                        "nested transaction for different pool; end the outer one first",
                    ));
                }
                let mut level = Level { behavior: self.behavior(), ..Level::new() };
                level.set_jump(jump);
                self.inner.push(level);
                self.depth += 1;
            }
            Stage::None => {
                self.depth = 1;
                self.outermost.behavior = FailureBehavior::Abort;
                self.outermost.set_jump(jump);
                self.user_data = ptr::null_mut();
                self.logs.clear();
                // What fails from here on is an abort of this transaction.
                self.stage = Stage::Work;
                self.pool = Some(pool?);
            }
            stage => {
                let stage = stage as i32;
                fatal(&format!("Invalid stage {stage} to begin new transaction; call pmemobj_tx_end first"));
            }
        }
        self.errno = 0;
        Ok(())
    }

    /// Sets the function of the stages. Ends the process if another one is set.
    pub(crate) fn set_callback(&mut self, callback: Callback) {
        if self.callback.is_some_and(|old| old != callback) {
            fatal("transaction callback is already set; a transaction takes one");
        }
        self.callback = (callback.function != 0).then_some(callback);
    }

    /// Returns true if the transaction holds the lock.
    pub(crate) fn holds(&self, address: usize) -> bool {
        self.locks.iter().any(|lock| lock.address == address)
    }

    /// Notes a lock that was taken.
    pub(crate) fn add_lock(&mut self, lock: HeldLock) {
        self.locks.push(lock);
    }

    /// Returns true if the outermost level has ended, and the transaction holds locks.
    #[inline]
    pub(crate) fn has_locks_at_end(&self) -> bool {
        self.depth == 0 && !self.locks.is_empty()
    }

    /// Gives the locks to the caller, who releases them, the last one first, when the outermost level has ended; none before that.
    pub(crate) fn take_locks_at_end(&mut self) -> Vec<HeldLock> {
        if self.depth == 0 { mem::take(&mut self.locks) } else { Vec::new() }
    }

    /// Returns the pool of the transaction, for a change.
    ///
    /// # Errors
    /// EINVAL if there is none, since the begin has failed, and in a child of a fork.
    #[inline]
    pub(crate) fn own_pool(&self) -> Result<&'static OpenPool, Failure> {
        let pool =
            self.pool.ok_or_else(|| Failure::invalid("the transaction has failed to begin; end it"))?;
        pool.check_owner("a call of a transaction")?;
        Ok(pool)
    }

    /// Returns the pool and the open transaction, which begins with its first change: one without changes costs nothing.
    ///
    /// # Errors
    /// As [`own_pool`](Session::own_pool), and those of the engine's begin.
    #[inline]
    pub(crate) fn transaction(&mut self) -> Result<(&'static OpenPool, &mut Transaction), Failure> {
        let pool = self.own_pool()?;
        if self.transaction.is_none() {
            self.transaction = Some(pool.begin()?);
        }
        let none = || Failure::invalid("the transaction has failed to begin; end it");
        Ok((pool, self.transaction.as_mut().ok_or_else(none)?))
    }

    /// Returns true if a call that fails does not abort.
    #[inline]
    pub(crate) fn returns_failures(&self) -> bool {
        self.behavior() == FailureBehavior::Return
    }

    /// Returns what a call that fails in this level does.
    pub(crate) fn behavior(&self) -> FailureBehavior {
        self.inner.last().unwrap_or(&self.outermost).behavior
    }

    /// Sets what a call that fails in this level does.
    pub(crate) fn set_behavior(&mut self, behavior: FailureBehavior) {
        self.inner.last_mut().unwrap_or(&mut self.outermost).behavior = behavior;
    }

    /// Returns the address that the program has set for the transaction.
    pub(crate) fn user_data(&self) -> *mut c_void {
        self.user_data
    }

    /// Sets the address that `user_data` returns.
    pub(crate) fn set_user_data(&mut self, data: *mut c_void) {
        self.user_data = data;
    }

    /// Aborts the level: its ranges get their old bytes when it is the outermost. The program finds `errno`, and ECANCELED for 0.
    pub(crate) fn abort(&mut self, errno: i32) -> Step {
        let errno = if errno == 0 { libc::ECANCELED } else { errno };
        self.stage = Stage::OnAbort;
        if self.depth == 1 {
            self.roll_back();
        }
        self.errno = errno;
        lode_capi_entry::set_errno(errno);
        self.call_back(Then::Jump).unwrap_or_else(|| self.jump())
    }

    /// Commits the level; the outermost one makes the transaction durable.
    ///
    /// # Durability
    /// On return of the last step, if the level is the outermost.
    pub(crate) fn commit(&mut self) -> Step {
        self.call_back(Then::Commit).unwrap_or_else(|| self.finish_commit())
    }

    fn finish_commit(&mut self) -> Step {
        // The program's function may have aborted.
        if self.stage != Stage::Work {
            return Step::Return;
        }
        let pool = self.assert_work("pmemobj_tx_commit");
        if self.depth == 1
            && let Some(transaction) = self.transaction.take()
            && let Err(failure) = pool.commit(transaction, &self.locks_in(pool))
        {
            lode_capi_entry::set_message(&failure);
            return self.abort(failure.errno);
        }
        if self.depth == 1 {
            self.release_appended();
        }
        self.stage = Stage::OnCommit;
        self.call_back(Then::Return).unwrap_or(Step::Return)
    }

    /// Goes on to the next stage.
    pub(crate) fn process(&mut self) -> Step {
        match self.stage {
            Stage::Work => {
                self.assert_work("pmemobj_tx_process");
                return self.commit();
            }
            Stage::OnAbort | Stage::OnCommit => {
                self.stage = Stage::Finally;
                return self.call_back(Then::Return).unwrap_or(Step::Return);
            }
            Stage::Finally => self.stage = Stage::None,
            Stage::None => self.assert_in_transaction("pmemobj_tx_process"),
        }
        Step::Return
    }

    /// Ends the level.
    pub(crate) fn end(&mut self) -> Step {
        if self.stage == Stage::Work {
            fatal("pmemobj_tx_end called without pmemobj_tx_commit; commit or abort first");
        }
        if self.depth == 0 {
            fatal("pmemobj_tx_end called without pmemobj_tx_begin");
        }
        if matches!(self.stage, Stage::OnCommit | Stage::OnAbort) && self.callback.is_some() {
            self.stage = Stage::Finally;
            if let Some(step) = self.call_back(Then::End) {
                return step;
            }
        }
        self.finish_end()
    }

    /// Appends memory of the program, which begins at an offset of the pool, to a log. `verifies`: it may be in one log at a time.
    ///
    /// # Errors
    /// EINVAL if it has no room for an entry, or if some of it is in a log of an open transaction.
    pub(crate) fn append(
        &mut self,
        log: LogType,
        at: PoolOffset,
        memory: Range<usize>,
        verifies: bool,
    ) -> Result<(), Failure> {
        if verifies && !buffers::take(&memory) {
            let text = "Buffer currently used; append it when the transaction that has it has ended";
            return Err(Failure::invalid(text));
        }
        let appended = self.logs.append(log, at.get(), memory.len() as u64);
        match verifies {
            true if appended.is_err() => buffers::release(&memory),
            true => self.appended.push(memory),
            false => {}
        }
        appended.map_err(|_| {
            Failure::invalid("Capacity insufficient; append a buffer to the log, or allow it to grow")
        })
    }

    /// Gives the memory of the logs back to the program.
    fn release_appended(&mut self) {
        mem::take(&mut self.appended).iter().for_each(buffers::release);
    }

    /// Ends the level when the program's function has seen the stage FINALLY. The caller releases the locks of the outermost one.
    fn finish_end(&mut self) -> Step {
        self.depth -= 1;
        if self.depth > 0 {
            self.inner.pop();
            self.stage = Stage::Work;
            // An abort of the inner level is one of the outer.
            return if self.errno == 0 { Step::Return } else { self.abort(self.errno) };
        }
        self.inner = Vec::new();
        self.stage = Stage::None;
        self.pool = None;
        let callback = self.callback.take();
        callback.map_or(Step::Return, |callback| Step::Call {
            callback,
            pool: 0,
            stage: Stage::None,
            then: Then::Return,
        })
    }

    /// Takes the step after a call of the program's function.
    pub(crate) fn resume(&mut self, then: Then) -> Step {
        match then {
            Then::Return => Step::Return,
            Then::Commit => self.finish_commit(),
            Then::Jump => self.jump(),
            Then::End => self.finish_end(),
        }
    }

    /// Returns the step that calls the program's function, if there is one and this is the outermost level.
    fn call_back(&self, then: Then) -> Option<Step> {
        let callback = self.callback.filter(|_| self.depth == 1)?;
        let pool = self.pool.map_or(0, |pool| pool.base);
        Some(Step::Call { callback, pool, stage: self.stage, then })
    }

    /// Returns the step that jumps out of an abort; the level may have no place to jump to.
    fn jump(&self) -> Step {
        let level = self.inner.last().unwrap_or(&self.outermost);
        if level.jump.iter().all(|byte| *byte == 0) {
            Step::Return
        } else {
            Step::Jump(&raw const level.jump, self.errno)
        }
    }

    /// Puts the old bytes back, but for those of locks that the transaction holds.
    fn roll_back(&mut self) {
        self.release_appended();
        let (Some(pool), Some(transaction)) = (self.pool, self.transaction.take()) else { return };
        pool.abort(transaction, &self.locks_in(pool));
    }

    /// Returns the places in the pool of locks that the transaction holds, in their order, without an overlap.
    #[inline]
    fn locks_in(&self, pool: &OpenPool) -> Vec<Range<u64>> {
        let mut kept: Vec<Range<u64>> = Vec::new();
        if self.locks.is_empty() {
            return kept;
        }
        for lock in &self.locks {
            if let Some(at) = pool.offset_of(ptr::without_provenance(lock.address)) {
                kept.push(at.get()..at.get() + LOCK_LEN);
            }
        }
        kept.sort_by_key(|range| range.start);
        // Locks that a program has laid over each other.
        kept.dedup_by(|next, last| {
            let overlaps = next.start < last.end;
            if overlaps {
                last.end = last.end.max(next.end);
            }
            overlaps
        });
        kept
    }
}
