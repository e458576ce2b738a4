//! Fuzzes sealed passphrases of modules.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lode_fuzz::sealed_passphrase::run(data));
