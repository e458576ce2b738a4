//! The types of values that cells and vectors hold.

use super::type_hash;
use super::types::{Declaration, Describe, Parameter, Types, Variant};
use crate::bits::{Bits, Pair, bits_from, bytes_of, zeroed};
use crate::error::HeapError;
use lode_layout::{NumberKind, PoolOffset, Shape, TypeId};

/// A type whose values a [`PCell`](crate::PCell) or a [`PVec`](crate::PVec) holds. Values are read and stored by copy.
///
/// The medium has their [`Bits`], not their layout in Rust: a `bool` is a byte, an `Option` a byte before the bytes of its
/// value, an enum the number of its variant in a byte, with space for the longest variant after it. Bits that are no value, as
/// damage or another program leaves them, are an error where they are read: no reference to them exists.
///
/// `#[derive(CellValue)]` makes structs and enums of such types one, with type parameters, too:
///
/// ```
/// use lode_heap::{CellValue, PCell};
/// lode_heap::brand!(Shop);
///
/// #[derive(CellValue, Clone, Copy, Debug, PartialEq)]
/// enum State {
///     Free,
///     Reserved { by: u32, until: Option<u64> },
///     Sold(u32),
/// }
///
/// let state: PCell<State, Shop> = PCell::new(State::Reserved { by: 7, until: None });
/// assert_eq!(size_of_val(&state), 16); // 1 byte for the variant, 4 for `by`, 9 for `until`, and 2 that fill the word.
/// ```
///
/// | type | bytes |
/// |---|---|
/// | `u8` to `u64`, `i8` to `i64`, `f32`, `f64` | their own |
/// | `bool` | 1 |
/// | `char` | 4 |
/// | `Option<T>` | 1 and those of `T` |
/// | tuple, array, struct | the sum |
/// | enum | 1 and those of the longest variant |
///
/// A type without parameters may have fields of less visible types. One with parameters may not: its bits name them.
#[diagnostic::on_unimplemented(
    message = "a cell or vector can't hold a `{Self}`",
    note = "it can hold numbers of fixed size, `bool`, `char`, arrays, tuples and `Option` of them, and structs and enums with `#[derive(CellValue, Clone, Copy)]`",
    note = "text lies in a `PString`, other objects behind a `PBox`",
    note = "a vector of text or of objects has boxes: `PVec<PBox<PString<MyPool>, MyPool>, MyPool>`"
)]
pub trait CellValue: Copy + Send + Sync + 'static {
    /// The bytes on the medium.
    type Bits: Bits;
    /// A hash of the name.
    const NAME: u64;
    /// Number of the type on the medium.
    const TYPE_NUMBER: u64;
    /// The name for messages.
    const TYPE_NAME: &'static str;

    /// Returns the bits of the value.
    fn to_bits(self) -> Self::Bits;

    /// Returns the value with these bits; `None` if no value has them.
    fn from_bits(bits: Self::Bits) -> Option<Self>;

    /// Adds the type, and all that lie in it, to those of a pool.
    fn describe(types: &mut Types) -> TypeId;

    /// Returns the bytes that the medium has of the value.
    #[inline]
    fn to_bytes(self) -> Vec<u8> {
        bytes_of(&self.to_bits()).to_vec()
    }

    /// Calls `with` with the bytes that the medium has of the value. Returns its result.
    #[inline]
    fn with_bytes<R>(self, with: impl FnOnce(&[u8]) -> R) -> R {
        with(bytes_of(&self.to_bits()))
    }

    /// Returns the value with these bytes; `None` if no value has them.
    #[inline]
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let is_whole = bytes.len() == size_of::<Self::Bits>();
        is_whole.then(|| bits_from(|bits| bits.copy_from_slice(bytes))).and_then(Self::from_bits)
    }
}

/// Returns `hash` with the number of the values mixed in, and their size in bytes.
pub(crate) const fn with_values<T: CellValue>(hash: u64) -> u64 {
    type_hash::with_size(type_hash::with_number(hash, T::TYPE_NUMBER), size_of::<T::Bits>())
}

