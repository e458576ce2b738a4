//! Values of a fixed size.

use crate::value::{AsValue, Value};
use lode_heap::CellValue;
use lode_layout::Malformed;
use std::borrow::Cow;

/// A value of a fixed size: a struct or enum with `#[derive(CellValue)]`, stored as its bytes.
///
/// The fields are numbers of fixed size, `bool`, `char`, arrays, tuples and `Option` of them, and other such structs and enums.
/// [`CellValue`] says how many bytes each takes.
///
/// The tree keeps a number that is computed from the type's name, fields and variants, so it can't be opened with a type that
/// has changed: its error [`is_wrong_type`](crate::Error::is_wrong_type). `#[persist(type_number = 7)]` sets the number. Values
/// of another size, and bytes that are no value, are then [`is_malformed`](crate::Error::is_malformed).
///
/// # Example
/// ```
/// # use lodestone::{Durability, Store};
/// # fn main() -> lodestone::Result<()> {
/// # let folder = tempfile::tempdir().map_err(lodestone::Error::other)?;
/// # let store = Store::options().durability(Durability::None).open(folder.path().join("samples"))?;
/// use lodestone::{CellValue, Fixed, TreeDef};
///
/// #[derive(CellValue, Clone, Copy, Debug, PartialEq)]
/// struct Sample {
///     mass: f64,
///     depth: Option<u32>,
///     state: State,
/// }
///
/// #[derive(CellValue, Clone, Copy, Debug, PartialEq)]
/// enum State {
///     Dry,
///     Wet { since: u64 },
/// }
///
/// const SAMPLES: TreeDef<u64, Fixed<Sample>> = TreeDef::new("samples");
///
/// let sample = Sample { mass: 2.5, depth: Some(40), state: State::Wet { since: 7 } };
/// store.put(SAMPLES, 7, Fixed(sample))?;
/// assert_eq!(store.get(SAMPLES, 7)?, Some(Fixed(sample)));
/// # Ok(())
/// # }
/// ```
///
/// A type whose bytes lie elsewhere has no encoding:
/// ```compile_fail,E0277
/// # fn assert_value<V: lodestone::Value>() {}
/// assert_value::<lodestone::Fixed<String>>();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fixed<T>(
    /// The value itself.
    pub T,
);

impl<T: CellValue> AsValue<Fixed<T>> for Fixed<T> {
    fn encode_value(&self) -> Result<Cow<'_, [u8]>, Malformed> {
        Ok(Cow::Owned(self.0.to_bytes()))
    }
}

impl<T: CellValue> Value for Fixed<T> {
    fn type_name() -> Cow<'static, str> {
        format!("fixed {:016x}", T::TYPE_NUMBER).into()
    }

    fn decode_value(bytes: &[u8]) -> Result<Fixed<T>, Malformed> {
        T::from_bytes(bytes).map(Fixed).ok_or_else(Malformed::new)
    }
}
