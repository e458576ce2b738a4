//! Ranges of keys.

use lode_layout::{AsKey, encode_key};
use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// The bounds of a range of encoded keys.
pub type KeyBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A range of keys of the type `K`: `a..b`, `a..=b`, `a..`, `..b`, `..=b`, `..`, or a pair of bounds, of values that stand
/// for keys.
pub trait KeyRange<K> {
    /// Returns the bounds, encoded.
    fn bounds(&self) -> KeyBounds;
}

fn included<K>(key: &impl AsKey<K>) -> Bound<Vec<u8>> {
    Bound::Included(encode_key(key))
}

fn excluded<K>(key: &impl AsKey<K>) -> Bound<Vec<u8>> {
    Bound::Excluded(encode_key(key))
}

impl<K> KeyRange<K> for RangeFull {
    fn bounds(&self) -> KeyBounds {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

impl<K, Q: AsKey<K>> KeyRange<K> for Range<Q> {
    fn bounds(&self) -> KeyBounds {
        (included(&self.start), excluded(&self.end))
    }
}

impl<K, Q: AsKey<K>> KeyRange<K> for RangeInclusive<Q> {
    fn bounds(&self) -> KeyBounds {
        (included(self.start()), included(self.end()))
    }
}

impl<K, Q: AsKey<K>> KeyRange<K> for RangeFrom<Q> {
    fn bounds(&self) -> KeyBounds {
        (included(&self.start), Bound::Unbounded)
    }
}

impl<K, Q: AsKey<K>> KeyRange<K> for RangeTo<Q> {
    fn bounds(&self) -> KeyBounds {
        (Bound::Unbounded, excluded(&self.end))
    }
}

impl<K, Q: AsKey<K>> KeyRange<K> for RangeToInclusive<Q> {
    fn bounds(&self) -> KeyBounds {
        (Bound::Unbounded, included(&self.end))
    }
}

impl<K, Q: AsKey<K>> KeyRange<K> for (Bound<Q>, Bound<Q>) {
    fn bounds(&self) -> KeyBounds {
        (self.0.as_ref().map(encode_key), self.1.as_ref().map(encode_key))
    }
}
