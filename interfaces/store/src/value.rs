//! Values: types that are stored as bytes.

use lode_layout::Malformed;
use std::borrow::Cow;

/// A type of values.
///
/// There are values for all integers and floats, `bool`, `()`, `String`, `Vec<u8>` and `[u8; N]`.
/// [`Fixed`](crate::Fixed) holds structs and enums of a fixed size with `#[derive(CellValue)]`. With the feature `serde`, `Json` holds any type
/// that serde knows.
pub trait Value: AsValue<Self> + Sized {
    /// Returns the name of the type, which the tree keeps. A tree can't be opened as one of another type.
    fn type_name() -> Cow<'static, str>;

    /// Decodes a value.
    ///
    /// # Errors
    /// [`Malformed`] if `bytes` are no value of this type.
    fn decode_value(bytes: &[u8]) -> Result<Self, Malformed>;

    /// Decodes a value of bytes that may become its own.
    ///
    /// # Errors
    /// [`Malformed`] if `bytes` are no value of this type.
    fn decode_owned_value(bytes: impl AsRef<[u8]> + Into<Vec<u8>>) -> Result<Self, Malformed> {
        Self::decode_value(bytes.as_ref())
    }
}

/// A value that stands for one of the type `V`, such as `&str` for `String`.
pub trait AsValue<V> {
    /// Returns the bytes of the value.
    ///
    /// # Errors
    /// [`Malformed`] if the value has no encoding.
    fn encode_value(&self) -> Result<Cow<'_, [u8]>, Malformed>;
}

impl<V, W: AsValue<V> + ?Sized> AsValue<V> for &W {
    fn encode_value(&self) -> Result<Cow<'_, [u8]>, Malformed> {
        (**self).encode_value()
    }
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N], Malformed> {
    bytes.try_into().map_err(|_| Malformed::new())
}

/// Numbers are little-endian. Those of up to 8 bytes change in place.
macro_rules! number_values {
    ($($number:ty),*) => {$(
        impl AsValue<$number> for $number {
            fn encode_value(&self) -> Result<Cow<'_, [u8]>, Malformed> {
                Ok(self.to_le_bytes().to_vec().into())
            }
        }

        impl Value for $number {
            fn type_name() -> Cow<'static, str> {
                stringify!($number).into()
            }

            fn decode_value(bytes: &[u8]) -> Result<$number, Malformed> {
                fixed(bytes).map(<$number>::from_le_bytes)
            }
        }
    )*};
}

number_values!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64);

impl AsValue<bool> for bool {
    fn encode_value(&self) -> Result<Cow<'_, [u8]>, Malformed> {
        Ok(vec![u8::from(*self)].into())
    }
}

impl Value for bool {
    fn type_name() -> Cow<'static, str> {
        "bool".into()
    }

    fn decode_value(bytes: &[u8]) -> Result<bool, Malformed> {
        match fixed(bytes)? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(Malformed::new()),
        }
    }
}

impl AsValue<()> for () {
    fn encode_value(&self) -> Result<Cow<'_, [u8]>, Malformed> {
        Ok(Cow::Borrowed(&[]))
    }
}

impl Value for () {
    fn type_name() -> Cow<'static, str> {
        "()".into()
    }

    fn decode_value(bytes: &[u8]) -> Result<(), Malformed> {
        fixed(bytes).map(|[]| ())
    }
}

impl<const N: usize> AsValue<[u8; N]> for [u8; N] {
    fn encode_value(&self) -> Result<Cow<'_, [u8]>, Malformed> {
        Ok(Cow::Borrowed(self))
    }
}

impl<const N: usize> Value for [u8; N] {
    fn type_name() -> Cow<'static, str> {
        format!("[u8; {N}]").into()
    }

    fn decode_value(bytes: &[u8]) -> Result<[u8; N], Malformed> {
        fixed(bytes)
    }
}

impl AsValue<Vec<u8>> for [u8] {
    fn encode_value(&self) -> Result<Cow<'_, [u8]>, Malformed> {
        Ok(Cow::Borrowed(self))
    }
}

