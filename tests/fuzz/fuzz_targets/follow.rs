//! Fuzzes the messages between a server of a pool in use and its clients.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::follow::run(data));
