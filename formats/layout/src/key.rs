//! Keys: types whose encoding sorts as their values do.

use crate::malformed::Malformed;
use std::borrow::Cow;

/// A type of keys. Its encoding is a string of bytes that sorts as the values do, so a tree of such keys is sorted by
/// value.
///
/// There are keys for all integers, `bool`, `char`, `String`, `Vec<u8>`, `[u8; N]`, and tuples of up to six of them.
/// A type of a program becomes one by delegating to these.
///
/// # Example
/// ```
/// use lode_layout::{AsKey, Key, Malformed, Place};
/// use std::borrow::Cow;
///
/// #[derive(Debug, PartialEq)]
/// struct UserId(u64);
///
/// impl AsKey<UserId> for UserId {
///     fn encode_key(&self, place: Place, out: &mut Vec<u8>) {
///         self.0.encode_key(place, out);
///     }
/// }
///
/// impl Key for UserId {
///     fn type_name() -> Cow<'static, str> {
///         "UserId".into()
///     }
///
///     fn decode_key(bytes: &mut &[u8], place: Place) -> Result<UserId, Malformed> {
///         u64::decode_key(bytes, place).map(UserId)
///     }
/// }
/// ```
pub trait Key: AsKey<Self> + Sized {
    /// Returns the name of the type, which the tree keeps. A tree can't be opened as one of another type.
    fn type_name() -> Cow<'static, str>;

    /// Decodes a key from the start of `bytes`, and advances `bytes` past it.
    ///
    /// # Errors
    /// [`Malformed`] if `bytes` do not begin with a key.
    fn decode_key(bytes: &mut &[u8], place: Place) -> Result<Self, Malformed>;

    /// Decodes a whole key.
    ///
    /// # Errors
    /// [`Malformed`] if `bytes` are not one key.
    fn decode_whole_key(mut bytes: &[u8]) -> Result<Self, Malformed> {
        let key = Self::decode_key(&mut bytes, Place::Last)?;
        if bytes.is_empty() { Ok(key) } else { Err(Malformed::new()) }
    }

    /// Decodes a whole key of bytes that may become its own.
    ///
    /// # Errors
    /// [`Malformed`] if `bytes` are not one key.
    fn decode_owned_key(bytes: Vec<u8>) -> Result<Self, Malformed> {
        Self::decode_whole_key(&bytes)
    }
}

/// A value that stands for a key of the type `K`, such as `&str` for `String`.
pub trait AsKey<K> {
    /// Appends the encoding of the key to `out`. The encodings of two keys compare as the keys do.
    fn encode_key(&self, place: Place, out: &mut Vec<u8>);
}

/// The place of a part in the encoding of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nothing follows, so the end of the bytes is the end of the part.
    Last,
    /// Another part follows, so the encoding shows where it ends.
    Inner,
}

/// The leading parts of a key of the type `K`: the first characters of a `String`, or the first parts of a tuple. All
/// keys that begin with them lie next to each other.
pub trait AsPrefix<K> {
    /// Appends the bytes with which the encodings of all such keys begin.
    fn encode_prefix(&self, out: &mut Vec<u8>);
}

impl<K, Q: AsKey<K> + ?Sized> AsKey<K> for &Q {
    fn encode_key(&self, place: Place, out: &mut Vec<u8>) {
        (**self).encode_key(place, out);
    }
}

impl<K, Q: AsPrefix<K> + ?Sized> AsPrefix<K> for &Q {
    fn encode_prefix(&self, out: &mut Vec<u8>) {
        (**self).encode_prefix(out);
    }
}

/// Returns the encoding of a whole key, which sorts as the key does.
pub fn encode_key<K>(key: &(impl AsKey<K> + ?Sized)) -> Vec<u8> {
    // Room for most keys: a list that grows from nothing takes longer than one key.
    let mut bytes = Vec::with_capacity(16);
    key.encode_key(Place::Last, &mut bytes);
    bytes
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], Malformed> {
    let (first, rest) = bytes.split_first_chunk::<N>().ok_or_else(Malformed::new)?;
    *bytes = rest;
    Ok(*first)
}

