//! Fuzzes the headers of raw volumes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::raw_volume::run(data));
