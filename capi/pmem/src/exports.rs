//! The exported functions: C arguments become checked ones.

use crate::environment::mapping_hint;
use crate::failure::Failure;
use crate::ranges::{Direct, Ranges};
use crate::request::{self, Request};
use crate::{deep, logging, owners};
use lode_capi_entry::{
    AddressRange, Table, ends_durable, flushing_instructions, forced_is_pmem, message, path_of, set_errno,
    uncancelled, variable,
};
use lode_pmem::{
    ByAddress, CopyPath, Cpu, Durability, DurabilityEvidence, ProgramMapping, Sysfs, program_pages,
    unmap_program,
};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use std::{mem, ptr};

/// The version of the interface, as PMDK 1.12.1 and 2.1 give it.
const MAJOR: c_uint = 1;
const MINOR: c_uint = 1;

/// The instructions, chosen when the library is loaded.
static INSTRUCTIONS: OnceLock<ByAddress> = OnceLock::new();
/// The address above which mappings are placed, found when the library is loaded.
static HINT: OnceLock<Option<usize>> = OnceLock::new();
/// The answer of PMEM_IS_PMEM_FORCE, found by the first question: 0, 1, [`NOT_FORCED`] or [`UNASKED`].
static FORCED: AtomicU8 = AtomicU8::new(UNASKED);
const NOT_FORCED: u8 = 2;
const UNASKED: u8 = 3;
/// Ranges that the kernel maps directly.
static RANGES: Table<Ranges> = Table::new(Ranges::new());
/// PMEM_F_MEM_NOFLUSH.
const NOFLUSH: c_uint = 1 << 5;
/// Number of ranges that were ever inserted: without any, no question takes the lock.
static INSERTED: AtomicUsize = AtomicUsize::new(0);
/// The program's log function; null for none.
static LOG_FUNCTION: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The type of log functions: level, file, line, function, message.
type LogFunction = unsafe extern "C" fn(c_int, *const c_char, c_uint, *const c_char, *const c_char);

#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = on_load;

/// Reads the environment, as libpmem(7) says, when the library is loaded.
extern "C" fn on_load() {
    let load = || {
        // The library has a copy of Rust's library to itself, so no program loses its messages. The tests keep theirs.
        #[cfg(not(test))]
        std::panic::set_hook(Box::new(|_| {}));
        INSTRUCTIONS.get_or_init(|| flushing_instructions(&variable, &Sysfs::default()));
        HINT.get_or_init(|| mapping_hint(&variable));
        // SAFETY: - the callbacks take and release a lock, in the thread that forks, and in the child's only one.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork)) };
    };
    let _ = uncancelled(|| catch_unwind(load));
}

/// Takes the locks, so that a child finds the tables whole.
extern "C" fn before_fork() {
    RANGES.before_fork();
    owners::before_fork();
}

/// Releases the locks, in the parent and in the child.
extern "C" fn after_fork() {
    owners::after_fork();
    RANGES.after_fork();
}

/// Returns the instructions. A call that comes before `on_load`, from the start of a static program, has those of every CPU.
#[inline(always)]
fn chosen() -> &'static ByAddress {
    static OLDEST: ByAddress = ByAddress::new(Cpu::oldest()).streaming_from(usize::MAX);
    INSTRUCTIONS.get().unwrap_or(&OLDEST)
}

/// Runs a call that may fail. A failure sets errno and the thread's message, and so does a panic.
fn guarded<T>(failed: T, call: impl FnOnce() -> Result<T, Failure>) -> T {
    uncancelled(|| {
        let outcome = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err(Failure::broken()));
        outcome.unwrap_or_else(|failure| {
            message::set(&failure.text);
            log(logging::ERROR, &failure.text);
            set_errno(failure.errno);
            failed
        })
    })
}

