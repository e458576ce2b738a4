//! Limits of a module (DSM interface 1.8).

/// Bytes of a passphrase, as the module takes it.
pub const PASSPHRASE_LEN: usize = 32;

/// Number of wrong passphrases after which a module takes none until the next start.
pub const TRIES: u32 = 5;
