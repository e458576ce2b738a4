//! The table of faulting instructions and their resume addresses, and the signal handler that reads it.
//!
//! Each instruction that touches media bytes has an entry {instruction, resume} in the linker section `lode_fixup`. A
//! fault there (a poisoned line, a file cut short) enters the handler. The handler records a [`Fault`] for the thread
//! and resumes at the entry's second address; the access has then read zeros or stored nothing. So no access has an
//! error path, and no Rust frame is skipped.
//!
//! | faulting instruction | address            | the handler                                             |
//! |----------------------|--------------------|---------------------------------------------------------|
//! | in the table         | in a live mapping  | remembers the fault, resumes                            |
//! | elsewhere            | in a live mapping  | prints pool and range, ends the process                 |
//! | any                  | elsewhere          | hands on to the handler that was installed before       |
//!
//! A fault at bytes that the file itself can still read is no loss: the access needed space, for a hole of a sparse file, and
//! the file system had none. The handler reads the file, and does not remember such a range as lost.
//!
//! The handler relies on two conditions. Threads that use media do not block SIGBUS and SIGSEGV. Handlers that are
//! installed later pass on the signals that they do not handle.

use crate::live_mapping::{self, LiveMapping};
use crate::reservation::page;
use crate::{Fault, FaultKind};
use libc::{c_int, c_void};
use lode_layout::{PoolOffset, align_down};
use std::io;
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::{Once, OnceLock};

/// Emits the assembly of one entry: a fault at the instruction labelled `$at` resumes at the label `$to`. Both are
/// numeric local labels that stand before the entry.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
macro_rules! fixup {
    ($at:literal, $to:literal) => {
        concat!(
            ".pushsection lode_fixup, \"aR\", %progbits\n",
            ".balign 4\n",
            ".long ",
            $at,
            "b - .\n",
            ".long ",
            $to,
            "b - .\n",
            ".popsection"
        )
    };
}
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
pub(crate) use fixup;

/// An entry: two addresses, each relative to its own place.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
#[repr(C)]
struct Entry {
    at: i32,
    to: i32,
}

#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
unsafe extern "C" {
    #[link_name = "__start_lode_fixup"]
    static FIRST: Entry;
    #[link_name = "__stop_lode_fixup"]
    static END: Entry;
}

/// Returns the resume address for a fault of the instruction at `pc`.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
fn resume_address(pc: usize) -> Option<usize> {
    // An empty entry, so that the section exists in every binary that links this function.
    // SAFETY: - no instruction is emitted.
    unsafe {
        std::arch::asm!(
            ".pushsection lode_fixup, \"aR\", %progbits",
            ".balign 4",
            ".long 0, 0",
            ".popsection",
            options(nomem, nostack, preserves_flags)
        );
    }
    let first = &raw const FIRST;
    let count = ((&raw const END).addr() - first.addr()) / size_of::<Entry>();
    (0..count).find_map(|index| {
        // SAFETY: - `index` is below the number of entries between the linker's two symbols.
        let place = unsafe { first.add(index) };
        // SAFETY: - the linker filled the place with two 4-byte numbers, which never change.
        let entry = unsafe { place.read() };
        let at = place.addr().wrapping_add_signed(entry.at as isize);
        let to = (place.addr() + 4).wrapping_add_signed(entry.to as isize);
        (at == pc).then_some(to)
    })
}

#[cfg(any(not(any(target_arch = "x86_64", target_arch = "aarch64")), miri))]
fn resume_address(_pc: usize) -> Option<usize> {
    None
}

/// The previously installed actions, for faults that are not of a mapping.
static PREVIOUS_SIGBUS: OnceLock<libc::sigaction> = OnceLock::new();
static PREVIOUS_SIGSEGV: OnceLock<libc::sigaction> = OnceLock::new();

fn previous_action(signal: c_int) -> &'static OnceLock<libc::sigaction> {
    if signal == libc::SIGBUS { &PREVIOUS_SIGBUS } else { &PREVIOUS_SIGSEGV }
}

/// Installs the handler, once per process.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    if cfg!(miri) {
        return;
    }
    INSTALLED.call_once(|| {
        install_for(libc::SIGBUS);
        // A fork's child finds its mappings inaccessible. An access to them raises SIGSEGV.
        install_for(libc::SIGSEGV);
        // SAFETY: - the callback calls mmap(2) and nothing else, which a child of a threaded process may.
        let refused = unsafe { libc::pthread_atfork(None, None, Some(revoke_in_child)) };
        assert_eq!(refused, 0, "pthread_atfork: {}", io::Error::from_raw_os_error(refused));
    });
}