/// Returns the value with the bits that lie at the offset that `at` returns.
#[inline]
pub(crate) fn value_at<T: CellValue>(at: impl FnOnce() -> PoolOffset, bits: T::Bits) -> Result<T, HeapError> {
    T::from_bits(bits).ok_or_else(|| HeapError::InvalidValue { name: T::TYPE_NAME, at: at() })
}

macro_rules! numbers {
    ($($number:ty: $kind:ident),*) => {$(
        impl CellValue for $number {
            type Bits = $number;
            const NAME: u64 = type_hash::of_name(stringify!($number));
            const TYPE_NUMBER: u64 = Self::NAME;
            const TYPE_NAME: &'static str = stringify!($number);

            #[inline]
            fn to_bits(self) -> $number {
                self
            }

            #[inline]
            fn from_bits(bits: $number) -> Option<$number> {
                Some(bits)
            }

            fn describe(types: &mut Types) -> TypeId {
                types.number(Self::TYPE_NUMBER, NumberKind::$kind)
            }
        }
    )*};
}

numbers!(u8: U8, u16: U16, u32: U32, u64: U64, i8: I8, i16: I16, i32: I32, i64: I64, f32: F32, f64: F64);

impl CellValue for bool {
    type Bits = u8;
    const NAME: u64 = type_hash::of_name("bool");
    const TYPE_NUMBER: u64 = Self::NAME;
    const TYPE_NAME: &'static str = "bool";

    #[inline]
    fn to_bits(self) -> u8 {
        u8::from(self)
    }

    #[inline]
    fn from_bits(bits: u8) -> Option<bool> {
        (bits <= 1).then_some(bits == 1)
    }

    fn describe(types: &mut Types) -> TypeId {
        types.add(Self::TYPE_NUMBER, size_of::<Self::Bits>(), Shape::Bool)
    }
}

impl CellValue for char {
    type Bits = u32;
    const NAME: u64 = type_hash::of_name("char");
    const TYPE_NUMBER: u64 = Self::NAME;
    const TYPE_NAME: &'static str = "char";

    #[inline]
    fn to_bits(self) -> u32 {
        u32::from(self)
    }

    #[inline]
    fn from_bits(bits: u32) -> Option<char> {
        char::from_u32(bits)
    }

    fn describe(types: &mut Types) -> TypeId {
        types.add(Self::TYPE_NUMBER, size_of::<Self::Bits>(), Shape::Char)
    }
}

/// A byte 0 for `None`; a byte 1, and the value.
impl<T: CellValue> CellValue for Option<T> {
    type Bits = Pair<u8, T::Bits>;
    const NAME: u64 = type_hash::with_number(type_hash::of_name("Option"), T::NAME);
    const TYPE_NUMBER: u64 = type_hash::with_number(type_hash::of_name("Option"), T::TYPE_NUMBER);
    const TYPE_NAME: &'static str = "Option";

    #[inline]
    fn to_bits(self) -> Self::Bits {
        self.map_or_else(|| Pair::new(0, zeroed()), |value| Pair::new(1, value.to_bits()))
    }

    #[inline]
    fn from_bits(bits: Self::Bits) -> Option<Option<T>> {
        match bits.split() {
            (0, _) => Some(None),
            (1, value) => T::from_bits(value).map(Some),
            _ => None,
        }
    }

    fn describe(types: &mut Types) -> TypeId {
        let declaration = Declaration {
            name: "Option",
            parameters: &[Parameter::Type(T::describe)],
            number: Self::TYPE_NUMBER,
            size: size_of::<Self::Bits>(),
            was: None,
        };
        let some = [("0", T::describe as Describe)];
        let variant = |name, tag, fields| Variant { name, tag, fields };
        types.enumeration::<Self>(&declaration, &[variant("None", 0, &[]), variant("Some", 1, &some)])
    }
}

impl<T: CellValue, const N: usize> CellValue for [T; N] {
    type Bits = [T::Bits; N];
    const NAME: u64 =
        type_hash::with_number(type_hash::with_number(type_hash::of_name("[]"), T::NAME), N as u64);
    const TYPE_NUMBER: u64 = type_hash::with_number(Self::NAME, T::TYPE_NUMBER);
    const TYPE_NAME: &'static str = "array";

    #[inline]
    fn to_bits(self) -> Self::Bits {
        let mut all = zeroed::<Self::Bits>();
        all.iter_mut().zip(self).for_each(|(bits, value)| *bits = value.to_bits());
        all
    }

