//! Memory from the functions that a program sets by pmemlog_set_funcs(3) and its relatives.
//!
//! Behind each block is a note of the function that frees it, so functions may be set at any time, and a block of malloc(3) is known by
//! its first byte to programs that look for lost memory. If the program's
//! function refuses, the C library's serves in its place, and the call that needed the memory fails with ENOMEM at its end: Rust
//! code has no way out of an allocation that fails.

use crate::failure::Failure;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::{mem, ptr};

/// The type of malloc(3).
pub type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
/// The type of free(3).
pub type Free = unsafe extern "C" fn(*mut c_void);

/// The program's functions; null for those of the C library.
static MALLOC: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static FREE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

#[global_allocator]
static ALLOCATOR: ProgramAllocator = ProgramAllocator;

/// True if the program's function has ever refused memory: until then no thread looks at its own word.
static ANY_REFUSED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// True if the program's function has refused memory to this thread.
    static IS_REFUSED: Cell<bool> = const { Cell::new(false) };
}

/// The note behind each block.
struct Note {
    free: Free,
    start: *mut c_void,
}

/// Bytes of a note.
const NOTE: usize = size_of::<Note>();

struct ProgramAllocator;

/// Sets the functions; `None` for those of the C library.
///
/// # Safety
/// Any thread may call the functions from now on, and for as long as memory of them is in use.
pub unsafe fn set_functions(malloc: Option<Malloc>, free: Option<Free>) {
    let pointer = |function: Option<*mut c_void>| function.unwrap_or(ptr::null_mut());
    // ORDER: the functions' code was there before the program named them.
    MALLOC.store(pointer(malloc.map(|malloc| malloc as *mut c_void)), Ordering::Release);
    // ORDER: as above.
    FREE.store(pointer(free.map(|free| free as *mut c_void)), Ordering::Release);
}

/// Returns true if the program's function has refused memory to this thread since the last call.
#[inline]
pub fn take_refusal() -> bool {
    // ORDER: a thread sees its own refusal.
    ANY_REFUSED.load(Ordering::Relaxed) && IS_REFUSED.replace(false)
}

/// Runs a call that fails with ENOMEM if the program's function refuses it memory. Refusals of earlier calls of this thread do not
/// count.
///
/// # Errors
/// Those of the call, and ENOMEM.
pub fn unless_refused<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    forget_refusal();
    let result = call()?;
    if take_refusal() { Err(Failure::no_memory()) } else { Ok(result) }
}

/// Forgets what the program's function has refused to earlier calls of this thread: few of them take note of it.
#[inline]
pub fn forget_refusal() {
    take_refusal();
}

/// Returns `size` bytes, and the function that frees them; null if there is no memory at all. If they are to be zeros, those of the C
/// library are as the kernel has made them: pages that nothing stores to take no memory.
fn allocate(size: usize, is_zeroed: bool) -> (*mut c_void, Free) {
    // ORDER: pairs with `set_functions`.
    let (malloc, free) = (MALLOC.load(Ordering::Acquire), FREE.load(Ordering::Acquire));
    let free = if free.is_null() {
        libc::free as Free
    } else {
        // SAFETY: - `set_functions` alone stores the pointer, that of a function of this type.
        unsafe { mem::transmute::<*mut c_void, Free>(free) }
    };
    if !malloc.is_null() {
        // SAFETY: - `set_functions` alone stores the pointer, that of a function of this type.
        let malloc = unsafe { mem::transmute::<*mut c_void, Malloc>(malloc) };
        // SAFETY: - the program promised that any thread may call it.
        let start = unsafe { malloc(size) };
        if !start.is_null() {
            if is_zeroed {
                // SAFETY: - the block has so many bytes, and belongs to the caller.
                unsafe { start.cast::<u8>().write_bytes(0, size) };
            }
            return (start, free);
        }
        IS_REFUSED.set(true);
        // ORDER: as in `take_refusal`.
        ANY_REFUSED.store(true, Ordering::Relaxed);
        return (of_c_library(size, is_zeroed), libc::free);
    }
    (of_c_library(size, is_zeroed), free)
}

fn of_c_library(size: usize, is_zeroed: bool) -> *mut c_void {
    match is_zeroed {
        // SAFETY: - the C library's function takes any size.
        true => unsafe { libc::calloc(1, size) },
        // SAFETY: - as above.
        false => unsafe { libc::malloc(size) },
    }
}

