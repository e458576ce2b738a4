//! Fuzzes the look for programs that flush by themselves.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::own_flush::run(data));