impl AsValue<Vec<u8>> for Vec<u8> {
    fn encode_value(&self) -> Result<Cow<'_, [u8]>, Malformed> {
        Ok(Cow::Borrowed(self))
    }
}

impl<const N: usize> AsValue<Vec<u8>> for [u8; N] {
    fn encode_value(&self) -> Result<Cow<'_, [u8]>, Malformed> {
        Ok(Cow::Borrowed(self))
    }
}

impl Value for Vec<u8> {
    fn type_name() -> Cow<'static, str> {
        "bytes".into()
    }

    fn decode_value(bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
        Ok(bytes.to_vec())
    }

    fn decode_owned_value(bytes: impl AsRef<[u8]> + Into<Vec<u8>>) -> Result<Vec<u8>, Malformed> {
        Ok(bytes.into())
    }
}

impl AsValue<String> for str {
    fn encode_value(&self) -> Result<Cow<'_, [u8]>, Malformed> {
        Ok(Cow::Borrowed(self.as_bytes()))
    }
}

impl AsValue<String> for String {
    fn encode_value(&self) -> Result<Cow<'_, [u8]>, Malformed> {
        Ok(Cow::Borrowed(self.as_bytes()))
    }
}

impl Value for String {
    fn type_name() -> Cow<'static, str> {
        "str".into()
    }

    fn decode_value(bytes: &[u8]) -> Result<String, Malformed> {
        Self::decode_owned_value(bytes)
    }

    fn decode_owned_value(bytes: impl AsRef<[u8]> + Into<Vec<u8>>) -> Result<String, Malformed> {
        String::from_utf8(bytes.into()).map_err(Malformed::because)
    }
}

#[cfg(feature = "serde")]
mod json {
    use super::{AsValue, Cow, Malformed, Value};
    use serde::Serialize;
    use serde::de::DeserializeOwned;

    /// A value of any type that serde knows, stored as JSON.
    ///
    /// JSON names its fields, so a program may add fields with `#[serde(default)]` and read older values. The tree keeps
    /// only that its values are JSON, not of which type.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Json<T>(
        /// The value itself.
        pub T,
    );

    impl<T: Serialize> AsValue<Json<T>> for Json<T> {
        fn encode_value(&self) -> Result<Cow<'_, [u8]>, Malformed> {
            serde_json::to_vec(&self.0).map(Cow::Owned).map_err(Malformed::because)
        }
    }

    impl<T: Serialize + DeserializeOwned> Value for Json<T> {
        fn type_name() -> Cow<'static, str> {
            "json".into()
        }

        fn decode_value(bytes: &[u8]) -> Result<Json<T>, Malformed> {
            serde_json::from_slice(bytes).map(Json).map_err(Malformed::because)
        }
    }
}

#[cfg(feature = "serde")]
pub use json::Json;

#[cfg(test)]
mod test {
    use super::*;
    use std::fmt::Debug;

    fn assert_round_trip<V: Value + PartialEq + Debug>(value: V) {
        let bytes = value.encode_value().expect("an encoding").into_owned();
        assert_eq!(V::decode_value(&bytes).as_ref().ok(), Some(&value));
        assert_eq!(V::decode_owned_value(bytes).ok(), Some(value));
    }

    #[test]
    fn values_round_trip() {
        assert_round_trip(-7i128);
        assert_round_trip(u64::MAX);
        assert_round_trip(0.25f64);
        assert_round_trip(true);
        assert_round_trip(());
        assert_round_trip([1u8, 2, 3]);
        assert_round_trip(vec![0u8; 300]);
        assert_round_trip(String::from("basalt"));
    }

    #[test]
    fn malformed_values_are_refused() {
        assert!(u64::decode_value(&[0; 7]).is_err());
        assert!(bool::decode_value(&[2]).is_err());
        assert!(<()>::decode_value(&[0]).is_err());
        assert!(<[u8; 3]>::decode_value(&[0; 4]).is_err());
        assert!(String::decode_value(&[0xFF]).is_err());
        assert!(String::decode_owned_value(vec![0xFF]).is_err());
    }
}