/// Returns a block with its note behind it.
fn noted(layout: Layout, is_zeroed: bool) -> *mut u8 {
    let align = layout.align().max(align_of::<Note>());
    let note_off = note_off(layout);
    let Some(size) = note_off.checked_add(NOTE + align) else { return ptr::null_mut() };
    let (start, free) = allocate(size, is_zeroed);
    if start.is_null() {
        return ptr::null_mut();
    }
    let off = start.addr().next_multiple_of(align) - start.addr();
    let place = start.wrapping_byte_add(off).cast::<u8>();
    let note = place.wrapping_add(note_off).cast::<Note>();
    // SAFETY: - `off` is less than `align`, so the note ends inside of the block.
    //         - `place`, and so the note, is at a multiple of the note's alignment.
    unsafe { note.write(Note { free, start }) };
    place
}

/// Returns the offset of the note from the first byte of a block.
fn note_off(layout: Layout) -> usize {
    // A layout's size is at most that of half of all memory.
    layout.size().next_multiple_of(align_of::<Note>())
}

// SAFETY: - a block has the size and the alignment that were asked for, and belongs to the caller until it is freed: it is a
//           part of a block of malloc(3), or of the program's function, which promises the same.
//         - nothing here unwinds.
unsafe impl GlobalAlloc for ProgramAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        noted(layout, false)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        noted(layout, true)
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: - `alloc` made the block with the same layout, and wrote its note.
        let Note { free, start } = unsafe { place.wrapping_add(note_off(layout)).cast::<Note>().read() };
        // SAFETY: - the function belongs to that which made the block, which nothing uses any more.
        unsafe { free(start) };
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use std::hint::black_box;
    use std::sync::atomic::AtomicUsize;

    static MADE: AtomicUsize = AtomicUsize::new(0);
    static FREED: AtomicUsize = AtomicUsize::new(0);
    /// The size that the function refuses.
    const REFUSED: usize = 77_777;

    unsafe extern "C" fn counted_malloc(size: usize) -> *mut c_void {
        if (REFUSED..REFUSED + 256).contains(&size) {
            return ptr::null_mut();
        }
        MADE.fetch_add(1, Ordering::Relaxed);
        // Not aligned for more than a word.
        // SAFETY: - takes any size.
        unsafe { libc::malloc(size + 8) }.wrapping_byte_add(8)
    }

    unsafe extern "C" fn counted_free(start: *mut c_void) {
        FREED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: - `counted_malloc` made it.
        unsafe { libc::free(start.wrapping_byte_sub(8)) };
    }

    #[test]
    fn each_block_is_freed_by_its_own_function() {
        #[repr(align(256))]
        struct Wide {
            bytes: [u8; 300],
        }
        // The compiler may leave out a block that nothing looks at.
        let before = black_box(vec![1_u8; 1000]);
        // SAFETY: - the functions take calls of any thread.
        unsafe { set_functions(Some(counted_malloc), Some(counted_free)) };
        let wide = black_box(Box::new(Wide { bytes: [2; 300] }));
        assert!(ptr::from_ref(&*wide).addr().is_multiple_of(256));
        assert_eq!((wide.bytes[299], take_refusal()), (2, false));
        assert!(black_box(vec![0_u8; 5000]).iter().all(|byte| *byte == 0));
        let refused = black_box(vec![3_u8; REFUSED]);
        assert!(take_refusal() && !take_refusal());
        drop(black_box(vec![3_u8; REFUSED]));
        assert_eq!(unless_refused(|| Ok(7)), Ok(7), "an earlier call was refused memory");
        let outcome = unless_refused(|| Ok(black_box(vec![3_u8; REFUSED]).len()));
        assert_eq!(outcome.unwrap_err().errno, libc::ENOMEM);
        assert!(MADE.load(Ordering::Relaxed) > 0);
        let freed = FREED.load(Ordering::Relaxed);
        drop(before);
        // SAFETY: - as above.
        unsafe { set_functions(None, None) };
        drop((wide, refused));
        assert!(FREED.load(Ordering::Relaxed) > freed);
        assert_eq!(black_box(vec![4_u8; 50]), [4; 50]);
        assert_eq!(black_box(vec![0_u8; 50]), [0; 50]);
    }
}
