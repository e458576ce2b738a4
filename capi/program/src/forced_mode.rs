//! The mode that a user has chosen.

use std::ffi::{OsStr, OsString};
use std::fmt;

/// The variable of the environment that chooses the mode.
pub const VARIABLE: &str = "LODE_OBJ";

/// A mode of libpmemobj's pools that does not depend on the program's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForcedMode {
    /// The program tells each store that has to be durable.
    Fast,
    /// The program may flush by itself.
    Careful,
}

impl ForcedMode {
    /// Returns the mode of a value of [`VARIABLE`].
    ///
    /// # Errors
    /// Fails if no mode has this name.
    pub fn of(value: &OsStr) -> Result<ForcedMode, UnknownMode> {
        match value.as_encoded_bytes() {
            b"fast" => Ok(ForcedMode::Fast),
            b"careful" => Ok(ForcedMode::Careful),
            _ => Err(UnknownMode { value: value.to_owned() }),
        }
    }
}

/// A value of [`VARIABLE`] that names no mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownMode {
    value: OsString,
}

impl fmt::Display for UnknownMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value.to_string_lossy();
        write!(f, "{VARIABLE}=\"{value}\" names no mode; set it to fast or careful, or unset it")
    }
}

impl std::error::Error for UnknownMode {}