    #[inline]
    fn from_bits(all: Self::Bits) -> Option<[T; N]> {
        let Some(first) = all.first() else {
            return Some(std::array::from_fn(|_| unreachable!("no element")));
        };
        // One copy in place: arrays of options, as of `map`, would take many times as long.
        let mut values = [T::from_bits(*first)?; N];
        for (value, bits) in values.iter_mut().zip(&all) {
            *value = T::from_bits(*bits)?;
        }
        Some(values)
    }

    fn describe(types: &mut Types) -> TypeId {
        let shape = Shape::Array { element: T::describe(types), len: N as u64 };
        types.add(Self::TYPE_NUMBER, size_of::<Self::Bits>(), shape)
    }
}

impl CellValue for () {
    type Bits = [u8; 0];
    const NAME: u64 = type_hash::of_name("()");
    const TYPE_NUMBER: u64 = Self::NAME;
    const TYPE_NAME: &'static str = "()";

    #[inline]
    fn to_bits(self) -> [u8; 0] {
        []
    }

    #[inline]
    fn from_bits(_: [u8; 0]) -> Option<()> {
        Some(())
    }

    fn describe(types: &mut Types) -> TypeId {
        types.tuple(Self::TYPE_NUMBER, 0, &[])
    }
}

/// Implements `CellValue` for tuples: the bits of a tuple are those of its first value, and those of the rest.
macro_rules! tuples {
    ($first:ident: $first_value:ident $(, $rest:ident: $rest_value:ident)*) => {
        // Else the compiler lists eight tuples first where it lists the types that a cell holds.
        #[diagnostic::do_not_recommend]
        impl<$first: CellValue $(, $rest: CellValue)*> CellValue for ($first, $($rest,)*) {
            type Bits = Pair<$first::Bits, <($($rest,)*) as CellValue>::Bits>;
            const NAME: u64 = type_hash::with_number(
                type_hash::with_number(type_hash::of_name("(,)"), $first::NAME),
                <($($rest,)*) as CellValue>::NAME,
            );
            const TYPE_NUMBER: u64 = type_hash::with_number(
                type_hash::with_number(type_hash::of_name("(,)"), $first::TYPE_NUMBER),
                <($($rest,)*) as CellValue>::TYPE_NUMBER,
            );
            const TYPE_NAME: &'static str = "tuple";

            #[inline]
            fn to_bits(self) -> Self::Bits {
                let ($first_value, $($rest_value,)*) = self;
                Pair::new($first_value.to_bits(), ($($rest_value,)*).to_bits())
            }

            #[inline]
            fn from_bits(bits: Self::Bits) -> Option<Self> {
                let (first, rest) = bits.split();
                let $first_value = $first::from_bits(first)?;
                let ($($rest_value,)*) = CellValue::from_bits(rest)?;
                Some(($first_value, $($rest_value,)*))
            }

            fn describe(types: &mut Types) -> TypeId {
                let values: &[Describe] = &[$first::describe $(, $rest::describe)*];
                types.tuple(Self::TYPE_NUMBER, size_of::<Self::Bits>(), values)
            }
        }
        tuples!($($rest: $rest_value),*);
    };
    () => {};
}

tuples!(A: a, B: b, C: c, D: d, E: e, F: f, G: g, H: h);

#[cfg(test)]
mod test {
    use crate::CellValue;
    use std::fmt::Debug;

    #[derive(CellValue, Clone, Copy, Debug, PartialEq)]
    #[persist(crate = "crate")]
    enum Colour {
        Red = 3,
        Green,
        Blue = 255,
    }

    #[derive(CellValue, Clone, Copy, Debug, PartialEq)]
    #[persist(crate = "crate")]
    enum Shape<T, const N: usize> {
        Nothing,
        Circle(T),
        Corners { at: [(T, T); N], filled: Option<Colour> },
        Named(char, bool),
    }

    #[derive(CellValue, Clone, Copy, Debug, PartialEq)]
    #[persist(crate = "crate")]
    struct Empty;

    #[derive(CellValue, Clone, Copy, Debug, PartialEq)]
    #[persist(crate = "crate")]
    struct Sample {
        time: u64,
        site: [u8; 6],
        mass: i16,
        known: Option<(bool, f32)>,
        empty: Empty,
    }

