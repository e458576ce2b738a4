//! The parts that the calls of the C libraries share: environment variables, messages, locks, flags, memory, settings, and the
//! files of pools.
//!
//! ```text
//!   exports of libpmem, of libpmem2
//!        |
//!   process: cancellation, errno, variables     Message of the thread     Table: a lock for forks and signal handlers
//!   AddressTable: ranges of addresses, found without a lock                   fork_gate: forks wait for calls on pools
//!   environment -> lode_pmem::ByAddress         copy_path: flags              allocator: memory from the program's functions
//!   pool_file -> lode_pmdk::PoolParts -> lode_pmem::ProgramMedium             ctl: settings without a pool
//! ```
//!
//! It does: the work of a call that is the same in each library, so that all behave alike. It does not: export a symbol, or know a
//! library. Each library holds a copy, with statics of its own.

mod address_table;
mod allocator;
mod ascii_number;
mod calls;
mod copy_path;
mod ctl;
mod environment;
mod failure;
pub mod fork_gate;
pub mod message;
mod pool_failure;
mod pool_file;
mod process;
mod remedy;
mod table;

pub use address_table::{AddressRange, AddressTable, NotInserted};
pub use allocator::{Free, Malloc, forget_refusal, set_functions, take_refusal, unless_refused};
pub use ascii_number::{leading_hexadecimal, leading_number};
pub use calls::{
    argument, check_version, check_version_against, ctl_exec, ctl_get, ctl_set, guarded, guarded_briefly,
    on_load, path, set_message,
};
pub use copy_path::{ends_durable, path_of};
pub use ctl::{Setting, load_variables, read_variables};
pub use environment::{Variable, flushing_instructions, forced_is_pmem, instructions};
pub use failure::Failure;
pub use lode_pmdk::{CtlClass, CtlQuery, ctl_words};
pub use pool_failure::errno_of_pool;
pub use pool_file::{NewPool, PoolFiles, PoolMemory};
pub use process::{errno, set_errno, uncancelled, variable, words_of};
pub use remedy::remedy_of;
pub use table::Table;
