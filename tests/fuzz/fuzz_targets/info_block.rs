//! Fuzzes the info blocks of namespaces.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::info_block::run(data));
