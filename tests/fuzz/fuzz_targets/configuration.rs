//! Fuzzes stored configurations of ipmctl.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::configuration::run(data));