/// Integers are big-endian. Signed ones have their sign bit flipped, so negative ones come first.
macro_rules! integer_keys {
    ($($integer:ty, $sign:expr;)*) => {$(
        impl AsKey<$integer> for $integer {
            fn encode_key(&self, _: Place, out: &mut Vec<u8>) {
                out.extend_from_slice(&(self ^ $sign).to_be_bytes());
            }
        }

        impl Key for $integer {
            fn type_name() -> Cow<'static, str> {
                stringify!($integer).into()
            }

            fn decode_key(bytes: &mut &[u8], _: Place) -> Result<$integer, Malformed> {
                Ok(<$integer>::from_be_bytes(take(bytes)?) ^ $sign)
            }
        }
    )*};
}

integer_keys! {
    u8, 0; u16, 0; u32, 0; u64, 0; u128, 0;
    i8, i8::MIN; i16, i16::MIN; i32, i32::MIN; i64, i64::MIN; i128, i128::MIN;
}

impl AsKey<bool> for bool {
    fn encode_key(&self, _: Place, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}

impl Key for bool {
    fn type_name() -> Cow<'static, str> {
        "bool".into()
    }

    fn decode_key(bytes: &mut &[u8], _: Place) -> Result<bool, Malformed> {
        match take(bytes)? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(Malformed::new()),
        }
    }
}

impl AsKey<char> for char {
    fn encode_key(&self, place: Place, out: &mut Vec<u8>) {
        u32::from(*self).encode_key(place, out);
    }
}

impl Key for char {
    fn type_name() -> Cow<'static, str> {
        "char".into()
    }

    fn decode_key(bytes: &mut &[u8], place: Place) -> Result<char, Malformed> {
        char::from_u32(u32::decode_key(bytes, place)?).ok_or_else(Malformed::new)
    }
}

impl<const N: usize> AsKey<[u8; N]> for [u8; N] {
    fn encode_key(&self, _: Place, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

impl<const N: usize> Key for [u8; N] {
    fn type_name() -> Cow<'static, str> {
        format!("[u8; {N}]").into()
    }

    fn decode_key(bytes: &mut &[u8], _: Place) -> Result<[u8; N], Malformed> {
        take(bytes)
    }
}

/// Follows a zero byte inside of bytes. It is greater than the second byte of the end.
const ESCAPED_ZERO: u8 = 0xFF;
/// The end of bytes that another part follows. Bytes that go on are greater.
const END: [u8; 2] = [0, 0];

fn encode_bytes(bytes: &[u8], place: Place, out: &mut Vec<u8>) {
    if place == Place::Last {
        return out.extend_from_slice(bytes);
    }
    for byte in bytes {
        out.push(*byte);
        if *byte == 0 {
            out.push(ESCAPED_ZERO);
        }
    }
    out.extend_from_slice(&END);
}

fn decode_bytes(bytes: &mut &[u8], place: Place) -> Result<Vec<u8>, Malformed> {
    if place == Place::Last {
        return Ok(std::mem::take(bytes).to_vec());
    }
    let mut decoded = Vec::new();
    loop {
        let zero = bytes.iter().position(|byte| *byte == 0).ok_or_else(Malformed::new)?;
        let (part, rest) = bytes.split_at(zero);
        decoded.extend_from_slice(part);
        let (second, rest) = rest[1..].split_first().ok_or_else(Malformed::new)?;
        *bytes = rest;
        match *second {
            0 => return Ok(decoded),
            ESCAPED_ZERO => decoded.push(0),
            _ => return Err(Malformed::new()),
        }
    }
}

impl AsKey<Vec<u8>> for [u8] {
    fn encode_key(&self, place: Place, out: &mut Vec<u8>) {
        encode_bytes(self, place, out);
    }
}

impl AsKey<Vec<u8>> for Vec<u8> {
    fn encode_key(&self, place: Place, out: &mut Vec<u8>) {
        encode_bytes(self, place, out);
    }
}

impl<const N: usize> AsKey<Vec<u8>> for [u8; N] {
    fn encode_key(&self, place: Place, out: &mut Vec<u8>) {
        encode_bytes(self, place, out);
    }
}

impl Key for Vec<u8> {
    fn type_name() -> Cow<'static, str> {
        "bytes".into()
    }

    fn decode_key(bytes: &mut &[u8], place: Place) -> Result<Vec<u8>, Malformed> {
        decode_bytes(bytes, place)
    }

    fn decode_owned_key(bytes: Vec<u8>) -> Result<Vec<u8>, Malformed> {
        Ok(bytes)
    }
}

