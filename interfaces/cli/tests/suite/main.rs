//! What the program promises: a module for each promise.
//!
//! One program, because each program of tests compiles the engine anew.

mod a_failed_sync_ends_a_load;
mod bad_input_is_refused;
mod captured;
mod commands_do_what_they_say;
mod damaged_pools_through_the_program;
mod exit_0_means_all_of_it_and_right;
mod images_come_back;
mod kills_lose_nothing;
mod machines_are_emulated;
mod manual_pages_are_current;
mod modules_that_lost_data;
mod other_versions_are_refused;
mod plans_are_carried_out;
mod real_machines_are_listed;
mod real_machines_are_planned;
#[path = "../run/mod.rs"]
mod run;
