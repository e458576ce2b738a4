//! The security commands of ndctl on an emulated machine.
//!
//! A change of a passphrase is one change of the directory: the hash in the state, and the blob. The keyring follows.
//! A crash before it follows leaves no key or an old one: an update removes the key before the change, so the next
//! command takes the passphrase from the blob, which is that of the module before and after.

use super::error::SecurityError;
use super::kek::KekHandle;
use super::key_file::{KEK_FILE, KEK_NAME, TPM_FILE, blob_name, key_name, key_of_blob, read_blob};
use super::keyring::Keyring;
use super::passphrase::Passphrase;
use super::role::Role;
use super::rules;
use super::seal_error::SealError;
use super::sealed::SealedPassphrase;
use crate::directory::{Directory, KEYS};
use crate::error::PlatformError;
use crate::file::error::FileError;
use crate::platform::Platform;
use lode_nvdimm::ModuleId;
use std::fs;
use std::path::{Path, PathBuf};

/// Method of `sanitize-dimm`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sanitizing {
    /// Erase by a new media key; the default without an overwrite.
    pub crypto_erase: bool,
    /// Overwrite media and labels.
    pub overwrite: bool,
    /// Erase by the master passphrase.
    pub master: bool,
    /// Erase by the passphrase of zeros, which a module without one takes.
    pub zero_key: bool,
}

/// Result of `load-keys`.
#[derive(Debug, Default)]
pub struct KeysLoaded {
    /// True if the key-encryption-key was loaded; false if the keyring had it.
    pub kek: bool,
    /// Number of passphrases that were loaded.
    pub keys: usize,
    /// The modules that were unlocked: N of nmemN.
    pub unlocked: Vec<usize>,
    /// Blobs and modules that failed.
    pub failures: Vec<PlatformError>,
}

/// Makes a random passphrase, sets it, and stores it, sealed by a key-encryption-key.
///
/// # Errors
/// Fails if the keyring lacks the key-encryption-key, if a passphrase or a blob exists, if a region of the module is
/// active, or if [`rules::set_passphrase`] or a system call fails.
///
/// # Durability
/// Passphrase and blob are durable together when this returns. The key in the keyring is gone at the next start.
pub fn setup_passphrase(
    directory: &mut Directory,
    index: usize,
    role: Role,
    kek: &KekHandle,
) -> Result<(), PlatformError> {
    let keys = Keys::of(directory, index, role)?;
    let kek_bytes = keys.kek_bytes(kek)?;
    rules::check_idle(directory.platform(), index)?;
    if keys.ring.read(&keys.name)?.is_some() {
        return Err(SecurityError::KeyPresent { key: keys.ring.description(&keys.name) }.into());
    }
    if keys.blob().exists() {
        return Err(SecurityError::BlobPresent { path: keys.blob() }.into());
    }
    let new = Passphrase::random()?;
    let sealed = SealedPassphrase::seal(&new, kek, &kek_bytes)?.to_string();
    attempt(directory, |platform| {
        rules::set_passphrase(platform, index, role, &Passphrase::ZERO, &new)?;
        platform.contents.write_key(&keys.file, sealed.clone());
        Ok(())
    })?;
    Ok(keys.ring.add(&keys.name, sealed.as_bytes())?)
}

