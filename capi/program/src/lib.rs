//! Reads programs: whether one makes its stores durable by itself, from the code that it has loaded, and which libraries the loader gives it.
//!
//! ```text
//!   libpmemobj at open: loaded_files ----+
//!   lode exec --show: list of ld.so -----+--> is_passed_over --> own_flush_of_file --> OwnFlush: CLWB at 0x1d2e
//!                                                                   |
//!                                             object: sections and imports     x86_64, aarch64: instructions
//!
//!   lode exec: interpreter_of_script, Program -- object: the loader's name, DT_RPATH
//! ```
//!
//! It does: find the instructions that flush or go past the cache, and an import of msync(2). It does not: see code that is loaded
//! or made later, or calls of the kernel by number.
//!
//! # Cost
//! The headers, the symbols and the code of a file are read once. Code is decoded only around bytes that may belong to such an instruction.
#![forbid(unsafe_code)]

#[cfg(any(test, target_arch = "aarch64"))]
mod aarch64;
mod executable;
mod forced_mode;
mod loaded;
mod own_flush;
mod passed_over;
mod program;
mod reason;
#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
mod x86_instruction;

pub use executable::{own_flush, own_flush_of_file};
pub use forced_mode::{ForcedMode, UnknownMode, VARIABLE};
pub use loaded::{LoadedFile, loaded_files};
pub use own_flush::{OwnFlush, Unreadable};
pub use passed_over::is_passed_over;
pub use program::{Program, interpreter_of_script};
pub use reason::{Reason, reason_of};
