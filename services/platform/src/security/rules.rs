//! Security commands of a module: the state table at the head of this folder.

use super::error::SecurityError;
use super::limits::TRIES;
use super::module_security::ModuleSecurity;
use super::passphrase::Passphrase;
use super::passphrase_hash::PassphraseHash;
use super::role::Role;
use crate::machine::{Handle, Health, Module, ModuleError, Security};
use crate::nmem;
use crate::platform::Platform;
use crate::state;

/// Replaces a passphrase. `old` is [`Passphrase::ZERO`] if none is set. A module without a user passphrase is unlocked
/// with the new one until the next start.
///
/// # Errors
/// Fails if the module does not exist or has no security, if it is frozen or overwrites its media, or if `old` is
/// wrong, which counts.
pub fn set_passphrase(
    platform: &mut Platform,
    index: usize,
    role: Role,
    old: &Passphrase,
    new: &Passphrase,
) -> Result<(), SecurityError> {
    let mut entry = changeable(platform, index)?;
    verify(platform, index, &mut entry, role, old)?;
    let hash = Some(PassphraseHash::new(new)?);
    match role {
        Role::User => entry.user = hash,
        Role::Master => entry.master = hash,
    }
    settle(platform, entry);
    Ok(())
}

/// Removes the user passphrase, and unlocks the module.
///
/// # Errors
/// Those of [`set_passphrase`]; fails also if no passphrase is set.
pub fn disable_passphrase(
    platform: &mut Platform,
    index: usize,
    passphrase: &Passphrase,
) -> Result<(), SecurityError> {
    let mut entry = changeable(platform, index)?;
    if entry.user.is_none() {
        return Err(SecurityError::Disabled { index });
    }
    verify(platform, index, &mut entry, Role::User, passphrase)?;
    (entry.user, entry.locked) = (None, false);
    settle(platform, entry);
    Ok(())
}

/// Refuses all security commands until the next start.
///
/// # Errors
/// Fails if the module does not exist or has no security, if no passphrase is set, or if it overwrites its media.
pub fn freeze(platform: &mut Platform, index: usize) -> Result<(), SecurityError> {
    let mut entry = current(platform, index)?;
    if entry.user.is_none() {
        return Err(SecurityError::Disabled { index });
    }
    entry.frozen = true;
    settle(platform, entry);
    Ok(())
}

/// Unlocks a module. Returns false if it was not locked.
///
/// # Errors
/// Fails if the module does not exist or has no security, if it is locked and frozen, if it overwrites its media, or if
/// the passphrase is wrong, which counts.
pub fn unlock(platform: &mut Platform, index: usize, passphrase: &Passphrase) -> Result<bool, SecurityError> {
    let mut entry = current(platform, index)?;
    if !entry.locked {
        return Ok(false);
    }
    check_not_frozen(&entry, index)?;
    verify(platform, index, &mut entry, Role::User, passphrase)?;
    entry.locked = false;
    settle(platform, entry);
    Ok(true)
}

/// Erases the media by a new media key: its content is lost, which reads as zeros here. The labels stay, so namespaces
/// become raw. Removes the user passphrase, and unlocks the module.
///
/// # Errors
/// Those of [`set_passphrase`]; fails also if a region of the module is active.
pub fn erase(
    platform: &mut Platform,
    index: usize,
    role: Role,
    passphrase: &Passphrase,
) -> Result<(), SecurityError> {
    let mut entry = current(platform, index)?;
    check_idle(platform, index)?;
    check_not_frozen(&entry, index)?;
    verify(platform, index, &mut entry, role, passphrase)?;
    (entry.user, entry.locked, entry.user_failures) = (None, false, 0);
    let module = &platform.machine.modules[index];
    platform.contents.write_zeros(module.handle, 0, module.capacity);
    settle(platform, entry);
    Ok(())
}

/// Starts to overwrite media and labels. The module is unusable until [`finish_overwrite`]. Its passphrase stays.
///
/// # Errors
/// Those of [`set_passphrase`]; fails also if a region of the module is active. Without a user passphrase any
/// `passphrase` is taken.
pub fn overwrite(
    platform: &mut Platform,
    index: usize,
    passphrase: &Passphrase,
) -> Result<(), SecurityError> {
    let mut entry = current(platform, index)?;
    check_idle(platform, index)?;
    check_not_frozen(&entry, index)?;
    if entry.user.is_some() {
        verify(platform, index, &mut entry, Role::User, passphrase)?;
    }
    entry.overwriting = true;
    let module = &platform.machine.modules[index];
    platform.contents.write_zeros(module.handle, 0, module.capacity);
    platform.contents.erase(module.handle, module.label_area);
    settle(platform, entry);
    Ok(())
}

/// Ends an overwrite: emulated time passes only here. Returns false if none was in progress.
///
/// # Errors
/// Fails if the module does not exist or has no security.
pub fn finish_overwrite(platform: &mut Platform, index: usize) -> Result<bool, SecurityError> {
    let mut entry = supported(platform, index)?;
    let was_overwriting = std::mem::take(&mut entry.overwriting);
    if was_overwriting {
        settle(platform, entry);
    }
    Ok(was_overwriting)
}

