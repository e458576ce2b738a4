//! Security of modules: passphrases, locks, erasure, and the keys in the kernel's keyring.
//!
//! ```text
//!   verbs.rs          the commands of ndctl: key first, then module, then blob and keyring
//!      |                    |                      |
//!   rules.rs          sealed.rs, kek.rs      keyring.rs, key_file.rs
//!   state table       blobs that the         user keys of the kernel, blobs in the directory
//!   of a module       kernel can load
//! ```
//!
//! The state table is that of the kernel's `drivers/nvdimm/security.c` and `tools/testing/nvdimm/test/nfit.c`, which
//! follows the DSM interface 1.8 of Intel:
//!
//! | command            | disabled      | unlocked      | locked        | frozen, limit reached | overwrite |
//! |---|---|---|---|---|---|
//! | set passphrase     | old is zero   | old matches   | old matches   | refused               | refused   |
//! | set master         | old matches   | old matches   | old matches   | refused               | refused   |
//! | disable passphrase | refused       | matches       | matches       | refused               | refused   |
//! | freeze             | refused       | frozen        | frozen        | stays                 | refused   |
//! | unlock             | does nothing  | does nothing  | matches       | refused if locked     | refused   |
//! | crypto erase       | zero          | matches       | matches       | refused               | refused   |
//! | overwrite          | any           | matches       | matches       | refused               | refused   |
//! | start              | disabled      | locked        | locked        | locked                | as before |
//!
//! A start also ends a freeze and an overwrite, and resets the count of wrong passphrases. Sources disagree about the
//! passphrase after an overwrite: the manual page of `sanitize-dimm` says that it is gone; the kernel and ndctl's code
//! keep it, as here. They also disagree about the master passphrase after a crypto erase by the user passphrase: the
//! kernel's test module clears it there, but says that it is never cleared; here it is kept.

mod error;
mod hex;
mod kek;
mod key_file;
mod keyring;
mod limits;
mod module_security;
mod passphrase;
mod passphrase_hash;
mod role;
mod rules;
mod seal_error;
mod sealed;
mod verbs;

pub use error::SecurityError;
pub use kek::KekHandle;
pub use keyring::Keyring;
pub(crate) use keyring::forget_keys;
pub use limits::{PASSPHRASE_LEN, TRIES};
pub use module_security::ModuleSecurity;
pub use passphrase::Passphrase;
pub use passphrase_hash::PassphraseHash;
pub use role::Role;
pub use rules::{disable_passphrase, erase, finish_overwrite, freeze, overwrite, set_passphrase, unlock};
pub(crate) use rules::{has_master_passphrase, has_passphrase, reported, settle_all, start};
pub use seal_error::SealError;
pub use sealed::SealedPassphrase;
pub use verbs::{
    KeysLoaded, Sanitizing, freeze_security, load_keys, remove_passphrase, sanitize, setup_passphrase,
    unlock_with_key, update_passphrase, wait_overwrite,
};
