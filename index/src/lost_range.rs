//! Ranges of keys that a repair may have lost.

/// A range of keys between two others. Some keys in it may have been lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRange {
    /// The last key that is present before the range; `None` if there is none.
    pub after: Option<Vec<u8>>,
    /// The first key that is present after the range; `None` if there is none.
    pub before: Option<Vec<u8>>,
}

impl LostRange {
    /// Returns true if `key` lies between the two keys.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.after.as_deref().is_none_or(|after| after < key)
            && self.before.as_deref().is_none_or(|before| key < before)
    }
}