/// Hands a message to the program's log function, if there is one.
fn log(level: c_int, text: &str) {
    // ORDER: the function's code was there before the program named it.
    let function = LOG_FUNCTION.load(Ordering::Acquire);
    if function.is_null() || !logging::passes(level) {
        return;
    }
    let Ok(text) = CString::new(text.replace('\0', "")) else { return };
    // SAFETY: - only `pmem_log_set_function` stores the pointer, which the program gave as a function of this type.
    let function = unsafe { mem::transmute::<*mut c_void, LogFunction>(function) };
    // SAFETY: - the file's name may be null, as pmem_log_set_function(3) says; the text ends with a zero.
    unsafe { function(level, ptr::null(), 0, ptr::null(), text.as_ptr()) };
}

/// The function of an owner, which makes bytes of its range durable: its argument, the first byte, their number.
type Persist = unsafe extern "C" fn(*mut c_void, *const c_void, usize);

/// Makes stores to a range the owner's: from now on each call of this library that would flush a part of it calls `persist` with
/// `context` instead. Returns 0, or EBUSY in a signal handler that interrupted the same call.
///
/// # Safety
/// Any thread may call the function until the range is unregistered. `start` is not null, and the range shares no byte with another one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lode_pmem_register(
    start: *const c_void,
    len: usize,
    persist: Persist,
    context: *mut c_void,
) -> c_int {
    let number = persist as *const c_void as usize as u64;
    let range = AddressRange { start: start.addr(), len, number, word: context.expose_provenance() };
    if owners::insert(range) { 0 } else { libc::EBUSY }
}

/// Ends what [`lode_pmem_register`] began.
#[unsafe(no_mangle)]
pub extern "C" fn lode_pmem_unregister(start: *const c_void) {
    owners::remove(start.addr());
}

/// Makes what has owners durable, and flushes the other bytes.
#[cold]
fn flush_owned(addr: *const c_void, len: usize) {
    owners::divide(addr.addr(), len, persist_by_owner, |start, len| {
        // SAFETY: - the program that called promised that the range is mapped.
        unsafe { chosen().flush(ptr::with_exposed_provenance(start), len) };
    });
}

/// Makes what has owners durable. The copy that stored the bytes has seen to the others.
#[cold]
fn persist_owned(addr: *const c_void, len: usize) {
    owners::divide(addr.addr(), len, persist_by_owner, |_, _| {});
}

/// Lets the owner of a range make a part of it durable.
fn persist_by_owner(range: &AddressRange, start: usize, len: usize) {
    let function = ptr::with_exposed_provenance_mut::<c_void>(range.number as usize);
    // SAFETY: - `lode_pmem_register` alone stores the number, of a function of this type.
    let persist = unsafe { mem::transmute::<*mut c_void, Persist>(function) };
    let context = ptr::with_exposed_provenance_mut(range.word);
    // SAFETY: - the owner promised that any thread may call it.
    unsafe { persist(context, ptr::with_exposed_provenance(start), len) };
}

/// See pmem_flush(3).
///
/// # Durability
/// After the thread's next drain.
///
/// # Safety
/// The range is mapped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem_flush(addr: *const c_void, len: usize) {
    if owners::any() {
        return flush_owned(addr, len);
    }
    // SAFETY: - the caller's promise.
    unsafe { chosen().flush(addr.cast(), len) };
}

/// See pmem_drain(3).
#[unsafe(no_mangle)]
pub extern "C" fn pmem_drain() {
    // ORDER: all that this thread flushed and copied is durable before the call returns.
    chosen().drain();
}

/// See pmem_persist(3).
///
/// # Durability
/// On return, where pmem_is_pmem(3) is true.
///
/// # Safety
/// The range is mapped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem_persist(addr: *const c_void, len: usize) {
    let chosen = chosen();
    if owners::any() {
        flush_owned(addr, len);
    } else {
        // SAFETY: - the caller's promise.
        unsafe { chosen.flush(addr.cast(), len) };
    }
    // ORDER: all that this thread flushed and copied is durable before the call returns.
    chosen.drain();
}

/// See pmem_deep_flush(3).
///
/// # Safety
/// The range is mapped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem_deep_flush(addr: *const c_void, len: usize) {
    if owners::any() {
        flush_owned(addr, len);
    }
    // SAFETY: - the caller's promise.
    unsafe { chosen().deep_flush(addr.cast(), len) };
}

