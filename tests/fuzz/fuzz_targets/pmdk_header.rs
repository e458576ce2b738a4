//! Fuzzes the headers of PMDK's pools.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::pmdk_header::run(data));