extern "C" fn revoke_in_child() {
    live_mapping::revoke_all();
}

fn install_for(signal: c_int) {
    let mut old = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: - a null action asks only; `old` is writable.
    let asked = unsafe { libc::sigaction(signal, ptr::null(), old.as_mut_ptr()) };
    assert_eq!(asked, 0, "sigaction: {}", io::Error::last_os_error());
    // SAFETY: - the kernel filled it; all zeros, from before, is valid as well.
    let old = unsafe { old.assume_init() };
    // Stored before this handler takes effect: another thread may fault at once.
    previous_action(signal).get_or_init(|| old);
    // SAFETY: - sigaction is plain data, for which zeros are valid.
    let mut new: libc::sigaction = unsafe { mem::zeroed() };
    new.sa_sigaction = on_fault as *const () as usize;
    // Runs on the alternate stack if the thread has one: the main stack may have overflowed.
    new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // No other handler may interrupt: it could touch lost memory itself while this one holds a lock.
    // SAFETY: - the set is writable.
    let filled = unsafe { libc::sigfillset(&raw mut new.sa_mask) };
    assert_eq!(filled, 0, "sigfillset: {}", io::Error::last_os_error());
    // SAFETY: - `on_fault` has the signature that SA_SIGINFO asks for and calls only what a handler may.
    let set = unsafe { libc::sigaction(signal, &raw const new, ptr::null_mut()) };
    assert_eq!(set, 0, "sigaction: {}", io::Error::last_os_error());
}

/// The head of siginfo_t for a memory fault: libc's type has no field for the size of the lost range.
#[repr(C)]
struct MemoryFault {
    signal: c_int,
    errno: c_int,
    code: c_int,
    #[cfg(target_pointer_width = "64")]
    pad: c_int,
    address: usize,
    /// The lost range is 1 << address_lsb bytes; only for BUS_MCEERR_AR and BUS_MCEERR_AO.
    address_lsb: i16,
}

/// The kernel found lost memory that no thread has accessed yet.
const BUS_MCEERR_AO: c_int = 5;
/// A load hit lost memory.
const BUS_MCEERR_AR: c_int = 4;

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: - the kernel passes a siginfo_t of 128 bytes, and MemoryFault is its head.
    let fault = unsafe { info.cast::<MemoryFault>().read() };
    // A code of 0 or less means that a process sent the signal, so the address is meaningless.
    let live = if fault.code > 0 { live_mapping::find(fault.address) } else { None };
    let Some((live, base)) = live else {
        return call_previous(signal, info, context);
    };
    let (start, end) = lost_range(signal, &fault);
    let (start, end) = (start.saturating_sub(base) as u64, (end - base) as u64);
    let kind = if live.is_revoked() {
        FaultKind::Forked
    } else if signal == libc::SIGBUS && !is_memory_error(&fault) && live.is_readable(start, end) {
        FaultKind::NoSpace
    } else {
        live.record_bad(start, end);
        FaultKind::Poison
    };
    if signal == libc::SIGBUS && fault.code == BUS_MCEERR_AO {
        return;
    }
    // SAFETY: - the kernel passes the interrupted thread's context, and no other code uses it.
    let pc = unsafe { program_counter(context) };
    match resume_address(*pc) {
        Some(resume) => {
            Fault { kind, at: PoolOffset::new(start), len: end - start }.raise();
            *pc = resume;
        }
        None => end_process(signal, live, kind, start, end),
    }
}

/// Returns true if the kernel says of a SIGBUS that memory is lost.
fn is_memory_error(fault: &MemoryFault) -> bool {
    matches!(fault.code, BUS_MCEERR_AR | BUS_MCEERR_AO)
}

/// Returns the addresses that a fault made unreadable: the range that the kernel reports for lost memory, otherwise a
/// page.
fn lost_range(signal: c_int, fault: &MemoryFault) -> (usize, usize) {
    let told = signal == libc::SIGBUS && is_memory_error(fault);
    let size =
        if told && (6..=40).contains(&fault.address_lsb) { 1 << fault.address_lsb } else { page() as u64 };
    let start = align_down(fault.address as u64, size) as usize;
    (start, start + size as usize)
}

