//! The message of the thread's last failure, as pmem_errormsg(3) and its relatives return it.

use std::cell::Cell;
use std::ffi::c_char;

/// Bytes of a message with its final zero. A path of the largest length and a sentence fit.
const LEN: usize = 5120;

thread_local! {
    /// Memory without a destructor, so that the library can be unloaded, and a thread end, at any time.
    static MESSAGE: [Cell<u8>; LEN] = const { [const { Cell::new(0) }; LEN] };
}

/// Replaces the thread's message. A text that is too long is cut.
pub fn set(text: &str) {
    // A thread that ends has no message any more.
    let _ = MESSAGE.try_with(|message| {
        let bytes = text.bytes().filter(|byte| *byte != 0).take(LEN - 1).chain([0]);
        message.iter().zip(bytes).for_each(|(cell, byte)| cell.set(byte));
    });
}

/// Returns the thread's message, which ends with a zero. The next failure of the thread replaces it.
pub fn get() -> *const c_char {
    MESSAGE.try_with(|message| message.as_ptr().cast()).unwrap_or(c"".as_ptr())
}
