//! The end of a process that can't go on.

use std::io::Write;
use std::process;

/// Prints a message, and ends the process by SIGABRT, as PMDK does where a program breaks the rules of transactions.
#[cold]
pub(crate) fn fatal(text: &str) -> ! {
    // Without a place to print to, the signal alone has to tell.
    let _ = writeln!(std::io::stderr(), "libpmemobj: {text}");
    process::abort()
}
