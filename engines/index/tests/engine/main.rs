//! What the tree promises: a module for each promise.
//!
//! One program, because each program of tests compiles the engine anew.

mod check_finds_each_flipped_bit;
mod concurrent_readers_and_writers;
mod corrupt_values_are_errors;
mod damage;
mod damaged_maps_are_found;
mod damaged_maps_are_repaired;
mod emptied_pool_holds_as_much_again;
mod every_flipped_bit_is_found;
mod hostile_trees_are_checked_in_bounds;
mod image;
mod interrupted_repair_can_be_repeated;
mod locks_are_handed_on;
mod long_transactions_are_atomic;
mod maps_are_serializable;
mod maps_match_model;
mod maps_move_in_migrations;
mod nodes_grow_and_shrink;
mod number_of_readers_is_unlimited;
mod repair_keeps_sound_keys;
mod snapshots_do_not_change;
mod sorted_deletes_match_model;
mod sorted_inserts_match_model;
mod stalled_writer_is_not_corruption;
mod store_image;
mod store_repair_keeps_sound_trees;
mod transaction_of_another_heap_is_refused;
mod transactions_are_serializable;
mod tree_matches_ordered_map;
mod tree_table_damage_is_found;
mod trees_beside_typed_data_are_repaired;