/// See pmem_deep_drain(3).
#[unsafe(no_mangle)]
pub extern "C" fn pmem_deep_drain(addr: *const c_void, len: usize) -> c_int {
    guarded(-1, || {
        // ORDER: all that this thread flushed and copied is durable before the call returns.
        chosen().drain();
        let steps = with_ranges(|ranges| deep::steps(ranges, addr.addr(), len))?;
        if steps.is_empty() && len != 0 {
            deep::msync(addr.addr(), len)?;
        }
        steps.into_iter().try_for_each(deep::take)?;
        Ok(0)
    })
}

/// See pmem_deep_persist(3).
///
/// # Safety
/// The range is mapped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem_deep_persist(addr: *const c_void, len: usize) -> c_int {
    // SAFETY: - the caller's promise.
    unsafe { pmem_deep_flush(addr, len) };
    pmem_deep_drain(addr, len)
}

/// See pmem_msync(3).
#[unsafe(no_mangle)]
pub extern "C" fn pmem_msync(addr: *const c_void, len: usize) -> c_int {
    guarded(-1, || {
        if owners::any() {
            flush_owned(addr, len);
        }
        deep::msync(addr.addr(), len).map(|()| 0)
    })
}

/// See pmem_has_auto_flush(3).
#[unsafe(no_mangle)]
pub extern "C" fn pmem_has_auto_flush() -> c_int {
    guarded(-1, || match Sysfs::default().keeps_caches() {
        Ok(keeps) => Ok(c_int::from(keeps)),
        Err(error) => Err(Failure::of_call("read", "persistence_domain", &error)),
    })
}

/// See pmem_has_hw_drain(3): no CPU of today has such an instruction.
#[unsafe(no_mangle)]
pub extern "C" fn pmem_has_hw_drain() -> c_int {
    0
}

/// See pmem_is_pmem(3).
#[unsafe(no_mangle)]
pub extern "C" fn pmem_is_pmem(addr: *const c_void, len: usize) -> c_int {
    guarded(0, || Ok(c_int::from(is_pmem(addr.addr(), len))))
}

fn is_pmem(start: usize, len: usize) -> bool {
    match forced() {
        0 => return false,
        1 => return len != 0,
        _ => {}
    }
    // ORDER: a thread that got the address of a range sees its number, too.
    if len == 0 || INSERTED.load(Ordering::Acquire) == 0 {
        return false;
    }
    let Some(end) = start.checked_add(len) else { return false };
    // A signal handler in the middle of another call gets the answer that leads to msync(2).
    RANGES.with(|ranges| ranges.are_pmem(&(start..end))).unwrap_or(false)
}

/// Returns the answer that PMEM_IS_PMEM_FORCE gives to each question. Threads that ask first find the same one.
fn forced() -> u8 {
    // ORDER: a number of its own, which orders nothing.
    match FORCED.load(Ordering::Relaxed) {
        UNASKED => {
            let forced = forced_is_pmem(&variable).map_or(NOT_FORCED, u8::from);
            // ORDER: as above.
            FORCED.store(forced, Ordering::Relaxed);
            forced
        }
        forced => forced,
    }
}

/// Uses the ranges. Fails in a signal handler that interrupted a use in the same thread.
fn with_ranges<T>(call: impl FnOnce(&mut Ranges) -> T) -> Result<T, Failure> {
    RANGES.with(call).ok_or_else(Failure::interrupted)
}

/// See pmem_map_file(3).
///
/// # Safety
/// `path` is null or ends with a zero; the other pointers are null or valid for a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem_map_file(
    path: *const c_char,
    len: usize,
    flags: c_int,
    mode: libc::mode_t,
    mapped_lenp: *mut usize,
    is_pmemp: *mut c_int,
) -> *mut c_void {
    guarded(ptr::null_mut(), || {
        if path.is_null() {
            return Err(Failure::invalid("invalid (NULL) path; name a file"));
        }
        // SAFETY: - the caller's promise.
        let path = request::path(unsafe { CStr::from_ptr(path) });
        let above = *HINT.get_or_init(|| mapping_hint(&variable));
        let mapping = Request { path, len, flags, mode, above }.map(&Sysfs::default())?;
        let (start, mapped) = (mapping.addresses.start, mapping.addresses.len());
        register(mapping).inspect_err(|_| {
            // SAFETY: - no one has got the address.
            let _ = unsafe { unmap_program(start, mapped) };
        })?;
        if !mapped_lenp.is_null() {
            // SAFETY: - the caller's promise.
            unsafe { mapped_lenp.write(mapped) };
        }
        if !is_pmemp.is_null() {
            let is_pmem = c_int::from(is_pmem(start, mapped));
            // SAFETY: - the caller's promise.
            unsafe { is_pmemp.write(is_pmem) };
        }
        Ok(ptr::with_exposed_provenance_mut(start))
    })
}

