//! Begin and end of a transaction, the stages between, and its locks.

use super::{
    Exit, NO_ABORT, check_flags, leaving, locks, pool_to_change, release_locks, stepped, tried, worked,
};
use crate::pool::OpenPool;
use crate::session::{self, Callback, HeldLock, JumpBuffer, LockKind, Session};
use lode_capi_entry::{Failure, message, set_errno, set_message, words_of};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;

/// TX_PARAM_* of the headers.
const PARAM_NONE: u32 = 0;
const PARAM_MUTEX: u32 = 1;
const PARAM_RWLOCK: u32 = 2;
const PARAM_CALLBACK: u32 = 3;

/// The arguments of a variadic call: registers first, then the stack.
struct Parameters {
    registers: *const u64,
    left: usize,
    stack: *const u64,
}

/// Registers that hold variadic arguments of `pmemobj_tx_begin`.
const REGISTERS: usize = if cfg!(target_arch = "aarch64") { 6 } else { 4 };

impl Parameters {
    /// Returns the next argument.
    ///
    /// # Safety
    /// The caller of the variadic function has passed one more.
    unsafe fn next(&mut self) -> u64 {
        let place = if self.left > 0 { &mut self.registers } else { &mut self.stack };
        self.left = self.left.saturating_sub(1);
        let at = *place;
        *place = at.wrapping_add(1);
        // SAFETY: - the caller's promise: an argument takes one register, or a word of the stack.
        unsafe { at.read() }
    }
}

/// The inner function of `pmemobj_tx_begin`.
unsafe extern "C" fn begin(
    pop: *mut c_void,
    env: *const JumpBuffer,
    registers: *const u64,
    stack: *const u64,
    exit: *mut Exit,
) -> c_int {
    let call = |session: &mut Session| {
        // SAFETY: - the program keeps the pool open while it is in a transaction, and `pmemobj_close` ends that of its own thread.
        let pool = unsafe { pool_to_change(pop) }.and_then(|pool: &'static OpenPool| {
            pool.check_owner("pmemobj_tx_begin")?;
            Ok(pool)
        });
        // SAFETY: - the program passes null, or a jmp_buf that setjmp(3) has filled.
        session.begin(pool, unsafe { env.as_ref() })?;
        let mut parameters = Parameters { registers, left: REGISTERS, stack };
        loop {
            // SAFETY: - the program's list ends with TX_PARAM_NONE. An enum has the lower half of a word.
            match unsafe { parameters.next() } as u32 {
                PARAM_NONE => return Ok(0),
                PARAM_CALLBACK => {
                    // SAFETY: - a function and its argument follow.
                    let function = unsafe { parameters.next() } as usize;
                    // SAFETY: - as above.
                    let argument = unsafe { parameters.next() } as usize;
                    session.set_callback(Callback { function, argument });
                }
                kind => {
                    // SAFETY: - the address of a lock follows.
                    let address = unsafe { parameters.next() } as usize;
                    // SAFETY: - the program passes a lock of this kind.
                    unsafe { lock(session, kind, address) }?;
                }
            }
        }
    };
    // SAFETY: - the exported function passes its Exit.
    unsafe { tried(exit, &Cell::new(0), |errno| errno, call) }
}

/// Takes a lock for the transaction, once.
///
/// # Safety
/// `address` is that of a lock of this kind in the pool.
unsafe fn lock(session: &mut Session, kind: u32, address: usize) -> Result<(), Failure> {
    if session.holds(address) {
        return Ok(());
    }
    let pool = session.own_pool()?;
    let place = ptr::with_exposed_provenance_mut(address);
    let (kind, errno, words) = match kind {
        PARAM_MUTEX => {
            // SAFETY: - the caller's promise.
            (LockKind::Mutex, unsafe { locks::lock_mutex(pool, place) }, "pmemobj_mutex_lock")
        }
        PARAM_RWLOCK => {
            // SAFETY: - as above.
            (LockKind::ReadWrite, unsafe { locks::lock_for_writing(pool, place) }, "pmemobj_rwlock_wrlock")
        }
        _ => {
            // PMDK goes on without the lock.
            message::set("Unrecognized lock type; pass one of enum pobj_tx_param");
            return Ok(());
        }
    };
    if errno != 0 {
        let text = format!("{words}: {}; the lock stays as it is", words_of(errno));
        return Err(Failure::new(errno, text));
    }
    session.add_lock(HeldLock { kind, address });
    Ok(())
}

unsafe extern "C" fn xlock(kind: c_int, address: *mut c_void, flags: u64, exit: *mut Exit) -> c_int {
    let call = |session: &mut Session, flags: u64| {
        check_flags(flags, NO_ABORT)?;
        // SAFETY: - the program passes a lock of this kind.
        unsafe { lock(session, kind as u32, address.expose_provenance()) }.map(|()| 0)
    };
    // SAFETY: - the exported function passes its Exit.
    unsafe { worked(exit, "pmemobj_tx_xlock", flags, |errno| errno, call) }
}

