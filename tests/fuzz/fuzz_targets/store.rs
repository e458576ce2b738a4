//! Fuzzes check, repair and use of a store with a hostile table of trees.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::store::run(data));
