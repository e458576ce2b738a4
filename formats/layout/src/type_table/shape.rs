//! Types, and the parts of which they consist.

/// The index of a type in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(u32);

impl TypeId {
    /// Makes the index `index`.
    pub const fn new(index: u32) -> TypeId {
        TypeId(index)
    }

    pub(super) const fn get(self) -> u32 {
        self.0
    }

    /// Returns the index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A type in a pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolType {
    /// The type number of objects of this type.
    pub number: u64,
    /// Bytes where it lies in another type, or in an object of its own.
    pub size: u64,
    /// The parts of which it consists.
    pub shape: Shape,
}

/// The parts of which a type consists.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// A number.
    Number(NumberKind),
    /// A byte, 0 or 1.
    Bool,
    /// A Unicode scalar value, 4 bytes.
    Char,
    /// A struct or a tuple.
    Struct {
        /// Its declared name, with its parameters.
        name: String,
        /// Its fields.
        fields: Vec<TypeField>,
    },
    /// A tag byte, and the fields of the variant that it names.
    Enum {
        /// Its declared name, with its parameters.
        name: String,
        /// Its variants.
        variants: Vec<TypeVariant>,
    },
    /// Elements, one directly after the other.
    Array {
        /// The type of the elements.
        element: TypeId,
        /// Number of elements.
        len: u64,
    },
    /// A value that can change.
    Cell(TypeId),
    /// A value under a lock, which is not on the medium.
    Mutex(TypeId),
    /// A pointer that owns an object, or is null.
    Box(TypeId),
    /// An array that grows.
    Vec {
        /// The type of the elements.
        element: TypeId,
        /// The type number of its buffer.
        buffer: u64,
    },
    /// A queue with two ends.
    Deque {
        /// The type of the elements.
        element: TypeId,
        /// The type number of its buffer.
        buffer: u64,
    },
    /// A hash map.
    HashMap {
        /// The type of the keys.
        key: TypeId,
        /// The type of the values.
        value: TypeId,
        /// The type number of its buffer.
        buffer: u64,
    },
    /// UTF-8 text that can change.
    String {
        /// The type number of its buffer.
        buffer: u64,
    },
    /// UTF-8 text as a key, or as a part of one.
    Text,
    /// Any bytes as a key, or as a part of one.
    Bytes,
    /// An ordered map.
    Map {
        /// The type of its keys.
        key: TypeId,
        /// The type of its values.
        value: TypeId,
        /// The type number of the object to which it leads.
        root: u64,
    },
}

/// A field of a struct, a tuple or a variant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TypeField {
    /// Its name, or its number in a tuple.
    pub name: String,
    /// Bytes from the start of the whole type.
    pub offset: u64,
    /// Its type.
    pub id: TypeId,
}

/// A variant of an enum.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TypeVariant {
    /// Its name.
    pub name: String,
    /// The byte that names it.
    pub tag: u8,
    /// Its fields.
    pub fields: Vec<TypeField>,
}

/// The kind of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is named as Rust does")]
pub enum NumberKind {
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F32,
    F64,
}

impl NumberKind {
    /// All kinds, in the order of their numbers in the format.
    pub const ALL: [NumberKind; 10] = [
        NumberKind::U8,
        NumberKind::U16,
        NumberKind::U32,
        NumberKind::U64,
        NumberKind::I8,
        NumberKind::I16,
        NumberKind::I32,
        NumberKind::I64,
        NumberKind::F32,
        NumberKind::F64,
    ];

    /// Returns the name in Rust.
    pub const fn name(self) -> &'static str {
        match self {
            NumberKind::U8 => "u8",
            NumberKind::U16 => "u16",
            NumberKind::U32 => "u32",
            NumberKind::U64 => "u64",
            NumberKind::I8 => "i8",
            NumberKind::I16 => "i16",
            NumberKind::I32 => "i32",
            NumberKind::I64 => "i64",
            NumberKind::F32 => "f32",
            NumberKind::F64 => "f64",
        }
    }

    /// Returns the length in bytes.
    pub const fn size(self) -> u64 {
        match self {
            NumberKind::U8 | NumberKind::I8 => 1,
            NumberKind::U16 | NumberKind::I16 => 2,
            NumberKind::U32 | NumberKind::I32 | NumberKind::F32 => 4,
            NumberKind::U64 | NumberKind::I64 | NumberKind::F64 => 8,
        }
    }
}