/// Replaces a passphrase by a random one, sealed by `kek`, or by the key that sealed the old one.
///
/// # Errors
/// Fails if the blob or a key-encryption-key is missing, if a region of the module is active, or if
/// [`rules::set_passphrase`] or a system call fails.
///
/// # Durability
/// That of [`setup_passphrase`].
pub fn update_passphrase(
    directory: &mut Directory,
    index: usize,
    role: Role,
    kek: Option<&KekHandle>,
) -> Result<(), PlatformError> {
    let keys = Keys::of(directory, index, role)?;
    rules::check_idle(directory.platform(), index)?;
    let sealed = keys.read_blob()?.ok_or_else(|| keys.missing())?;
    let kek = kek.unwrap_or_else(|| sealed.kek());
    let kek_bytes = keys.kek_bytes(kek)?;
    let old = keys.unseal(&sealed)?;
    let new = Passphrase::random()?;
    let sealed = SealedPassphrase::seal(&new, kek, &kek_bytes)?.to_string();
    let held = keys.ring.read(&keys.name)?;
    keys.ring.remove(&keys.name)?;
    let answer = attempt(directory, |platform| {
        rules::set_passphrase(platform, index, role, &old, &new)?;
        platform.contents.write_key(&keys.file, sealed.clone());
        Ok(())
    });
    if let (Err(PlatformError::Security(_)), Some(held)) = (&answer, held) {
        // The blob may be an old one, and the key the only right one.
        keys.ring.add(&keys.name, &held)?;
    }
    answer?;
    Ok(keys.ring.add(&keys.name, sealed.as_bytes())?)
}

/// Removes the user passphrase, its key and its blob.
///
/// # Errors
/// Fails if neither keyring nor folder has the passphrase, for the master passphrase, or if
/// [`rules::disable_passphrase`] or a system call fails.
///
/// # Durability
/// That of [`setup_passphrase`].
pub fn remove_passphrase(directory: &mut Directory, index: usize, role: Role) -> Result<(), PlatformError> {
    let keys = Keys::of(directory, index, role)?;
    let passphrase = keys.passphrase(directory.platform())?.ok_or_else(|| keys.missing())?;
    if role == Role::Master {
        return Err(SecurityError::MasterRemoval { index }.into());
    }
    attempt(directory, |platform| {
        rules::disable_passphrase(platform, index, &passphrase)?;
        keys.discard_blob(platform);
        Ok(())
    })?;
    Ok(keys.ring.remove(&keys.name)?)
}

/// Refuses all security commands until the next start.
///
/// # Errors
/// Those of [`rules::freeze`].
pub fn freeze_security(directory: &mut Directory, index: usize) -> Result<(), PlatformError> {
    directory.change(|platform| rules::freeze(platform, index))
}

/// Erases a module, starts to overwrite it, or both. An erasure removes the user passphrase, its key and its blob.
///
/// # Errors
/// Fails if a passphrase is needed that neither keyring nor folder has, or if [`rules::erase`], [`rules::overwrite`] or
/// a system call fails.
///
/// # Durability
/// Each of both steps is durable when this returns.
pub fn sanitize(
    directory: &mut Directory,
    index: usize,
    sanitizing: Sanitizing,
) -> Result<(), PlatformError> {
    let user = Keys::of(directory, index, Role::User)?;
    if sanitizing.overwrite && sanitizing.master {
        return Err(SecurityError::MasterOverwrite { index }.into());
    }
    if sanitizing.crypto_erase || !sanitizing.overwrite {
        let (role, passphrase) = match sanitizing {
            Sanitizing { zero_key: true, .. } => (Role::User, Passphrase::ZERO),
            Sanitizing { master: true, .. } => {
                let keys = Keys::of(directory, index, Role::Master)?;
                let passphrase = keys.passphrase(directory.platform())?;
                (Role::Master, passphrase.ok_or_else(|| keys.missing())?)
            }
            _ => {
                let passphrase = user.passphrase(directory.platform())?;
                (Role::User, passphrase.ok_or_else(|| user.missing())?)
            }
        };
        attempt(directory, |platform| {
            rules::erase(platform, index, role, &passphrase)?;
            user.discard_blob(platform);
            Ok(())
        })?;
        user.ring.remove(&user.name)?;
    }
    if sanitizing.overwrite {
        let passphrase = user.passphrase(directory.platform())?.unwrap_or(Passphrase::ZERO);
        attempt(directory, |platform| rules::overwrite(platform, index, &passphrase))?;
    }
    Ok(())
}

/// Waits for the end of an overwrite. Returns false if none was in progress.
///
/// # Errors
/// Those of [`rules::finish_overwrite`].
pub fn wait_overwrite(directory: &mut Directory, index: usize) -> Result<bool, PlatformError> {
    directory.change(|platform| rules::finish_overwrite(platform, index))
}

