//! Fuzzes the NVDIMM Firmware Interface Table.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::nfit::run(data));
