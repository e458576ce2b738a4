//! Programs that depend on `lodestone-store` alone, in the tests of this crate: what the derives generate has to find it.
#![forbid(unsafe_code)]
