//! What the server of a pool in use promises: a module for each promise.
//!
//! One program, because each program of tests compiles the engine anew.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod hostile_clients_harm_nobody;
mod killed_readers_keep_nothing_back;
mod place;
mod readers_prove_their_right;
mod sockets_are_replaced_with_care;