impl AsPrefix<Vec<u8>> for [u8] {
    fn encode_prefix(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

impl<const N: usize> AsPrefix<Vec<u8>> for [u8; N] {
    fn encode_prefix(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

impl AsKey<String> for str {
    fn encode_key(&self, place: Place, out: &mut Vec<u8>) {
        encode_bytes(self.as_bytes(), place, out);
    }
}

impl AsKey<String> for String {
    fn encode_key(&self, place: Place, out: &mut Vec<u8>) {
        encode_bytes(self.as_bytes(), place, out);
    }
}

impl Key for String {
    fn type_name() -> Cow<'static, str> {
        "str".into()
    }

    fn decode_key(bytes: &mut &[u8], place: Place) -> Result<String, Malformed> {
        String::from_utf8(decode_bytes(bytes, place)?).map_err(Malformed::because)
    }

    fn decode_owned_key(bytes: Vec<u8>) -> Result<String, Malformed> {
        String::from_utf8(bytes).map_err(Malformed::because)
    }
}

impl AsPrefix<String> for str {
    fn encode_prefix(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl AsPrefix<String> for String {
    fn encode_prefix(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

/// Implements keys that are tuples: `$first` to `$last` are the types of the parts, with the types that stand for them.
macro_rules! tuple_keys {
    ($(($($inner:ident $inner_query:ident $index:tt),+; $last:ident $last_query:ident $last_index:tt);)*) => {$(
        impl<$($inner: Key, $inner_query: AsKey<$inner>,)+ $last: Key, $last_query: AsKey<$last>>
            AsKey<($($inner,)+ $last)> for ($($inner_query,)+ $last_query)
        {
            fn encode_key(&self, place: Place, out: &mut Vec<u8>) {
                $(self.$index.encode_key(Place::Inner, out);)+
                self.$last_index.encode_key(place, out);
            }
        }

        impl<$($inner: Key,)+ $last: Key> Key for ($($inner,)+ $last) {
            fn type_name() -> Cow<'static, str> {
                format!("({})", [$($inner::type_name(),)+ $last::type_name()].join(", ")).into()
            }

            fn decode_key(bytes: &mut &[u8], place: Place) -> Result<Self, Malformed> {
                Ok(($($inner::decode_key(bytes, Place::Inner)?,)+ $last::decode_key(bytes, place)?))
            }
        }
    )*};
}

tuple_keys! {
    (A AQ 0; B BQ 1);
    (A AQ 0, B BQ 1; C CQ 2);
    (A AQ 0, B BQ 1, C CQ 2; D DQ 3);
    (A AQ 0, B BQ 1, C CQ 2, D DQ 3; E EQ 4);
    (A AQ 0, B BQ 1, C CQ 2, D DQ 3, E EQ 4; F FQ 5);
}

/// Implements prefixes of tuples: `$part` are the leading parts, `$rest` the types of the others.
macro_rules! tuple_prefixes {
    ($(($($part:ident $query:ident $index:tt),+; $($rest:ident),+);)*) => {$(
        impl<$($part: Key, $query: AsKey<$part>,)+ $($rest: Key,)+> AsPrefix<($($part,)+ $($rest,)+)>
            for ($($query,)+)
        {
            fn encode_prefix(&self, out: &mut Vec<u8>) {
                $(self.$index.encode_key(Place::Inner, out);)+
            }
        }
    )*};
}

tuple_prefixes! {
    (A AQ 0; B);
    (A AQ 0; B, C);
    (A AQ 0, B BQ 1; C);
    (A AQ 0; B, C, D);
    (A AQ 0, B BQ 1; C, D);
    (A AQ 0, B BQ 1, C CQ 2; D);
    (A AQ 0; B, C, D, E);
    (A AQ 0, B BQ 1; C, D, E);
    (A AQ 0, B BQ 1, C CQ 2; D, E);
    (A AQ 0, B BQ 1, C CQ 2, D DQ 3; E);
    (A AQ 0; B, C, D, E, F);
    (A AQ 0, B BQ 1; C, D, E, F);
    (A AQ 0, B BQ 1, C CQ 2; D, E, F);
    (A AQ 0, B BQ 1, C CQ 2, D DQ 3; E, F);
    (A AQ 0, B BQ 1, C CQ 2, D DQ 3, E EQ 4; F);
}

#[cfg(test)]
mod test {
    use super::*;
    use std::fmt::Debug;

    fn decode<K: Key>(bytes: &[u8]) -> Result<K, Malformed> {
        K::decode_owned_key(bytes.to_vec())
    }

    /// Checks that keys in ascending order have encodings in ascending order, which decode.
    fn assert_sorted<K: Key + PartialEq + Debug>(keys: &[K]) {
        let encoded: Vec<_> = keys.iter().map(encode_key::<K>).collect();
        assert!(encoded.is_sorted_by(|one, other| one < other), "{keys:?}: {encoded:?}");
        for (key, bytes) in keys.iter().zip(&encoded) {
            assert_eq!(decode::<K>(bytes).as_ref().ok(), Some(key));
        }
    }

    #[test]
    fn integers_sort_by_value() {
        assert_sorted(&[0u8, 1, 127, 128, 255]);
        assert_sorted(&[0u64, 1, 255, 256, 1 << 63, u64::MAX]);
        assert_sorted(&[i8::MIN, -1, 0, 1, i8::MAX]);
        assert_sorted(&[i64::MIN, i64::MIN + 1, -256, -1, 0, 255, 256, i64::MAX]);
        assert_sorted(&[i128::MIN, -1, 0, i128::MAX]);
        assert_sorted(&[false, true]);
        assert_sorted(&['\0', 'a', 'ß', '\u{10FFFF}']);
    }

    #[test]
    #[cfg_attr(miri, ignore = "tens of seconds in the interpreter: in `make soak`")]
    fn text_sorts_in_every_place() {
        let texts =
            ["", "\0", "\0\0", "\0a", "a", "a\0", "a\0\0", "a\0b", "aa", "b", "\u{FF}"].map(String::from);
        assert_sorted(&texts);
        let mut pairs: Vec<(String, String)> = texts
            .iter()
            .flat_map(|one| texts.iter().map(move |other| (one.clone(), other.clone())))
            .collect();
        pairs.sort();
        assert_sorted(&pairs);
        let mut nested: Vec<((String, Vec<u8>), i8)> = pairs
            .into_iter()
            .flat_map(|(one, other)| {
                [-1, 0, 1].map(|number| ((one.clone(), other.clone().into_bytes()), number))
            })
            .collect();
        nested.sort();
        assert_sorted(&nested);
        // Bytes with all values of the second one, before a part that begins with any byte.
        let mut bytes: Vec<(Vec<u8>, u8)> =
            (0..=255).flat_map(|byte| [vec![], vec![0], vec![0, byte]].map(|bytes| (bytes, byte))).collect();
        bytes.sort();
        bytes.dedup();
        assert_sorted(&bytes);
    }

    #[test]
    fn borrowed_keys_have_the_same_encoding() {
        assert_eq!(encode_key::<String>("ab"), encode_key::<String>(&String::from("ab")));
        assert_eq!(
            encode_key::<(String, u64)>(&("ab", 7)),
            encode_key::<(String, u64)>(&(String::from("ab"), 7))
        );
        assert_eq!(encode_key::<Vec<u8>>(b"ab"), encode_key::<Vec<u8>>(&vec![b'a', b'b']));
    }

    #[test]
    fn prefixes_begin_their_keys() {
        let mut prefix = Vec::new();
        AsPrefix::<(String, u64)>::encode_prefix(&("a",), &mut prefix);
        assert!(encode_key::<(String, u64)>(&("a", 7)).starts_with(&prefix));
        assert!(!encode_key::<(String, u64)>(&("a\0", 7)).starts_with(&prefix));
        assert!(!encode_key::<(String, u64)>(&("ab", 7)).starts_with(&prefix));
    }

    #[test]
    fn malformed_keys_are_refused() {
        assert!(decode::<u32>(&[0; 3]).is_err());
        assert!(decode::<u32>(&[0; 5]).is_err());
        assert!(decode::<bool>(&[2]).is_err());
        assert!(decode::<char>(&[0, 0, 0xD8, 0]).is_err());
        assert!(decode::<String>(&[0xFF]).is_err());
        for bytes in [&b"a"[..], b"a\0", b"a\0\x01\0\0", b"a\0\0"] {
            assert!(decode::<(String, u8)>(bytes).is_err(), "{bytes:?}");
        }
        assert_eq!(decode::<(String, u8)>(b"a\0\0\x05").ok(), Some(("a".into(), 5)));
    }
}
