//! The tests of the program: a module for each property.
//!
//! One program, because each program of tests compiles the engine anew.

mod bench_is_found;
mod bytes_are_located;
mod command_behaviour;
mod completions_complete;
mod corrupt_pools;
mod cxl_listings_match_cxl;
mod cxl_verbs;
mod damaged_stores;
mod damaged_tables;
mod dax_volumes_are_mapped;
mod daxctl_verbs;
mod dirty_shutdown;
mod emulated;
mod emulated_machines;
mod exec_runs_programs;
mod exit_0_means_complete_output;
mod failed_sync_stops_load;
mod guide_is_true;
mod images_round_trip;
mod incompatible_versions;
mod invalid_input_is_rejected;
mod json_is_structured;
mod kills_lose_no_acknowledged_key;
mod logs_keep_their_records;
mod manual_pages_are_current;
mod migrations_are_reported;
mod modules_are_locked;
mod modules_are_monitored;
mod modules_are_replaced;
mod modules_report_health;
mod modules_update_firmware;
mod ndctl_verbs;
mod plans_are_applied;
mod pools_in_use_are_read;
#[path = "../program/mod.rs"]
mod program;
mod ranges_are_deleted;
mod real_machine_listings;
mod real_machine_pictures;
mod real_machine_plans;
mod real_machines_are_rehearsed;
mod stores_are_read;
mod sysfs_captures;
mod tool_options_are_true;
mod typed_pools_are_printed;
mod typed_pools_are_repaired;
mod volume_clients;
mod volume_journal;
mod volume_pipes;
mod volume_server;
mod volumes_are_measured;
mod volumes_are_served;
mod volumes_in_place;
mod volumes_keep_their_content;
