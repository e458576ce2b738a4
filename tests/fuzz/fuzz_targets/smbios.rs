//! Fuzzes the SMBIOS table.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::smbios::run(data));