/// Changes security as a start of the machine does: modules with a passphrase are locked, freezes and overwrites end,
/// and wrong passphrases are forgotten. A passphrase that is not known was given by firmware, or was not.
pub(crate) fn start(platform: &mut Platform) {
    for entry in &mut platform.state.security {
        if entry.user.is_none_or(|hash| hash != PassphraseHash::UNKNOWN) {
            entry.locked = entry.user.is_some();
        }
        (entry.frozen, entry.overwriting) = (false, false);
        (entry.user_failures, entry.master_failures) = (0, 0);
    }
    settle_all(platform);
}

/// Sets the security of each module to that of the state.
pub(crate) fn settle_all(platform: &mut Platform) {
    for entry in &platform.state.security {
        if let Some(index) = platform.machine.module_index(entry.module) {
            platform.machine.modules[index].security = entry.security();
        }
    }
}

/// Returns the kernel's word for the security of a module, and true if it is frozen; `None` if the kernel shows none.
/// Kernels from 5.4 on show a freeze beside the lock.
pub(crate) fn reported(platform: &Platform, module: &Module) -> Option<(&'static str, bool)> {
    let kernel = platform.machine.profile.kernel;
    if !kernel.reports_security() || module.identity.is_none() {
        return None;
    }
    let entry = entry_of(platform, module);
    let (frozen, busy) = (entry.is_frozen(), entry.overwriting);
    match module.security {
        Security::Frozen if kernel.separates_freeze() => Some((Security::Unlocked.kernel_str()?, true)),
        security => Some((security.kernel_str()?, frozen && !busy && kernel.separates_freeze())),
    }
}

/// Returns true if a module has a user passphrase.
pub(crate) fn has_passphrase(platform: &Platform, module: Handle) -> bool {
    let found = platform.machine.module(module);
    found.is_some_and(|module| entry_of(platform, module).user.is_some())
}

/// Returns true if a module has a master passphrase that is not the factory's.
pub(crate) fn has_master_passphrase(platform: &Platform, module: &Module) -> bool {
    entry_of(platform, module).master.is_some()
}

/// Stores the security of a module.
fn settle(platform: &mut Platform, entry: ModuleSecurity) {
    state::put(&mut platform.state.security, entry, |one| one.module);
    settle_all(platform);
}

fn entry_of(platform: &Platform, module: &Module) -> ModuleSecurity {
    let entry = platform.state.security.iter().find(|entry| entry.module == module.handle);
    entry.copied().unwrap_or_else(|| ModuleSecurity::of_machine(module))
}

/// Returns the security of a module that has some.
pub(super) fn supported(platform: &Platform, index: usize) -> Result<ModuleSecurity, SecurityError> {
    let module = nmem::module(platform, index)?;
    if module.health == Health::NonFunctional {
        return Err(ModuleError::DeadModule { module: module.handle }.into());
    }
    match reported(platform, module) {
        Some(_) => Ok(entry_of(platform, module)),
        None => Err(SecurityError::Unsupported { index }),
    }
}

/// Returns the security of a module that does not overwrite its media.
pub(super) fn current(platform: &Platform, index: usize) -> Result<ModuleSecurity, SecurityError> {
    let entry = supported(platform, index)?;
    if entry.overwriting { Err(SecurityError::Overwriting { index }) } else { Ok(entry) }
}

/// Returns the security of a module that may be changed.
fn changeable(platform: &Platform, index: usize) -> Result<ModuleSecurity, SecurityError> {
    let entry = current(platform, index)?;
    check_not_frozen(&entry, index)?;
    Ok(entry)
}

pub(super) fn check_not_frozen(entry: &ModuleSecurity, index: usize) -> Result<(), SecurityError> {
    match entry {
        entry if !entry.is_frozen() => Ok(()),
        ModuleSecurity { frozen: true, .. } => Err(SecurityError::Frozen { index }),
        _ => Err(SecurityError::Limit { index, role: Role::User }),
    }
}

/// Checks that no region of the module is active.
pub(super) fn check_idle(platform: &Platform, index: usize) -> Result<(), SecurityError> {
    let module = platform.machine.modules[index].handle;
    match platform.regions().iter().find(|region| region.enabled && region.has(module)) {
        Some(region) => Err(SecurityError::RegionActive { index, region: region.number }),
        None => Ok(()),
    }
}

/// Compares a passphrase with that of the module. Counts a wrong one, and forgets the count after a right one.
fn verify(
    platform: &mut Platform,
    index: usize,
    entry: &mut ModuleSecurity,
    role: Role,
    passphrase: &Passphrase,
) -> Result<(), SecurityError> {
    if role == Role::Master && entry.master_failures >= TRIES {
        return Err(SecurityError::Limit { index, role });
    }
    let hash = entry.hash(role);
    if hash.map_or(passphrase.is_zero(), |hash| hash.matches(passphrase)) {
        *entry.failures_mut(role) = 0;
        return Ok(());
    }
    // A module without a user passphrase counts none: it can't be frozen.
    if role == Role::User && hash.is_none() {
        return Err(SecurityError::NotZero { index });
    }
    let failures = entry.failures_mut(role);
    *failures += 1;
    let left = TRIES - *failures;
    settle(platform, *entry);
    Err(SecurityError::WrongPassphrase { index, role, left })
}
