//! Fuzzes the check and the repair of PMDK's pools.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::pmdk_check::run(data));
