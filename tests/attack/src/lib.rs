//! An attacker of pools: random calls, crashes and damage, and a model that tells which results are right.
//!
//! ```text
//!   tests/*.rs, program `attack`      seeds in, findings out
//!        |  Trial: a worker process, watched
//!   api      random calls            kill   SIGKILL at random moments      files   damaged files
//!        |                              |                                    |
//!   lode-heap, lode-index: the library as a user calls it, and the program `lode`
//! ```
//!
//! It does everything that a safe program may do, and compares the result with a model. A worker is a process of its
//! own that notes each step before it takes it. So a hang, an abort or a signal is a finding that names its step,
//! too. It does not look into the engine: it knows the promises, not how they are kept.
#![forbid(unsafe_code)]

pub mod api;
pub mod files;
pub mod kill;
mod panic_hook;
mod progress;
mod trial;

pub use panic_hook::install_panic_hook;
pub use progress::{Progress, StepRecorder};
pub use trial::{FOUND_CODE, Finding, RunResult, STALL_LIMIT, run};

/// Makes a folder for pools that need not outlive the machine: in memory if the system has `/dev/shm`.
pub(crate) fn scratch_folder() -> std::io::Result<tempfile::TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}
