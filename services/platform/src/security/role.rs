//! The two passphrases of a module.

use std::fmt;

/// One of the two passphrases of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The passphrase that locks the module at a start.
    User,
    /// The passphrase that only erases.
    Master,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::User => "user",
            Role::Master => "master",
        })
    }
}
