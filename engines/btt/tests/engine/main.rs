//! What tables promise: a module for each promise.
//!
//! One program, because each program of tests compiles the engine anew.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod batches_share_drains;
mod blocks_are_read_as_written;
mod bytes_have_their_pieces;
mod damage_is_reported;
mod disk;
mod flog_slots_of_old_kernels;
mod interrupted_writes_are_finished;
mod new_tables_are_lazy;
mod pools_without_a_header;
mod readers_and_writers_share_blocks;
mod repairs_lose_no_sound_block;