    /// Names that the generated code uses, too.
    #[derive(CellValue, Clone, Copy, Debug, PartialEq)]
    #[persist(crate = "crate")]
    #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "names like any other")]
    pub(super) enum r#type {
        Bits { bits: u8, r#rest: u16 },
        NAME(u8),
        Option,
    }

    /// The only field is less visible.
    #[derive(CellValue, Clone, Copy, Debug, PartialEq)]
    #[persist(crate = "crate")]
    pub(super) struct Visible {
        hidden: Colour,
    }

    impl Visible {
        #[allow(dead_code, reason = "a name that the trait has, too")]
        pub(super) const NAME: &'static str = "visible";
    }

    macro_rules! many_variants {
        ($($name:ident)+) => {
            #[derive(CellValue, Clone, Copy, Debug, PartialEq)]
            #[persist(crate = "crate")]
            enum ManyVariants { $($name,)+ Last(u8) }
            #[derive(CellValue, Clone, Copy, Debug, PartialEq)]
            #[persist(crate = "crate")]
            enum ManyWithFields { $($name(u16),)+ Last(u8) }
            #[derive(CellValue, Clone, Copy, Debug, PartialEq)]
            #[persist(crate = "crate")]
            #[allow(non_snake_case, reason = "the same names as those of variants")]
            struct ManyFields { $($name: u8,)+ }
        };
    }

    many_variants! {
        A0 A1 A2 A3 A4 A5 A6 A7 A8 A9 B0 B1 B2 B3 B4 B5 B6 B7 B8 B9 C0 C1 C2 C3 C4 C5 C6 C7 C8 C9
        D0 D1 D2 D3 D4 D5 D6 D7 D8 D9 E0 E1 E2 E3 E4 E5 E6 E7 E8 E9 F0 F1 F2 F3 F4 F5 F6 F7 F8 F9
        G0 G1 G2 G3 G4 G5 G6 G7 G8 G9 H0 H1 H2 H3 H4 H5 H6 H7 H8 H9 I0 I1 I2 I3 I4 I5 I6 I7 I8 I9
        J0 J1 J2 J3 J4 J5 J6 J7 J8 J9 K0 K1 K2 K3 K4 K5 K6 K7 K8 K9 L0 L1 L2 L3 L4 L5 L6 L7 L8 L9
        M0 M1 M2 M3 M4 M5 M6 M7 M8 M9 N0 N1 N2 N3 N4 N5 N6 N7 N8 N9 O0 O1 O2 O3 O4 O5 O6 O7 O8 O9
        P0 P1 P2 P3 P4 P5 P6 P7 P8 P9 Q0 Q1 Q2 Q3 Q4 Q5 Q6 Q7 Q8 Q9 R0 R1 R2 R3 R4 R5 R6 R7 R8 R9
    }

    #[test]
    fn many_fields_and_variants_have_bits() {
        is(ManyVariants::A0, &[0, 0]);
        is(ManyVariants::Last(7), &[180, 7]);
        is(ManyWithFields::R9(0x0102), &[179, 2, 1]);
        is(ManyWithFields::Last(7), &[180, 7, 0]);
        let bytes: Vec<u8> = (0..180).collect();
        let many = ManyFields::from_bytes(&bytes).expect("every bit pattern is a value");
        assert_eq!((many.A0, many.J0, many.R9), (0, 90, 179));
        is(many, &bytes);
    }

