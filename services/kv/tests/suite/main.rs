//! What the store promises: a module for each promise.

mod a_store_opened_for_reading_changes_nothing;
mod loads_put_nothing_older_back;
