//! Fuzzes the entries of a redo record.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::record::run(data));