/// Unlocks a module by its key in the keyring, as the kernel does when its driver takes the module. Returns false if
/// the module was not locked.
///
/// # Errors
/// Fails if the keyring lacks the key, or if [`rules::unlock`] or a system call fails.
pub fn unlock_with_key(directory: &mut Directory, index: usize) -> Result<bool, PlatformError> {
    let entry = rules::current(directory.platform(), index)?;
    if !entry.locked {
        return Ok(false);
    }
    rules::check_not_frozen(&entry, index)?;
    let keys = Keys::of(directory, index, Role::User)?;
    let not_loaded = || SecurityError::KeyNotLoaded { index, key: keys.ring.description(&keys.name) };
    let passphrase = keys.loaded_passphrase()?.ok_or_else(not_loaded)?;
    attempt(directory, |platform| rules::unlock(platform, index, &passphrase))
}

/// Loads the key-encryption-key and the sealed passphrases of a folder into the keyring. Then the kernel takes the
/// modules, and unlocks each locked one that has its key.
///
/// `folder` is that of the directory if it is `None`.
///
/// # Errors
/// Fails if the folder names a TPM, or if the key-encryption-key is neither in the keyring nor in the folder. Blobs and
/// modules that fail are in the result.
pub fn load_keys(directory: &mut Directory, folder: Option<&Path>) -> Result<KeysLoaded, PlatformError> {
    let ring = Keyring::open(directory.root())?;
    let is_given = folder.is_some();
    let folder = folder.map_or_else(|| directory.root().join(KEYS), Path::to_owned);
    let tpm = folder.join(TPM_FILE);
    if tpm.exists() {
        return Err(SecurityError::TpmHandle { place: tpm.display().to_string() }.into());
    }
    let files = if folder.exists() || is_given { blob_files(&folder)? } else { Vec::new() };
    let mut loaded = KeysLoaded::default();
    if ring.read_shared(KEK_NAME)?.is_none() {
        let bytes = read_blob(&folder.join(KEK_FILE)).map_err(SecurityError::from)?;
        let no_kek = || SecurityError::NoKekBlob { kek: KEK_NAME, path: folder.join(KEK_FILE) };
        ring.add(KEK_NAME, &bytes.ok_or_else(no_kek)?)?;
        loaded.kek = true;
    }
    for file in files {
        let Some(name) = key_of_blob(&file) else { continue };
        match load_blob(&ring, &folder.join(file), &name) {
            Ok(()) => loaded.keys += 1,
            Err(error) => loaded.failures.push(error.into()),
        }
    }
    for index in 0..directory.platform().machine.modules.len() {
        match unlock_with_key(directory, index) {
            Ok(true) => loaded.unlocked.push(index),
            // A module without security, or without its key, stays as it is.
            Ok(false)
            | Err(PlatformError::Security(
                SecurityError::KeyNotLoaded { .. }
                | SecurityError::Unsupported { .. }
                | SecurityError::Module(_),
            )) => {}
            Err(error) => loaded.failures.push(error),
        }
    }
    Ok(loaded)
}

/// Returns the names of the files in a folder, sorted.
fn blob_files(folder: &Path) -> Result<Vec<String>, SecurityError> {
    let failed = |error| FileError { what: "reading", path: folder.to_owned(), error };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        files.extend(entry.map_err(failed)?.file_name().into_string());
    }
    files.sort_unstable();
    Ok(files)
}

/// Loads a blob into the keyring. The kernel checks the blob of an encrypted key then, too.
fn load_blob(ring: &Keyring, path: &Path, name: &str) -> Result<(), SecurityError> {
    let Some(bytes) = read_blob(path)? else { return Ok(()) };
    let sealed = parse(&bytes, path.display().to_string())?;
    unseal(ring, &sealed, path.display().to_string())?;
    ring.add(name, sealed.to_string().as_bytes())
}

/// The key and the blob of a passphrase.
struct Keys {
    index: usize,
    ring: Keyring,
    /// Name of the key.
    name: String,
    /// Name of the blob.
    file: String,
    folder: PathBuf,
}

