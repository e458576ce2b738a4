//! The name of a pool's content format.

use crate::{BlocksDescriptor, LogDescriptor};
use std::fmt;

/// The name of a pool's content format, such as `kv`. An open that expects another name is refused.
///
/// 1 to 64 bytes of UTF-8 without control characters, so that it can be printed unescaped.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LayoutName {
    bytes: [u8; LayoutName::LEN_MAX],
    len: u8,
}

/// Reasons why a text is not a layout name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutNameError {
    /// The text is empty.
    #[error("a layout name needs at least one character")]
    Empty,
    /// The text is longer than 64 bytes.
    #[error("the layout name has {len} bytes, {} are allowed", LayoutName::LEN_MAX)]
    TooLong {
        /// Length of the text in bytes.
        len: usize,
    },
    /// The text holds a control character, for example a NUL byte.
    #[error("the layout name holds a control character at byte {at}")]
    Control {
        /// Offset of that character, in bytes.
        at: usize,
    },
    /// The text is not UTF-8.
    #[error("the layout name is not UTF-8 from byte {at} on")]
    NotUtf8 {
        /// Offset of the first invalid byte.
        at: usize,
    },
}

impl LayoutName {
    /// The longest name in bytes.
    pub const LEN_MAX: usize = 64;

    /// Returns the name `text`.
    ///
    /// # Errors
    /// Fails if `text` is empty, is longer than 64 bytes or holds a control character.
    pub fn new(text: &str) -> Result<LayoutName, LayoutNameError> {
        if text.is_empty() {
            return Err(LayoutNameError::Empty);
        }
        if let Some((at, _)) = text.char_indices().find(|(_, char)| char.is_control()) {
            return Err(LayoutNameError::Control { at });
        }
        let mut bytes = [0; LayoutName::LEN_MAX];
        let Some(place) = bytes.get_mut(..text.len()) else {
            return Err(LayoutNameError::TooLong { len: text.len() });
        };
        place.copy_from_slice(text.as_bytes());
        Ok(LayoutName { bytes, len: text.len() as u8 })
    }

    /// Decodes the name from its form on media, padded with zeros.
    ///
    /// # Errors
    /// Fails for the names that [`new`](LayoutName::new) refuses, and for bytes that are not UTF-8.
    pub(crate) fn from_padded(bytes: &[u8; LayoutName::LEN_MAX]) -> Result<LayoutName, LayoutNameError> {
        let len = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let text = str::from_utf8(&bytes[..len])
            .map_err(|error| LayoutNameError::NotUtf8 { at: error.valid_up_to() })?;
        LayoutName::new(text)
    }

    /// Returns the form on media, padded with zeros.
    pub(crate) fn padded(&self) -> [u8; LayoutName::LEN_MAX] {
        self.bytes
    }

    /// Returns false if pools of this layout hold something else than a heap: blocks, or a log.
    pub fn is_of_heap(&self) -> bool {
        !matches!(self.as_str(), BlocksDescriptor::LAYOUT | LogDescriptor::LAYOUT)
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        // Both constructors check that the name is UTF-8.
        str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }
}

impl fmt::Display for LayoutName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for LayoutName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn length_limits() {
        assert_eq!(LayoutName::new(""), Err(LayoutNameError::Empty));
        for len in [1, 63, 64] {
            let text = "x".repeat(len);
            let name = LayoutName::new(&text).unwrap();
            assert_eq!(name.as_str(), text);
            assert_eq!(LayoutName::from_padded(&name.padded()), Ok(name));
        }
        assert_eq!(LayoutName::new(&"x".repeat(65)), Err(LayoutNameError::TooLong { len: 65 }));
    }

    #[test]
    fn unprintable_names_are_refused() {
        assert_eq!(LayoutName::new("a\0b"), Err(LayoutNameError::Control { at: 1 }));
        assert_eq!(LayoutName::new("ab\n"), Err(LayoutNameError::Control { at: 2 }));
        let mut bytes = [0; 64];
        bytes[..2].copy_from_slice(&[b'a', 0xff]);
        assert_eq!(LayoutName::from_padded(&bytes), Err(LayoutNameError::NotUtf8 { at: 1 }));
        bytes[..3].copy_from_slice(b"a\0b");
        assert_eq!(LayoutName::from_padded(&bytes), Err(LayoutNameError::Control { at: 1 }));
    }
}
