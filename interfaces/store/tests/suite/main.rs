//! What a store promises: a module for each promise.
//!
//! One program, because each program of tests compiles the engine anew.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod append_adds_sorted_entries;
mod at_end;
mod begun_transactions;
mod copies_have_all_trees;
mod dropped_trees_give_space_back;
mod errors_say_what_to_do;
mod fixed_values_are_their_bytes;
mod handles_are_send;
mod kills_leave_a_prefix;
mod later_transactions;
mod other_processes_follow;
mod place;
mod savepoints_take_back;
mod shrunk_store_keeps_trees;
mod small_store_grows;
mod spans_are_entered;
mod store_matches_model;
mod stored_stores_open;
mod threads_share_a_store;
mod transactions_are_linear;
mod tree_calls;
mod typed_data_and_trees;
