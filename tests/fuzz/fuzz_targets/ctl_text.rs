//! Fuzzes the settings of PMDK's libraries.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::ctl_text::run(data));
