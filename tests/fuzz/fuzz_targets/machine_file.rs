//! Fuzzes machine files.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::machine_file::run(data));
