//! Fuzzes the header of a pool.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::header::run(data));
