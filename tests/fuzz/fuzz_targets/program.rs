//! Fuzzes the reading of programs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::program::run(data));
