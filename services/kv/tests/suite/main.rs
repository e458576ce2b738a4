//! What the store promises: a module for each promise.

mod copy_is_of_one_commit;
mod damage_hides_no_tree;
mod named;
mod ranges_are_deleted;
mod read_only_store_is_unchanged;
mod resumed_load_keeps_newer_values;
mod shrunk_pool_keeps_keys;
mod snapshot_is_of_one_commit;
mod stored_pools_open;
mod unheard;
