//! Values of types that are all bytes.

use crate::malformed::Malformed;
use crate::value::{AsValue, Value};
use lode_heap::Plain;
use std::borrow::Cow;

/// A value of a struct with `#[derive(Persist)]`, stored as its bytes.
///
/// The fields are integers and floats of fixed size, arrays, and other such structs. The struct is `#[repr(C)]` and has no
/// padding. Its size is that of all its values, and they are read without parsing. Pointers and cells of typed pools are
/// refused: a value is copied, and owns nothing.
///
/// The tree keeps a number that is computed from the struct's name and fields, so it can't be opened with a struct that has
/// changed: its error [`is_wrong_type`](crate::Error::is_wrong_type). `#[persist(type_number = 7)]` sets the number. Values
/// of another size are then [`is_malformed`](crate::Error::is_malformed).
///
/// # Example
/// ```
/// # use lodestone::{Durability, Store};
/// # fn main() -> lodestone::Result<()> {
/// # let folder = tempfile::tempdir().map_err(lodestone::Error::other)?;
/// # let store = Store::options().durability(Durability::None).open(folder.path().join("samples"))?;
/// use lodestone::{Fixed, Persist, TreeDef};
///
/// #[derive(Persist, Clone, Copy, Debug, PartialEq)]
/// #[persist(crate = "lodestone")]
/// #[repr(C)]
/// struct Sample {
///     mass: f64,
///     depth: u32,
///     site: [u8; 4],
/// }
///
/// const SAMPLES: TreeDef<u64, Fixed<Sample>> = TreeDef::new("samples");
///
/// let sample = Sample { mass: 2.5, depth: 40, site: *b"quar" };
/// store.put(SAMPLES, 7, Fixed(sample))?;
/// assert_eq!(store.get(SAMPLES, 7)?, Some(Fixed(sample)));
/// # Ok(())
/// # }
/// ```
///
/// A type that is not all bytes has no encoding:
/// ```compile_fail,E0277
/// use lodestone::{Fixed, Persist, TreeDef, Value};
///
/// #[derive(Persist)]
/// #[persist(crate = "lodestone")]
/// #[repr(C)]
/// struct Sample {
///     is_dry: bool, // Not every byte is one.
/// }
/// ```
///
/// ```compile_fail,E0277
/// # fn assert_value<V: lodestone::Value>() {}
/// assert_value::<lodestone::Fixed<String>>(); // Its bytes lie elsewhere.
/// ```
///
/// ```compile_fail,E0080
/// use lodestone::Persist;
///
/// #[derive(Persist)]
/// #[persist(crate = "lodestone")]
/// #[repr(C)]
/// struct Sample {
///     depth: u32,
///     mass: f64, // Four bytes before it have no value.
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fixed<T>(
    /// The value itself.
    pub T,
);

impl<T: Plain> AsValue<Fixed<T>> for Fixed<T> {
    fn encode_value(&self) -> Result<Cow<'_, [u8]>, Malformed> {
        Ok(Cow::Borrowed(self.0.as_bytes()))
    }
}

impl<T: Plain> Value for Fixed<T> {
    fn type_name() -> Cow<'static, str> {
        format!("fixed {:016x}", T::PLAIN_NUMBER).into()
    }

    fn decode_value(bytes: &[u8]) -> Result<Fixed<T>, Malformed> {
        T::from_bytes(bytes).map(Fixed).ok_or_else(Malformed::new)
    }
}
