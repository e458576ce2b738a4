//! Fuzzes the label storage area of a module.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::label::run(data));
