//! Fuzzes saved listings of ipmctl.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::listing::run(data));
