//! The parts that the calls of the C libraries share: environment variables, messages, locks and flags.
//!
//! ```text
//!   exports of libpmem, of libpmem2
//!        |
//!   process: cancellation, errno, variables     Message of the thread     Table: a lock for forks and signal handlers
//!   environment -> lode_pmem::ByAddress         copy_path: flags
//! ```
//!
//! It does: the work of a call that is the same in each library, so that all behave alike. It does not: export a symbol, or know a
//! library. Each library holds a copy, with statics of its own.

mod ascii_number;
mod copy_path;
mod environment;
pub mod message;
mod process;
mod table;

pub use ascii_number::{leading_hexadecimal, leading_number};
pub use copy_path::{ends_durable, path_of};
pub use environment::{Variable, instructions};
pub use process::{errno, set_errno, uncancelled, variable, words_of};
pub use table::Table;
