//! What atomic blocks promise: a module for each promise.
//!
//! One program, because each program of tests compiles the engine anew.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod blocks_are_read_as_written;
mod damage_is_reported;
mod damaged_map_words_are_repaired;
mod disk;
mod full_pools_stay_writable;
mod logs_lose_no_answered_write;
mod pools_grow_while_open;
mod pools_in_files;
mod readers_and_writers_share_blocks;
