//! Errors of sealed passphrases.

use super::limits::PASSPHRASE_LEN;
use thiserror::Error;

/// A sealed passphrase can't be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SealError {
    /// The text is not that of an encrypted key.
    #[error("it is not `enc32 user:DESCRIPTION 32 DIGITS`, the form of a sealed passphrase")]
    Form,
    /// The sealed passphrase has another length.
    #[error("it seals {found} bytes; a passphrase has {PASSPHRASE_LEN}")]
    Length {
        /// The length that it names.
        found: String,
    },
    /// Its key-encryption-key is not a user key.
    #[error("its key-encryption-key is {kek}, and an emulated machine has no TPM for it")]
    Kek {
        /// The handle that it names.
        kek: String,
    },
    /// The checksum is not that of the key: another key sealed it, or it is damaged.
    #[error("the key {kek} has not sealed it, or it is damaged")]
    Mac {
        /// The handle that it names.
        kek: String,
    },
}
