//! Fuzzes the server of network block devices: all that a client can say.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::nbd_session::run(data));
