//! What the tree promises: a module for each promise.
//!
//! One program, because each program of tests compiles the engine anew.

mod a_tree_is_changed_by_its_own_heap_only;
mod a_value_is_right_or_an_error;
mod a_writer_that_stands_still_is_no_damage;
mod any_number_of_readers;
mod behaves_like_an_ordered_map;
mod damage_is_found;
mod emptied_pool_takes_as_much_again;
mod every_flipped_bit_is_found;
mod hostile_trees_are_looked_at_in_bounds;
mod image;
mod nodes_grow_and_shrink;
mod readers_and_writers_run_beside_each_other;
mod repair_can_be_stopped_anywhere;
mod repair_saves_what_is_sound;
