//! Fuzzes atomic blocks.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::blocks::run(data));
