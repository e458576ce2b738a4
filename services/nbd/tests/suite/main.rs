//! What the server promises to clients of any kind: a module for each subject.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bad_commands;
mod batches;
mod client;
mod device_faults;
mod handshakes;
mod parts_of_blocks;
mod reply_forms;
mod stop;
mod vanishing_clients;
