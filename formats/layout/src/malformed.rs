//! The error of bytes that are no key or value of their type.

use std::error::Error as StdError;
use std::fmt;

/// Bytes are no key, or no value, of the expected type, or a value has no encoding.
#[derive(Debug, Default)]
pub struct Malformed {
    cause: Option<Box<dyn StdError + Send + Sync>>,
}

impl Malformed {
    /// Returns the error without a cause.
    pub fn new() -> Malformed {
        Malformed::default()
    }

    /// Returns the error with its cause.
    pub fn because(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Malformed {
        Malformed { cause: Some(cause.into()) }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Some(cause) => cause.fmt(f),
            None => f.write_str("the bytes are none of the type"),
        }
    }
}

impl StdError for Malformed {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}
