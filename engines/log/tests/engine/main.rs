//! What the append log promises: a module for each promise.
//!
//! One program, because each program of tests compiles the engine anew.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod damage_is_reported;
mod disk;
mod panics_fail_later_appends;
mod pmdk_logs_without_a_header;
mod pools_in_files;
mod records_are_read_as_appended;
mod views_follow_other_handles;
