//! The guarantees of pools: a module for each.
//!
//! All tests are one program, because each test program compiles the engine again.

mod corrupt_headers_are_found_and_repaired;
mod create_is_atomic;
mod fixture;
mod forked_child_is_refused;
mod grow_keeps_the_pool_usable;
mod one_writer_or_many_readers;
mod open_refuses_invalid_pools;
mod power_cut_during_format_and_grow;
