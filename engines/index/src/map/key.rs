//! Keys of maps.

use lode_heap::CellValue;
use lode_heap::type_hash::{of_name, with_number};
use lode_heap::types::{Describe, TypeId, Types};
use lode_layout::{Key, Shape};

/// A type of keys of a [`PMap`](crate::PMap): the integers up to 64 bits, `bool`, `char`, `String`, `Vec<u8>`, `[u8; N]`, and tuples
/// of two to six of them.
///
/// The map is sorted by them. `&str` stands for a `String`, `&[u8]` for a `Vec<u8>`, and tuples of such for tuples
/// ([`AsKey`](lode_layout::AsKey)).
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be a key of a map in a pool",
    note = "integers of up to 64 bits, `bool`, `char`, `String`, `Vec<u8>`, `[u8; N]` and tuples of two to six of them can"
)]
pub trait MapKey: Key + 'static {
    /// A hash of the name.
    const NAME: u64;

    /// Adds the type to those of a pool.
    fn describe(types: &mut Types) -> TypeId;
}

macro_rules! value_keys {
    ($($key:ty),*) => {$(
        impl MapKey for $key {
            const NAME: u64 = <$key as CellValue>::NAME;

            fn describe(types: &mut Types) -> TypeId {
                <$key as CellValue>::describe(types)
            }
        }
    )*};
}

value_keys!(u8, u16, u32, u64, i8, i16, i32, i64, bool, char);

impl<const N: usize> MapKey for [u8; N] {
    const NAME: u64 = <[u8; N] as CellValue>::NAME;

    fn describe(types: &mut Types) -> TypeId {
        <[u8; N] as CellValue>::describe(types)
    }
}

impl MapKey for String {
    const NAME: u64 = of_name("String");

    fn describe(types: &mut Types) -> TypeId {
        types.add(<String as MapKey>::NAME, 0, Shape::Text)
    }
}

impl MapKey for Vec<u8> {
    const NAME: u64 = of_name("Vec<u8>");

    fn describe(types: &mut Types) -> TypeId {
        types.add(<Vec<u8> as MapKey>::NAME, 0, Shape::Bytes)
    }
}

macro_rules! tuple_keys {
    ($(($($part:ident),+);)*) => {$(
        impl<$($part: MapKey),+> MapKey for ($($part,)+) {
            const NAME: u64 = {
                let name = of_name("() of a key");
                $(let name = with_number(name, $part::NAME);)+
                name
            };

            fn describe(types: &mut Types) -> TypeId {
                let parts: &[Describe] = &[$($part::describe),+];
                let size_of = |part: &Describe| {
                    let id = part(types);
                    types.size(id)
                };
                let size = parts.iter().map(size_of).sum();
                types.tuple(<Self as MapKey>::NAME, size, parts)
            }
        }
    )*};
}

tuple_keys! {
    (A, B);
    (A, B, C);
    (A, B, C, D);
    (A, B, C, D, E);
    (A, B, C, D, E, F);
}
