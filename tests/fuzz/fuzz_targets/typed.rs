//! Fuzzes type tables, and the reading of typed data by them.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::typed::run(data));
