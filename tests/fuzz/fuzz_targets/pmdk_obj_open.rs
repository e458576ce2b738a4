//! Fuzzes the reading, recovery, check and repair of libpmemobj's pools.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::pmdk_obj_open::run(data));