/// Remembers a mapping that the kernel maps directly, and forgets what the program unmapped itself at its addresses.
fn register(mapping: ProgramMapping) -> Result<(), Failure> {
    // ORDER: as in `is_pmem`.
    if INSERTED.load(Ordering::Acquire) != 0
        && let Some(pages) = program_pages(mapping.addresses.start, mapping.addresses.len())
    {
        with_ranges(|ranges| ranges.remove(&pages))?;
    }
    let Some(report) = mapping.report else { return Ok(()) };
    let is_device = !matches!(report.how, DurabilityEvidence::MapSync(_));
    insert(Direct {
        addresses: mapping.addresses,
        is_pmem: chosen().reaches_persistence() && (report.durability >= Durability::Line || is_device),
        device: is_device.then_some(mapping.deep_flush),
    })
}

/// Adds a range to the table.
fn insert(direct: Direct) -> Result<(), Failure> {
    with_ranges(|ranges| ranges.insert(direct))?;
    // ORDER: the range is in the table before its number counts.
    INSERTED.fetch_add(1, Ordering::Release);
    Ok(())
}

/// See pmem_unmap(3).
///
/// # Safety
/// The program uses none of these bytes any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem_unmap(addr: *mut c_void, len: usize) -> c_int {
    guarded(-1, || {
        let start = addr.addr();
        // ORDER: as in `is_pmem`.
        let removed = match program_pages(start, len) {
            Some(pages) if INSERTED.load(Ordering::Acquire) != 0 => {
                with_ranges(|ranges| ranges.remove(&pages))?
            }
            _ => Vec::new(),
        };
        // Forgotten first: another thread may map other memory at these addresses as soon as they are free.
        // SAFETY: - the caller's promise.
        unsafe { unmap_program(start, len) }.map_err(|error| {
            // All is still mapped.
            removed.into_iter().for_each(|part| drop(insert(part)));
            Failure::of_call("munmap", "munmap", &error)
        })?;
        Ok(0)
    })
}

/// See pmem_check_version(3).
#[unsafe(no_mangle)]
pub extern "C" fn pmem_check_version(major_required: c_uint, minor_required: c_uint) -> *const c_char {
    let mismatch = if major_required != MAJOR {
        format!("libpmem major version mismatch (need {major_required}, found {MAJOR})")
    } else if minor_required > MINOR {
        format!("libpmem minor version mismatch (need {minor_required}, found {MINOR})")
    } else {
        return ptr::null();
    };
    message::set(&mismatch);
    message::get()
}

/// See pmem_errormsg(3).
#[unsafe(no_mangle)]
pub extern "C" fn pmem_errormsg() -> *const c_char {
    message::get()
}