impl Keys {
    fn of(directory: &Directory, index: usize, role: Role) -> Result<Keys, SecurityError> {
        rules::current(directory.platform(), index)?;
        let identity: Option<ModuleId> = directory.platform().machine.modules[index].identity;
        let id = identity.ok_or(SecurityError::Unsupported { index })?;
        Ok(Keys {
            index,
            ring: Keyring::open(directory.root())?,
            name: key_name(&id, role),
            file: blob_name(&id, role),
            folder: directory.root().join(KEYS),
        })
    }

    fn blob(&self) -> PathBuf {
        self.folder.join(&self.file)
    }

    fn missing(&self) -> SecurityError {
        let (index, key, path) = (self.index, self.ring.description(&self.name), self.blob());
        SecurityError::NoKey { index, key, path }
    }

    fn kek_bytes(&self, kek: &KekHandle) -> Result<Vec<u8>, SecurityError> {
        kek_bytes(&self.ring, kek)
    }

    fn read_blob(&self) -> Result<Option<SealedPassphrase>, SecurityError> {
        let path = self.blob();
        read_blob(&path)?.map(|bytes| parse(&bytes, path.display().to_string())).transpose()
    }

    fn unseal(&self, sealed: &SealedPassphrase) -> Result<Passphrase, SecurityError> {
        unseal(&self.ring, sealed, self.blob().display().to_string())
    }

    /// Returns the passphrase in the keyring; `None` if the keyring lacks its key.
    fn loaded_passphrase(&self) -> Result<Option<Passphrase>, SecurityError> {
        let place = || format!("the key {}", self.ring.description(&self.name));
        let Some(bytes) = self.ring.read(&self.name)? else { return Ok(None) };
        unseal(&self.ring, &parse(&bytes, place())?, place()).map(Some)
    }

    /// Returns the passphrase in the keyring, and loads it from the blob if the keyring lacks it. `None` if there is no
    /// blob either.
    fn passphrase(&self, platform: &Platform) -> Result<Option<Passphrase>, SecurityError> {
        if let Some(passphrase) = self.loaded_passphrase()? {
            return Ok(Some(passphrase));
        }
        let Some(sealed) = self.read_blob()? else { return Ok(None) };
        rules::check_idle(platform, self.index)?;
        let passphrase = self.unseal(&sealed)?;
        self.ring.add(&self.name, sealed.to_string().as_bytes())?;
        Ok(Some(passphrase))
    }

    fn discard_blob(&self, platform: &mut Platform) {
        if self.blob().exists() {
            platform.contents.remove_key(&self.file);
        }
    }
}

fn kek_bytes(ring: &Keyring, kek: &KekHandle) -> Result<Vec<u8>, SecurityError> {
    let bytes = ring.read_shared(kek.description())?;
    bytes.ok_or_else(|| SecurityError::NoKek { kek: kek.to_string() })
}

fn parse(bytes: &[u8], place: String) -> Result<SealedPassphrase, SecurityError> {
    let text = std::str::from_utf8(bytes).map_err(|_| SealError::Form);
    let sealed = text.and_then(str::parse);
    sealed.map_err(|error| SecurityError::Seal { place, error })
}

fn unseal(ring: &Keyring, sealed: &SealedPassphrase, place: String) -> Result<Passphrase, SecurityError> {
    let kek_bytes = kek_bytes(ring, sealed.kek())?;
    sealed.unseal(&kek_bytes).map_err(|error| SecurityError::Seal { place, error })
}

/// Runs a command of a module. A refusal that the module counts is durable when this returns.
fn attempt<T>(
    directory: &mut Directory,
    command: impl FnOnce(&mut Platform) -> Result<T, SecurityError>,
) -> Result<T, PlatformError> {
    let answer = directory.change(|platform| match command(platform) {
        Err(error) if !error.is_counted() => Err(error),
        answer => Ok(answer),
    })?;
    Ok(answer?)
}
