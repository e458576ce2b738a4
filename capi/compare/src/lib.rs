//! The libraries of the C ABI beside Debian's: the same programs on both, and the same answers.
//!
//! ```text
//!   tests: answers, symbols, programs, linking
//!        |
//!   Library: ours, made of the archive that cargo built; Debian's
//!        |
//!   Program (C, compiled against Debian's headers) -- a process on each library -- Comparison
//! ```
//!
//! A sequence of calls comes from a seed. A step depends on the seed, the sequence and its own number alone, so any choice
//! of steps is a sequence, and a difference is shown by the fewest steps that have it.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod comparison;
mod debians_programs;
mod journal;
mod killer;
mod library;
mod lifetime;
mod limits;
mod object_examples;
mod program;
mod runs;
mod set_folder;
mod symbols;
mod tool;
mod wanted;

pub use comparison::assert_same_answers;
pub use debians_programs::{assert_fio_verifies, run_on_ours};
pub use journal::Journal;
pub use killer::{KilledRun, Killer, Moment};
pub use library::Library;
pub use lifetime::{
    assert_cancelled_threads_finish, assert_log_variables_change_nothing, assert_nothing_is_left,
    assert_static_programs_answer,
};
pub use limits::assert_same_under_limits;
pub use object_examples::object_example;
pub use program::{Program, in_memory, on_library};
pub use runs::{
    assert_memcheck_is_silent, assert_memcheck_of_run_is_silent, assert_same_runs,
    assert_same_runs_and_files, example,
};
pub use set_folder::SetFolder;
pub use symbols::{Symbols, symbols};
pub use tool::{Files, Tool, ToolResults, ToolRun};
pub use wanted::{Wanted, WantedKind};
