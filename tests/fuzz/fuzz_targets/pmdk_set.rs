//! Fuzzes the set files of PMDK's pools.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::pmdk_set::run(data));