/// Returns the place in a signal's context that holds the address of the interrupted instruction.
///
/// # Safety
/// `context` is the pointer that the kernel passed to a handler installed with SA_SIGINFO, and the handler still runs.
unsafe fn program_counter<'a>(context: *mut c_void) -> &'a mut usize {
    let context = context.cast::<libc::ucontext_t>();
    #[cfg(target_arch = "x86_64")]
    // SAFETY: - the caller guarantees the context; the field lies inside of it.
    let place = unsafe { &raw mut (*context).uc_mcontext.gregs[libc::REG_RIP as usize] };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: - the caller guarantees the context; the field lies inside of it.
    let place = unsafe { &raw mut (*context).uc_mcontext.pc };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let place = context;
    // SAFETY: - it is an aligned register of the machine's width, and only this handler accesses it.
    unsafe { &mut *place.cast::<usize>() }
}

/// Ends the process after an access to lost memory through a reference lent to the user: no error can reach the user.
/// Prints the lost range, and lets the signal's default action end the process.
fn end_process(signal: c_int, live: &LiveMapping, kind: FaultKind, start: u64, end: u64) {
    let mut message = Message::default();
    message.text(b"lode: ");
    live.name(|byte| message.byte(byte));
    message.text(b": bytes 0x");
    message.hex(start);
    message.text(b" to 0x");
    message.hex(end);
    message.text(match kind {
        FaultKind::Forked => {
            b" belong to the process that forked; only the one that opened a pool may use it. Ending.\n"
        }
        FaultKind::NoSpace => {
            b" need space, the file system has no space left for them, and the program held a reference to \
              them. Ending; free space there.\n"
        }
        FaultKind::Poison | FaultKind::OutOfRange => {
            b" can't be read, the memory is poisoned or the file was cut short, and the program held a \
              reference to them. Ending; check the pool.\n"
        }
    });
    message.print();
    raise_default(signal);
}

/// Text built without allocation, as a signal handler requires.
struct Message {
    bytes: [u8; 640],
    len: usize,
}

impl Default for Message {
    fn default() -> Message {
        Message { bytes: [0; 640], len: 0 }
    }
}

impl Message {
    fn byte(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte;
            self.len += 1;
        }
    }

    fn text(&mut self, text: &[u8]) {
        text.iter().for_each(|byte| self.byte(*byte));
    }

    fn hex(&mut self, value: u64) {
        let digits = (64 - (value | 1).leading_zeros()).div_ceil(4);
        for digit in (0..digits).rev() {
            self.byte(b"0123456789abcdef"[(value >> (4 * digit)) as usize & 15]);
        }
    }

    fn print(&self) {
        // SAFETY: - the bytes are initialised for `len`; write(2) may be called from a handler.
        // An error of a closed standard error can't be reported.
        unsafe { libc::write(libc::STDERR_FILENO, self.bytes.as_ptr().cast(), self.len) };
    }
}

/// Takes the default action for `signal`, as soon as the handler returns.
fn raise_default(signal: c_int) {
    // SAFETY: - signal(2) may be called from a handler, and SIG_DFL is valid for both signals.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    // SAFETY: - raise(3) may be called from a handler; the signal is blocked until that returns.
    unsafe { libc::raise(signal) };
}

/// Calls the handler that was installed before this one.
fn call_previous(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(before) = previous_action(signal).get() else { return raise_default(signal) };
    match before.sa_sigaction {
        libc::SIG_DFL => raise_default(signal),
        libc::SIG_IGN => {
            // SAFETY: - as in `on_fault`.
            let code = unsafe { info.cast::<MemoryFault>().read() }.code;
            if code > 0 {
                // The kernel does not let a program ignore its own fault.
                raise_default(signal);
            }
        }
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            type Detailed = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
            // SAFETY: - SA_SIGINFO guarantees that the address is that of a function of this type.
            let handler = unsafe { mem::transmute::<usize, Detailed>(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: - without SA_SIGINFO the address is that of a function of this type.
            let handler = unsafe { mem::transmute::<usize, extern "C" fn(c_int)>(handler) };
            handler(signal);
        }
    }
}

#[cfg(test)]
mod test;
