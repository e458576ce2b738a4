//! Fuzzes the descriptions of changes of PMDK's sets.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::pmdk_change::run(data));
