//! Fuzzes an image that a virtual machine has used.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::image::run(data));
