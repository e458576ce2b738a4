//! Fuzzes logs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::log::run(data));