macro_rules! copies {
    ($($all:ident, $nodrain:ident, $persist:ident: $page:literal;)+) => {$(
        #[doc = concat!("See ", $page, "(3).")]
        ///
        /// # Durability
        /// On return, unless the flags hold PMEM_F_MEM_NODRAIN or PMEM_F_MEM_NOFLUSH.
        ///
        /// # Safety
        /// `pmemdest` is valid for stores of `len` bytes, and `src` for loads. They may overlap.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $all(
            pmemdest: *mut c_void,
            src: *const c_void,
            len: usize,
            flags: c_uint,
        ) -> *mut c_void {
            if ends_durable(flags) {
                // SAFETY: - the caller's promise.
                unsafe { chosen().copy_and_drain(pmemdest.cast(), src.cast(), len, path_of(flags)) };
            } else {
                // SAFETY: - as above.
                unsafe { chosen().copy(pmemdest.cast(), src.cast(), len, path_of(flags)) };
            }
            if owners::any() && flags & NOFLUSH == 0 {
                persist_owned(pmemdest, len);
            }
            pmemdest
        }

        #[doc = concat!("See ", $page, "(3).")]
        ///
        /// # Durability
        /// After the thread's next drain.
        ///
        /// # Safety
        /// `pmemdest` is valid for stores of `len` bytes, and `src` for loads. They may overlap.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $nodrain(
            pmemdest: *mut c_void,
            src: *const c_void,
            len: usize,
        ) -> *mut c_void {
            // SAFETY: - the caller's promise.
            unsafe { chosen().copy(pmemdest.cast(), src.cast(), len, CopyPath::ByLength) };
            if owners::any() {
                persist_owned(pmemdest, len);
            }
            pmemdest
        }

        #[doc = concat!("See ", $page, "(3).")]
        ///
        /// # Durability
        /// On return.
        ///
        /// # Safety
        /// `pmemdest` is valid for stores of `len` bytes, and `src` for loads. They may overlap.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $persist(
            pmemdest: *mut c_void,
            src: *const c_void,
            len: usize,
        ) -> *mut c_void {
            // SAFETY: - the caller's promise.
            unsafe { chosen().copy_and_drain(pmemdest.cast(), src.cast(), len, CopyPath::ByLength) };
            if owners::any() {
                persist_owned(pmemdest, len);
            }
            pmemdest
        }
    )+};
}

copies! {
    pmem_memmove, pmem_memmove_nodrain, pmem_memmove_persist: "pmem_memmove";
    pmem_memcpy, pmem_memcpy_nodrain, pmem_memcpy_persist: "pmem_memcpy";
}

/// See pmem_memset(3).
///
/// # Durability
/// On return, unless the flags hold PMEM_F_MEM_NODRAIN or PMEM_F_MEM_NOFLUSH.
///
/// # Safety
/// `pmemdest` is valid for stores of `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem_memset(
    pmemdest: *mut c_void,
    c: c_int,
    len: usize,
    flags: c_uint,
) -> *mut c_void {
    if ends_durable(flags) {
        // SAFETY: - the caller's promise.
        unsafe { chosen().fill_and_drain(pmemdest.cast(), c as u8, len, path_of(flags)) };
    } else {
        // SAFETY: - as above.
        unsafe { chosen().fill(pmemdest.cast(), c as u8, len, path_of(flags)) };
    }
    if owners::any() && flags & NOFLUSH == 0 {
        persist_owned(pmemdest, len);
    }
    pmemdest
}

/// See pmem_memset(3).
///
/// # Durability
/// After the thread's next drain.
///
/// # Safety
/// `pmemdest` is valid for stores of `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem_memset_nodrain(pmemdest: *mut c_void, c: c_int, len: usize) -> *mut c_void {
    // SAFETY: - the caller's promise.
    unsafe { chosen().fill(pmemdest.cast(), c as u8, len, CopyPath::ByLength) };
    if owners::any() {
        persist_owned(pmemdest, len);
    }
    pmemdest
}

/// See pmem_memset(3).
///
/// # Durability
/// On return.
///
/// # Safety
/// `pmemdest` is valid for stores of `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem_memset_persist(pmemdest: *mut c_void, c: c_int, len: usize) -> *mut c_void {
    // SAFETY: - the caller's promise.
    unsafe { chosen().fill_and_drain(pmemdest.cast(), c as u8, len, CopyPath::ByLength) };
    if owners::any() {
        persist_owned(pmemdest, len);
    }
    pmemdest
}

/// See pmem_log_set_threshold(3) of PMDK 2.1.
#[unsafe(no_mangle)]
pub extern "C" fn pmem_log_set_threshold(threshold: c_int, value: c_int) -> c_int {
    if logging::set_threshold(threshold, value) {
        return 0;
    }
    set_errno(libc::EINVAL);
    1
}

