//! The machines that the program includes.

use super::hardware::Machine;
use super::machine_error::MachineError;
use super::typo::nearest;

/// The included machines, with their files.
pub const INCLUDED: [(&str, &str); 5] = [
    ("fujitsu-primergy", include_str!("../../machines/fujitsu-primergy.toml")),
    ("e4-pmserver", include_str!("../../machines/e4-pmserver.toml")),
    ("e4-storage", include_str!("../../machines/e4-storage.toml")),
    ("lab-one", include_str!("../../machines/lab-one.toml")),
    ("lab-pair", include_str!("../../machines/lab-pair.toml")),
];

impl Machine {
    /// Returns the text of an included machine.
    ///
    /// # Errors
    /// [`MachineError::NotIncluded`], with the nearest name.
    pub fn included(name: &str) -> Result<&'static str, MachineError> {
        let found = INCLUDED.iter().find(|(known, _)| *known == name);
        found.map(|(_, text)| *text).ok_or_else(|| MachineError::NotIncluded {
            name: name.to_owned(),
            suggestion: nearest(name, INCLUDED.iter().map(|(known, _)| *known)).map(str::to_owned),
            known: INCLUDED.map(|(known, _)| known).to_vec(),
        })
    }
}
