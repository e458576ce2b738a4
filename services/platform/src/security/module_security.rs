//! Security of one module, as the state file has it.

use super::limits::TRIES;
use super::passphrase_hash::PassphraseHash;
use super::role::Role;
use crate::machine::{Handle, Module, Security};
use serde::{Deserialize, Serialize};

/// Security of a module. A module without an entry in the state has the security of the machine file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModuleSecurity {
    /// The module.
    pub module: Handle,
    /// Hash of the user passphrase; `None` if security is disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<PassphraseHash>,
    /// Hash of the master passphrase; `None` if it is that of the factory: zeros.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub master: Option<PassphraseHash>,
    /// True if the module waits for its passphrase.
    #[serde(default, skip_serializing_if = "is_false")]
    pub locked: bool,
    /// True if security was frozen since the last start.
    #[serde(default, skip_serializing_if = "is_false")]
    pub frozen: bool,
    /// True while the module overwrites its media.
    #[serde(default, skip_serializing_if = "is_false")]
    pub overwriting: bool,
    /// Wrong user passphrases since the last right one or the last start.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub user_failures: u32,
    /// Wrong master passphrases since the last right one or the last start.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub master_failures: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl ModuleSecurity {
    /// Returns the security of a module that the machine file describes. Its passphrase is not known.
    pub(super) fn of_machine(module: &Module) -> ModuleSecurity {
        let security = module.security;
        let has_passphrase = matches!(security, Security::Unlocked | Security::Locked | Security::Frozen);
        ModuleSecurity {
            module: module.handle,
            user: has_passphrase.then_some(PassphraseHash::UNKNOWN),
            master: None,
            locked: security == Security::Locked,
            frozen: security == Security::Frozen,
            overwriting: false,
            user_failures: 0,
            master_failures: 0,
        }
    }

    /// Returns the hash of a passphrase.
    pub(super) fn hash(&self, role: Role) -> Option<PassphraseHash> {
        match role {
            Role::User => self.user,
            Role::Master => self.master,
        }
    }

    /// Returns the count of wrong passphrases.
    pub(super) fn failures_mut(&mut self, role: Role) -> &mut u32 {
        match role {
            Role::User => &mut self.user_failures,
            Role::Master => &mut self.master_failures,
        }
    }

    /// Returns true if security is frozen, or the limit of wrong user passphrases is reached. The kernel makes no
    /// difference.
    pub(super) fn is_frozen(&self) -> bool {
        self.user.is_some() && (self.frozen || self.user_failures >= TRIES)
    }

    /// Returns the security state, in which the lock comes before a freeze.
    pub(super) fn security(&self) -> Security {
        match self {
            ModuleSecurity { overwriting: true, .. } => Security::Overwrite,
            ModuleSecurity { locked: true, .. } => Security::Locked,
            _ if self.is_frozen() => Security::Frozen,
            ModuleSecurity { user: Some(_), .. } => Security::Unlocked,
            _ => Security::Disabled,
        }
    }
}
