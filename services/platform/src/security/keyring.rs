//! The kernel's user keyring, as one emulated machine uses it.

use super::error::SecurityError;
use super::key_file::{KEK_NAME, key_name};
use super::role::Role;
use crate::platform::Platform;
use linux_keyutils::{Key, KeyError, KeyPermissionsBuilder, KeyRing, KeyRingIdentifier, Permission};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::path::Path;

/// The kernel's user keyring, as one emulated machine uses it.
///
/// Keys of the machine have the names that ndctl gives them, an `@`, and the directory of the machine: several
/// directories may hold modules with the same identity, and a real machine may have one of them. They have the type
/// `user`, and hold sealed passphrases: the kernel opens a key of the type `encrypted` for itself only.
#[derive(Clone, Debug)]
pub struct Keyring {
    ring: KeyRing,
    scope: String,
}

impl Keyring {
    /// Opens the keyring for the machine in a directory.
    ///
    /// # Errors
    /// Fails if the kernel refuses it.
    pub fn open(root: &Path) -> Result<Keyring, SecurityError> {
        let root = fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
        let scope = root.display().to_string();
        let ring = KeyRing::from_special_id(KeyRingIdentifier::User, true);
        let ring = ring.map_err(|error| refused("opening", "@u", error))?;
        Ok(Keyring { ring, scope })
    }

    /// Returns the description of a key of this machine.
    pub fn description(&self, name: &str) -> String {
        format!("{name}@{}", self.scope)
    }

    /// Reads a key of this machine; `None` if the keyring does not have it.
    ///
    /// # Errors
    /// Fails if the kernel refuses it.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, SecurityError> {
        self.read_exactly(&self.description(name))
    }

    /// Reads a key that machines share if this machine does not have one of its own; `None` if the keyring has neither.
    ///
    /// # Errors
    /// Fails if the kernel refuses it.
    pub fn read_shared(&self, name: &str) -> Result<Option<Vec<u8>>, SecurityError> {
        Ok(match self.read(name)? {
            Some(bytes) => Some(bytes),
            None => self.read_exactly(name)?,
        })
    }

    /// Adds a key of this machine, or replaces it.
    ///
    /// # Errors
    /// Fails if the kernel refuses it.
    pub fn add(&self, name: &str, bytes: &[u8]) -> Result<(), SecurityError> {
        let key = self.description(name);
        let added = self.ring.add_key(&key, bytes).and_then(|key| {
            // A session without a link to the user keyring possesses none of its keys.
            let permissions =
                KeyPermissionsBuilder::builder().posessor(Permission::ALL).user(Permission::ALL);
            key.set_perms(permissions.build())
        });
        added.map_err(|error| refused("adding", &key, error))
    }

    /// Removes a key of this machine. Does nothing if the keyring does not have it.
    ///
    /// # Errors
    /// Fails if the kernel refuses it.
    pub fn remove(&self, name: &str) -> Result<(), SecurityError> {
        let key = self.description(name);
        match self.find(&key)? {
            Some(found) => self.ring.unlink_key(found).map_err(|error| refused("removing", &key, error)),
            None => Ok(()),
        }
    }

    fn read_exactly(&self, key: &str) -> Result<Option<Vec<u8>>, SecurityError> {
        match self.find(key)? {
            Some(found) => found.read_to_vec().map(Some).map_err(|error| refused("reading", key, error)),
            None => Ok(None),
        }
    }

    fn find(&self, key: &str) -> Result<Option<Key>, SecurityError> {
        match self.ring.search(key) {
            Ok(found) => Ok(Some(found)),
            Err(KeyError::KeyDoesNotExist) => Ok(None),
            Err(error) => Err(refused("searching", key, error)),
        }
    }
}

/// Removes the keys of all modules from the keyring, which does not outlive a start.
pub(crate) fn forget_keys(root: &Path, platform: &Platform) {
    let Ok(ring) = Keyring::open(root) else { return };
    let identities = platform.machine.modules.iter().filter_map(|module| module.identity);
    let names = identities.flat_map(|id| [Role::User, Role::Master].map(|role| key_name(&id, role)));
    for name in names.chain([KEK_NAME.to_owned()]) {
        // A key that the kernel keeps is one that was not lost.
        let _ = ring.remove(&name);
    }
}

/// Makes the error of a refused operation.
fn refused(what: &'static str, key: &str, error: KeyError) -> SecurityError {
    let errno = match error {
        KeyError::AccessDenied => Errno::ACCESS,
        KeyError::QuotaExceeded => Errno::DQUOT,
        KeyError::BadAddress => Errno::FAULT,
        KeyError::KeyExpired => Errno::KEYEXPIRED,
        KeyError::KeyRevoked => Errno::KEYREVOKED,
        KeyError::KeyRejected => Errno::KEYREJECTED,
        KeyError::KeyDoesNotExist | KeyError::KeyringDoesNotExist => Errno::NOKEY,
        KeyError::OutOfMemory => Errno::NOMEM,
        KeyError::OperationNotSupported => Errno::OPNOTSUPP,
        KeyError::PermissionDenied => Errno::PERM,
        KeyError::MissingFileOrDirectory => Errno::NOENT,
        KeyError::Unknown(errno) => Errno::from_raw_os_error(errno),
        _ => Errno::INVAL,
    };
    SecurityError::Keyring { what, key: key.to_owned(), error: io::Error::from(errno) }
}