unsafe extern "C" fn take_lock(kind: c_int, address: *mut c_void, exit: *mut Exit) -> c_int {
    // SAFETY: - the caller's promise.
    unsafe { xlock(kind, address, NO_ABORT, exit) }
}

unsafe extern "C" fn abort(errno: c_int, exit: *mut Exit) {
    session::with(|session| session.assert_work("pmemobj_tx_abort"));
    let errno = if errno == 0 { libc::ECANCELED } else { errno };
    let text = format!("explicit transaction abort: {}; the program has asked for it", words_of(errno));
    set_message(&Failure::new(errno, text));
    // SAFETY: - the exported function passes its Exit.
    stepped(unsafe { &mut *exit }, |session| session.abort(errno));
    set_errno(errno);
}

unsafe extern "C" fn commit(exit: *mut Exit) {
    // SAFETY: - the exported function passes its Exit.
    stepped(unsafe { &mut *exit }, |session| {
        session.assert_work("pmemobj_tx_commit");
        session.commit()
    });
}

unsafe extern "C" fn process(exit: *mut Exit) {
    // SAFETY: - the exported function passes its Exit.
    stepped(unsafe { &mut *exit }, Session::process);
}

unsafe extern "C" fn end(exit: *mut Exit) -> c_int {
    let (mut errno, mut has_locks) = (0, false);
    // SAFETY: - the exported function passes its Exit.
    stepped(unsafe { &mut *exit }, |session| {
        let step = session.end();
        (errno, has_locks) = (session.errno(), session.has_locks_at_end());
        step
    });
    if has_locks {
        release_locks();
    }
    errno
}

leaving! {
    /// See pmemobj_tx_lock(3).
    ///
    /// # Safety
    /// `lockp` is a lock of this type in the transaction's pool.
    fn pmemobj_tx_lock(r#type: c_int, lockp: *mut c_void) -> c_int = take_lock, "rdx", "x2";

    /// See pmemobj_tx_xlock(3).
    ///
    /// # Safety
    /// As [`pmemobj_tx_lock`].
    fn pmemobj_tx_xlock(r#type: c_int, lockp: *mut c_void, flags: u64) -> c_int = xlock, "rcx", "x3";

    /// See pmemobj_tx_abort(3).
    ///
    /// # Safety
    /// The jmp_buf of the transaction is that of a function that has not returned.
    fn pmemobj_tx_abort(errnum: c_int) = abort, "rsi", "x1";

    /// See pmemobj_tx_commit(3).
    ///
    /// # Durability
    /// On return, if the transaction is the outermost.
    ///
    /// # Safety
    /// As [`pmemobj_tx_abort`].
    fn pmemobj_tx_commit() = commit, "rdi", "x0";

    /// See pmemobj_tx_process(3).
    ///
    /// # Durability
    /// As [`pmemobj_tx_commit`].
    ///
    /// # Safety
    /// As [`pmemobj_tx_abort`].
    fn pmemobj_tx_process() = process, "rdi", "x0";

    /// See pmemobj_tx_end(3).
    ///
    /// # Safety
    /// As [`pmemobj_tx_abort`].
    fn pmemobj_tx_end() -> c_int = end, "rdi", "x0";
}

/// See pmemobj_tx_begin(3). Variadic: types of parameters, each with its values, and a zero at the end.
///
/// # Safety
/// `pop` is an open pool, which stays open until the end of the transaction; `env` is null, or filled by setjmp(3); the list is one of
/// the manual page.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn pmemobj_tx_begin(pop: *mut c_void, env: *mut c_void) -> c_int {
    #[cfg(target_arch = "x86_64")]
    std::arch::naked_asm!(
        ".cfi_startproc",
        "sub rsp, 104",
        ".cfi_adjust_cfa_offset 104",
        "mov [rsp + 64], rdx",
        "mov [rsp + 72], rcx",
        "mov [rsp + 80], r8",
        "mov [rsp + 88], r9",
        "mov qword ptr [rsp], 0",
        "lea rdx, [rsp + 64]",
        "lea rcx, [rsp + 112]",
        "mov r8, rsp",
        "call {inner}",
        "cmp qword ptr [rsp], 0",
        "jne {leave}",
        "add rsp, 104",
        ".cfi_adjust_cfa_offset -104",
        "ret",
        ".cfi_endproc",
        inner = sym begin,
        leave = sym crate::exports::leaving::leave,
    );
    #[cfg(target_arch = "aarch64")]
    std::arch::naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-128]!",
        ".cfi_def_cfa_offset 128",
        ".cfi_offset x29, -128",
        ".cfi_offset x30, -120",
        "mov x29, sp",
        "stp x2, x3, [sp, #80]",
        "stp x4, x5, [sp, #96]",
        "stp x6, x7, [sp, #112]",
        "str xzr, [sp, #16]",
        "add x2, sp, #80",
        "add x3, sp, #128",
        "add x4, sp, #16",
        "bl {inner}",
        "ldr x9, [sp, #16]",
        "cbnz x9, 2f",
        "ldp x29, x30, [sp], #128",
        "ret",
        "2:",
        "b {leave}",
        ".cfi_endproc",
        inner = sym begin,
        leave = sym crate::exports::leaving::leave,
    );
}
