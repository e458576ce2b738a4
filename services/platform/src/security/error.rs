//! Errors of security commands.

use super::limits::PASSPHRASE_LEN;
use super::role::Role;
use super::seal_error::SealError;
use crate::file::error::FileError;
use crate::machine::ModuleError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A security command is refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SecurityError {
    /// The module does not exist or does not answer.
    #[error(transparent)]
    Module(#[from] ModuleError),
    /// The kernel shows no security state of the module.
    #[error(
        "nmem{index}: security operation not supported: the kernel shows no security state of this module"
    )]
    Unsupported {
        /// N of nmemN.
        index: usize,
    },
    /// A region of the module is active.
    #[error("regions active on nmem{index}, op failed; disable region{region} first")]
    RegionActive {
        /// N of nmemN.
        index: usize,
        /// Number of the region.
        region: u32,
    },
    /// The module overwrites its media.
    #[error(
        "nmem{index} overwrites its media and takes no other command; wait until the overwrite has ended"
    )]
    Overwriting {
        /// N of nmemN.
        index: usize,
    },
    /// Security is frozen.
    #[error("nmem{index}: security is frozen until the next start of the machine; start it first")]
    Frozen {
        /// N of nmemN.
        index: usize,
    },
    /// Too many passphrases were wrong.
    #[error(
        "nmem{index}: the {role} passphrase was wrong too often, and none is taken until the next start; start the machine first"
    )]
    Limit {
        /// N of nmemN.
        index: usize,
        /// The passphrase.
        role: Role,
    },
    /// No passphrase is set.
    #[error("nmem{index} has no passphrase: its security is disabled; set one up first")]
    Disabled {
        /// N of nmemN.
        index: usize,
    },
    /// A passphrase is not that of the module.
    #[error(
        "nmem{index}: the {role} passphrase is wrong; use the right one: {left} more tries until the next start"
    )]
    WrongPassphrase {
        /// N of nmemN.
        index: usize,
        /// The passphrase.
        role: Role,
        /// Tries that are left.
        left: u32,
    },
    /// A passphrase was given for a module without one.
    #[error("nmem{index} has no passphrase, and takes only the zero key")]
    NotZero {
        /// N of nmemN.
        index: usize,
    },
    /// A passphrase is empty or too long.
    #[error("a passphrase of {len} bytes can't be: it has 1 to {PASSPHRASE_LEN}; choose another one")]
    PassphraseLength {
        /// Its length in bytes.
        len: usize,
    },
    /// An overwrite by the master passphrase.
    #[error(
        "nmem{index}: overwrite does not support master passphrase; leave it out, or erase by crypto-erase"
    )]
    MasterOverwrite {
        /// N of nmemN.
        index: usize,
    },
    /// A removal of the master passphrase.
    #[error(
        "nmem{index}: the kernel removes no master passphrase of a module of this kind; replace it instead"
    )]
    MasterRemoval {
        /// N of nmemN.
        index: usize,
    },
    /// The text is no handle of a key-encryption-key.
    #[error("`{text}` is no key handle; give user:DESCRIPTION, as user:nvdimm-master")]
    KekHandle {
        /// The text.
        text: String,
    },
    /// The key-encryption-key is in a TPM.
    #[error("{text} is a key of a TPM, which an emulated machine does not have; use a key of the type user")]
    TrustedKek {
        /// The handle.
        text: String,
    },
    /// A handle of a TPM was given.
    #[error(
        "{place} names a handle of a TPM, which an emulated machine does not have; leave it out, and use a key of the type user"
    )]
    TpmHandle {
        /// The option or the file.
        place: String,
    },
    /// The key-encryption-key is not in the keyring.
    #[error("no key encryption key found: the user keyring has no key {kek}; add it first")]
    NoKek {
        /// The handle.
        kek: String,
    },
    /// The key-encryption-key is neither in the keyring nor in the folder of keys.
    #[error("the user keyring has no key user:{kek}, and {} is missing; put its bytes there", path.display())]
    NoKekBlob {
        /// Description of the key.
        kek: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// The keyring has a passphrase of the module already.
    #[error("key already present in user keyring: {key}; update the passphrase, or unlink the key")]
    KeyPresent {
        /// Description of the key.
        key: String,
    },
    /// A blob of the module exists already.
    #[error("{} already exists; update the passphrase, or move the blob away", path.display())]
    BlobPresent {
        /// The blob.
        path: PathBuf,
    },
    /// The keyring does not have the passphrase that unlocks the module.
    #[error(
        "nmem{index} stays locked: the user keyring has no key {key}; load it with `lode ndctl load-keys`"
    )]
    KeyNotLoaded {
        /// N of nmemN.
        index: usize,
        /// Description of the key.
        key: String,
    },
    /// Neither the keyring nor the folder of keys has the passphrase.
    #[error(
        "nmem{index}: unable to load key: the user keyring has no key {key}, and {} is missing; put the blob back there",
        path.display()
    )]
    NoKey {
        /// N of nmemN.
        index: usize,
        /// Description of the key.
        key: String,
        /// The blob.
        path: PathBuf,
    },
    /// A sealed passphrase can't be used.
    #[error("{place}: {error}; put back the right blob or key")]
    Seal {
        /// The key or the blob.
        place: String,
        /// The fault.
        #[source]
        error: SealError,
    },
    /// The kernel refused an operation on its keyring.
    #[error("{what} the key {key} in the kernel's user keyring: {error}; {}", keyring_advice(error))]
    Keyring {
        /// The operation.
        what: &'static str,
        /// Description of the key.
        key: String,
        /// The kernel's error.
        #[source]
        error: io::Error,
    },
    /// The kernel gave no random bytes.
    #[error("asking the kernel for random bytes: {error}; try again")]
    Random {
        /// The kernel's error.
        #[source]
        error: io::Error,
    },
    /// A file of the folder of keys can't be used.
    #[error(transparent)]
    File(#[from] FileError),
}

impl SecurityError {
    /// Returns true if the module counted the refused command.
    pub fn is_counted(&self) -> bool {
        matches!(self, SecurityError::WrongPassphrase { .. })
    }
}

/// Returns the next step after an error of the keyring.
fn keyring_advice(error: &io::Error) -> &'static str {
    use rustix::io::Errno;
    match Errno::from_io_error(error) {
        Some(Errno::NOSYS) => {
            "this kernel, or the filter of this container, has no keyrings: use another one"
        }
        Some(Errno::PERM) => {
            "a filter of this container refuses keyrings: allow add_key and keyctl, or leave it"
        }
        Some(Errno::ACCESS) => {
            "let the owner of the key grant it, or link @u to your session: keyctl link @u @s"
        }
        Some(Errno::DQUOT) => "the quota of keys is used up: remove some, or raise kernel.keys.maxkeys",
        Some(Errno::KEYEXPIRED | Errno::KEYREVOKED) => "add the key again",
        _ => "look at /proc/keys",
    }
}
