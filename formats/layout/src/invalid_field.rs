//! A field whose value breaks a rule of its format.

use crate::offset::align_down;
use std::fmt;

/// A field that breaks a rule of its format, alone or together with other fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub struct InvalidField {
    /// Name of the field.
    pub field: &'static str,
    /// Index of the field among several, from 0.
    pub index: usize,
    /// Value of the field.
    pub found: u64,
    /// Rule that the value breaks.
    pub want: Want,
}

impl InvalidField {
    /// Returns `value` as a field of 32 bits.
    ///
    /// # Errors
    /// Fails if `value` has more bits.
    pub fn narrow(field: &'static str, value: u64) -> Result<u32, InvalidField> {
        let want = Want::AtMost(u32::MAX.into());
        u32::try_from(value).map_err(|_| InvalidField { field, index: 0, found: value, want })
    }
}

/// The rule for a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// This value.
    Exactly(u64),
    /// This value or more.
    AtLeast(u64),
    /// This value or less.
    AtMost(u64),
    /// A multiple of this value, a power of two.
    MultipleOf(u64),
    /// A power of two.
    PowerOfTwo,
}

impl Want {
    /// Checks that `found` satisfies the rule.
    ///
    /// # Errors
    /// Returns the invalid field if it does not.
    pub fn check(self, field: &'static str, index: usize, found: u64) -> Result<(), InvalidField> {
        let met = match self {
            Want::Exactly(value) => found == value,
            Want::AtLeast(value) => found >= value,
            Want::AtMost(value) => found <= value,
            Want::MultipleOf(unit) => align_down(found, unit) == found,
            Want::PowerOfTwo => found.is_power_of_two(),
        };
        if met { Ok(()) } else { Err(InvalidField { field, index, found, want: self }) }
    }
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Want::Exactly(value) => write!(f, "{value:#x}"),
            Want::AtLeast(value) => write!(f, "at least {value:#x}"),
            Want::AtMost(value) => write!(f, "at most {value:#x}"),
            Want::MultipleOf(unit) => write!(f, "a multiple of {unit:#x}"),
            Want::PowerOfTwo => f.write_str("a power of two"),
        }
    }
}

impl fmt::Display for InvalidField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InvalidField { field, index, found, want } = self;
        if field.starts_with("extent.") {
            write!(f, "{field} of extent {index} is {found:#x}, it must be {want}")
        } else {
            write!(f, "{field} is {found:#x}, it must be {want}")
        }
    }
}
