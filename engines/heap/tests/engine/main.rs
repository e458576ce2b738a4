//! What heap, transactions and typed data promise: a module for each promise.
//!
//! One program, because each program of tests compiles the engine anew.

mod allocation_size_limits;
mod boxes_in_vectors_match_model;
mod concurrent_transfers_preserve_sum;
mod failed_closures_roll_back;
mod failed_write_back_stays_in_log;
mod faults_are_reported;
mod faulty_medium;
mod full_typed_pool_reuses_space;
mod hash_maps_match_model;
mod later_transactions;
mod locks_are_handed_on;
mod long_typed_transactions;
mod migrations_go_on;
mod migrations_in_place;
mod migrations_keep_owners;
mod objects_never_overlap;
mod open_transactions_commit_or_conflict;
mod out_of_space_only_when_full;
mod owned_snapshots_keep_their_heap;
mod payload_changed_in_its_transaction;
mod pool;
mod pools_grow_by_themselves;
mod pools_of_one_brand;
mod queues_match_model;
mod read_only_heap_is_unchanged;
mod readers_see_consistent_data;
mod reservations_commit_or_roll_back;
mod snapshots_keep_what_is_replaced;
mod space_of_an_old_epoch;
mod stores_to_lost_memory_fail;
mod transactions_are_serializable;
mod typed_closures_need_no_types;
mod typed_pools_grow_and_reopen;
mod types_are_checked;
mod types_of_pools_are_compared;
mod values_are_checked;
