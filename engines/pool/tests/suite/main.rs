//! The guarantees of pools: a module for each.
//!
//! All tests are one program, because each test program compiles the engine again.

mod a_fork_has_no_pool;
mod create_makes_a_whole_file_or_none;
mod damaged_headers_are_found_and_repaired;
mod grow_keeps_the_pool_usable;
mod one_writer_or_many_readers;
mod open_refuses_what_it_must;
mod place;
mod power_cut_leaves_no_pool_or_a_whole_one;
