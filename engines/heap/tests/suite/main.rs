//! What heap, transactions and typed data promise: a module for each promise.
//!
//! One program, because each program of tests compiles the engine anew.

mod a_full_pool_refuses_only_when_it_is_full;
mod a_full_typed_pool_goes_on;
mod a_heap_opened_for_reading_changes_nothing;
mod content_in_place_can_be_changed_at_once;
mod failed_closures_change_nothing;
mod lost_memory_takes_no_store;
mod no_fault_is_discarded;
mod objects_at_the_edge_of_space;
mod objects_never_overlap;
mod pool;
mod readers_see_one_moment;
mod reservations_are_taken_at_commit_or_given_back;
mod transfers_conserve_the_sum;
mod troubled;
mod typed_pools_grow_and_come_back;
mod types_are_checked;
mod what_lost_memory_keeps_from_home_stays_in_the_log;
