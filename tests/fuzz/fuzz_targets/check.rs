//! Fuzzes check, repair and open of a whole pool.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::check::run(data));