/// See pmem_log_get_threshold(3) of PMDK 2.1.
///
/// # Safety
/// `value` is null or valid for a store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem_log_get_threshold(threshold: c_int, value: *mut c_int) -> c_int {
    let Some(level) = logging::threshold(threshold).filter(|_| !value.is_null()) else {
        set_errno(libc::EINVAL);
        return 1;
    };
    // SAFETY: - the caller's promise.
    unsafe { value.write(level) };
    0
}

/// See pmem_log_set_function(3) of PMDK 2.1. The default function discards the messages.
///
/// # Safety
/// `log_function` is null, or a function that any thread may call while it is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem_log_set_function(log_function: Option<LogFunction>) -> c_int {
    let function = log_function.map_or(ptr::null_mut(), |function| function as *mut c_void);
    // ORDER: pairs with `log`.
    LOG_FUNCTION.store(function, Ordering::Release);
    uncancelled(|| log(logging::HARK, concat!("src version: lodestone ", env!("CARGO_PKG_VERSION"))));
    0
}

#[cfg(test)]
mod test {
    use super::*;
    use std::sync::Mutex;

    const LEN: usize = 64 << 10;
    /// The table is one for all tests: a refused call may take other ranges out for a moment.
    static ALONE: Mutex<()> = Mutex::new(());

    /// Maps a file in the page cache, and enters it in the table as memory that the kernel maps directly.
    fn direct() -> *mut c_void {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(LEN as u64).unwrap();
        let path = CString::new(file.path().to_str().unwrap()).unwrap();
        // SAFETY: - the path ends with a zero, and the other pointers may be null.
        let start = unsafe { pmem_map_file(path.as_ptr(), 0, 0, 0, ptr::null_mut(), ptr::null_mut()) };
        assert!(!start.is_null());
        insert(Direct { addresses: start.addr()..start.addr() + LEN, is_pmem: true, device: None }).unwrap();
        assert_eq!(pmem_is_pmem(start, LEN), 1);
        start
    }

    #[test]
    fn unmapped_pages_are_no_pmem() {
        let _alone = ALONE.lock();
        let start = direct();
        // SAFETY: - nothing uses the mapping.
        assert_eq!(unsafe { pmem_unmap(start, 1) }, 0);
        assert_eq!(pmem_is_pmem(start.wrapping_byte_add(4095), 1), 0);
        assert_eq!(pmem_is_pmem(start.wrapping_byte_add(4096), LEN - 4096), 1);
        // SAFETY: - as above.
        assert_eq!(unsafe { pmem_unmap(start, LEN) }, 0);
        assert_eq!(pmem_is_pmem(start.wrapping_byte_add(4096), 1), 0);
    }

    #[test]
    fn refused_unmap_forgets_nothing() {
        let _alone = ALONE.lock();
        let start = direct();
        for (at, len) in [
            (start.wrapping_byte_add(1), 4096),
            (start, 0),
            (start, usize::MAX),
            // More than the process has, if not more than any.
            (start, 1 << 55),
        ] {
            // SAFETY: - the kernel refuses the range.
            assert_eq!(unsafe { pmem_unmap(at, len) }, -1, "{len}");
            assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINVAL), "{len}");
            assert_eq!(pmem_is_pmem(start, LEN), 1, "{len}");
        }
        // SAFETY: - nothing uses the mapping.
        assert_eq!(unsafe { pmem_unmap(start, LEN) }, 0);
    }

    /// A program may unmap or replace a mapping by its own system calls, so its addresses come back.
    #[test]
    fn new_mapping_in_the_page_cache_is_no_pmem() {
        let _alone = ALONE.lock();
        let addresses = 1 << 40..(1 << 40) + LEN;
        insert(Direct { addresses: addresses.clone(), is_pmem: true, device: None }).unwrap();
        let last = addresses.start + 4096 - 1;
        register(ProgramMapping {
            addresses: addresses.start..addresses.start + 1,
            report: None,
            deep_flush: None,
        })
        .unwrap();
        assert!(!is_pmem(addresses.start, 1) && !is_pmem(last, 1));
        assert!(is_pmem(addresses.start + 4096, LEN - 4096));
    }
}
