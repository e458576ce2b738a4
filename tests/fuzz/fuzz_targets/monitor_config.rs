//! Fuzzes configuration files of `ndctl monitor`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::monitor_config::run(data));