    #[test]
    fn names_of_any_kind_have_bits() {
        is(r#type::Bits { bits: 1, rest: 2 }, &[0, 1, 2, 0]);
        is(r#type::NAME(3), &[1, 3, 0, 0]);
        is(r#type::Option, &[2, 0, 0, 0]);
        assert_eq!(r#type::TYPE_NAME, "type");
        is(Visible { hidden: Colour::Blue }, &[255]);
        assert_eq!(<Visible as CellValue>::NAME, crate::type_hash::of_name("Visible"));
        is([(); 3], &[]);
        is([0_u16; 0], &[]);
    }

    /// Checks the bytes of a value, and that they make it again.
    #[track_caller]
    fn is<T: CellValue + Debug + PartialEq>(value: T, bytes: &[u8]) {
        assert_eq!(value.to_bytes(), bytes);
        // The bytes need no alignment.
        let shifted = [&[0], bytes].concat();
        assert_eq!(T::from_bytes(&shifted[1..]), Some(value));
        assert_eq!(T::from_bytes(&shifted), None);
    }

    #[test]
    fn values_are_their_bytes() {
        is(true, &[1]);
        is('é', &[0xE9, 0, 0, 0]);
        is(None::<u16>, &[0, 0, 0]);
        is(Some(Some(0x0102_u16)), &[1, 1, 2, 1]);
        is((1_u8, 2_u32, false), &[1, 2, 0, 0, 0, 0]);
        is((), &[]);
        is([Colour::Red, Colour::Green, Colour::Blue], &[3, 4, 255]);
        type Figure = Shape<u16, 2>;
        is(Figure::Nothing, &[0; 11]);
        is(Figure::Circle(5), &[1, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let at = [(1, 2), (3, 4)];
        is(Figure::Corners { at, filled: Some(Colour::Green) }, &[2, 1, 0, 2, 0, 3, 0, 4, 0, 1, 4]);
        is(Figure::Named('a', true), &[3, 97, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
        let sample =
            Sample { time: 0x0102, site: *b"quarry", mass: -2, known: Some((true, 0.0)), empty: Empty };
        is(sample, b"\x02\x01\0\0\0\0\0\0quarry\xfe\xff\x01\x01\0\0\0\0");
    }

    #[test]
    fn bytes_of_no_value_are_refused() {
        assert_eq!(bool::from_bytes(&[2]), None);
        assert_eq!(char::from_bytes(&0xD800_u32.to_le_bytes()), None);
        assert_eq!(Option::<u8>::from_bytes(&[2, 0]), None);
        assert_eq!(Option::<bool>::from_bytes(&[1, 9]), None);
        // What follows `None` has no meaning.
        assert_eq!(Option::<bool>::from_bytes(&[0, 9]), Some(None));
        assert_eq!(<(u8, bool)>::from_bytes(&[9, 9]), None);
        assert_eq!(<[bool; 2]>::from_bytes(&[1, 2]), None);
        for tag in [0, 2, 5, 254] {
            assert_eq!(Colour::from_bytes(&[tag]), None, "{tag}");
        }
        assert_eq!(Shape::<u16, 2>::from_bytes(&[4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(Shape::<u16, 2>::from_bytes(&[3, 97, 0, 0, 0, 2, 0, 0, 0, 0, 0]), None);
    }

    #[test]
    fn numbers_follow_names_and_layout() {
        mod other {
            use crate::CellValue;
            #[derive(CellValue, Clone, Copy)]
            #[persist(crate = "crate")]
            #[allow(dead_code, reason = "its number alone counts")]
            pub(super) enum Colour {
                Red = 3,
                Blue,
            }
            #[derive(CellValue, Clone, Copy)]
            #[persist(crate = "crate", type_number = 7)]
            #[allow(dead_code, reason = "its number alone counts")]
            pub(super) struct Renamed(u8);
        }
        assert_eq!(Colour::NAME, other::Colour::NAME);
        assert_ne!(Colour::TYPE_NUMBER, other::Colour::TYPE_NUMBER);
        assert_eq!(other::Renamed::TYPE_NUMBER, 7);
        assert_ne!(Shape::<u16, 2>::TYPE_NUMBER, Shape::<u16, 3>::TYPE_NUMBER);
        assert_ne!(Shape::<u16, 2>::NAME, Shape::<i16, 2>::NAME);
        assert_ne!(Option::<(u8, bool)>::TYPE_NUMBER, Option::<(bool, u8)>::TYPE_NUMBER);

        // A number of its own stands for the name and the fields, not for the parameters.
        #[derive(CellValue, Clone, Copy)]
        #[persist(crate = "crate", type_number = 7)]
        #[allow(dead_code, reason = "its number alone counts")]
        struct Held<T>(T);
        assert_ne!(Held::<u32>::TYPE_NUMBER, Held::<f32>::TYPE_NUMBER);
        assert_ne!(Held::<u8>::NAME, Held::<u16>::NAME);
    }
}
