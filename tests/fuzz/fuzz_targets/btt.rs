//! Fuzzes block translation tables.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::btt::run(data));
