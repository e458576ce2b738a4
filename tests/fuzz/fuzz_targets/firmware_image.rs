//! Fuzzes firmware images of modules.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::firmware_image::run(data));
