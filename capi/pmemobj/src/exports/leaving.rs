//! The ways in which the calls of transactions leave: they return, jump out of an abort, or call the program first.
//!
//! ```text
//!   program:  pmemobj_tx_add_range(...)       in assembly: room for an Exit on the stack
//!               inner function of Rust        works, fills the Exit, returns: no frame of Rust is left
//!             return                          nothing more to do
//!             or longjmp(3)                   to the setjmp(3) of TX_BEGIN
//!             or the program's callback       and then `resume`, which fills the Exit anew
//! ```
//!
//! A jump skips frames without running their destructors, and a program may jump out of its callback as well. So neither has a
//! frame of Rust under it.

use super::locks;
use crate::calls::under_way;
use crate::fatal::fatal;
use crate::session::{self, HeldLock, LockKind, Session, Step, Then};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// The way in which a call leaves when its inner function has returned. The assembly below knows its fields.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Exit {
    /// 0 to return, 1 to jump, 2 to call.
    kind: u64,
    /// The jmp_buf, or the program's function.
    address: usize,
    /// The number for setjmp(3), or the pool.
    first: usize,
    /// The stage.
    second: usize,
    /// The program's argument.
    third: usize,
    /// The results of the inner function, in the order of their registers.
    result: [u64; 2],
    /// The step after the call, a [`Then`].
    then: u64,
}

const _: () = assert!(size_of::<Exit>() == 64);

impl Exit {
    /// Sets what the call does when all frames of Rust are gone.
    pub(super) fn set(&mut self, step: Step) {
        match step {
            Step::Return => self.kind = 0,
            Step::Jump(buffer, number) => {
                (self.kind, self.address, self.first) = (1, buffer.addr(), number as u32 as usize);
            }
            Step::Call { callback, pool, stage, then } => {
                (self.kind, self.address, self.first) = (2, callback.function, pool);
                (self.second, self.third, self.then) = (stage as usize, callback.argument, then as u64);
            }
        }
    }
}

/// Lets the session take a step, with which the call leaves.
#[inline]
pub(super) fn stepped(exit: &mut Exit, step: impl FnOnce(&mut Session) -> Step) {
    let outcome = catch_unwind(AssertUnwindSafe(|| session::with(|session| exit.set(step(session)))));
    if outcome.is_err() {
        fatal("internal error of Lodestone in the end of a transaction; report it");
    }
}

/// Releases the locks of the transaction if it has ended.
pub(super) fn release_locks() {
    under_way(release_all);
}

fn release_all() {
    for HeldLock { kind, address } in session::with(Session::take_locks_at_end).into_iter().rev() {
        let lock = ptr::with_exposed_provenance_mut(address);
        match kind {
            // SAFETY: - the transaction took the lock in this run.
            LockKind::Mutex => unsafe { locks::unlock_mutex(lock) },
            // SAFETY: - as above.
            LockKind::ReadWrite => unsafe { locks::unlock_rwlock(lock) },
        }
    }
}

/// Takes the step after a call of the program's function.
///
/// # Safety
/// `exit` is that of the call.
unsafe extern "C" fn resume(exit: *mut Exit) {
    // SAFETY: - the assembly passes the Exit in its frame.
    let exit = unsafe { &mut *exit };
    let then = match exit.then {
        1 => Then::Commit,
        2 => Then::Jump,
        3 => Then::End,
        _ => Then::Return,
    };
    stepped(exit, |session| session.resume(then));
    if then == Then::End {
        release_locks();
        exit.result[0] = session::with(|session| session.errno()) as u32 as u64;
    }
}

unsafe extern "C" {
    /// See longjmp(3).
    fn longjmp(buffer: *mut c_void, number: i32) -> !;
}

/// Leaves as the Exit says. Each exported function below jumps here with its frame in place, when its inner function has filled the
/// Exit.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn leave() {
    std::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_def_cfa_offset 112",
        "mov [rsp + 40], rax",
        "mov [rsp + 48], rdx",
        "2:",
        "cmp qword ptr [rsp], 1",
        "je 3f",
        // The program's function: pool, stage, argument.
        "mov rdi, [rsp + 16]",
        "mov rsi, [rsp + 24]",
        "mov rdx, [rsp + 32]",
        "call [rsp + 8]",
        "mov rdi, rsp",
        "call {resume}",
        "cmp qword ptr [rsp], 0",
        "jne 2b",
        "mov rax, [rsp + 40]",
        "mov rdx, [rsp + 48]",
        "add rsp, 104",
        ".cfi_adjust_cfa_offset -104",
        "ret",
        "3:",
        ".cfi_adjust_cfa_offset 104",
        "mov rdi, [rsp + 8]",
        "mov rsi, [rsp + 16]",
        "call {longjmp}",
        "ud2",
        ".cfi_endproc",
        resume = sym resume,
        longjmp = sym longjmp,
    )
}

/// As above.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn leave() {
    std::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_def_cfa_offset 128",
        ".cfi_offset x29, -128",
        ".cfi_offset x30, -120",
        "stp x0, x1, [sp, #56]",
        "2:",
        "ldr x9, [sp, #16]",
        "cmp x9, #1",
        "b.eq 3f",
        // The program's function: pool, stage, argument.
        "ldp x0, x1, [sp, #32]",
        "ldr x2, [sp, #48]",
        "ldr x9, [sp, #24]",
        "blr x9",
        "add x0, sp, #16",
        "bl {resume}",
        "ldr x9, [sp, #16]",
        "cbnz x9, 2b",
        "ldp x0, x1, [sp, #56]",
        "ldp x29, x30, [sp], #128",
        "ret",
        "3:",
        "ldp x0, x1, [sp, #24]",
        "bl {longjmp}",
        "brk #1",
        ".cfi_endproc",
        resume = sym resume,
        longjmp = sym longjmp,
    )
}

/// Defines exported functions. Each has a frame with an Exit, whose address its inner function gets as the last argument, in the
/// register that is named: the first one is x86-64's, the second AArch64's.
macro_rules! leaving {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? = $inner:ident, $x86:literal, $aarch:literal;
    )+) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            std::arch::naked_asm!(
                ".cfi_startproc",
                "sub rsp, 104",
                ".cfi_adjust_cfa_offset 104",
                "mov qword ptr [rsp], 0",
                concat!("mov ", $x86, ", rsp"),
                "call {inner}",
                "cmp qword ptr [rsp], 0",
                "jne {leave}",
                "add rsp, 104",
                ".cfi_adjust_cfa_offset -104",
                "ret",
                ".cfi_endproc",
                inner = sym $inner,
                leave = sym $crate::exports::leaving::leave,
            );
            #[cfg(target_arch = "aarch64")]
            std::arch::naked_asm!(
                ".cfi_startproc",
                "stp x29, x30, [sp, #-128]!",
                ".cfi_def_cfa_offset 128",
                ".cfi_offset x29, -128",
                ".cfi_offset x30, -120",
                "mov x29, sp",
                "str xzr, [sp, #16]",
                concat!("add ", $aarch, ", sp, #16"),
                "bl {inner}",
                "ldr x9, [sp, #16]",
                "cbnz x9, 2f",
                "ldp x29, x30, [sp], #128",
                "ret",
                "2:",
                "b {leave}",
                ".cfi_endproc",
                inner = sym $inner,
                leave = sym $crate::exports::leaving::leave,
            );
        }
    )+};
}

pub(super) use leaving;
