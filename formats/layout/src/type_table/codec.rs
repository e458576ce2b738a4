//! A type table as bytes.

use super::shape::{NumberKind, PoolType, Shape, TypeField, TypeId, TypeVariant};
use super::{NAME_LEN_MAX, NESTED_MAX, TypeTable};
use crate::chunk::encode_root;
use crate::flip::flipped_bit_of;
use crate::offset::PoolOffset;
use crate::type_table_header::TypeTableHeader;
use core::mem::offset_of;
use zerocopy::{FromBytes, IntoBytes};

/// Longest table in bytes.
pub const TYPE_TABLE_LEN_MAX: usize = 1 << 20;

const MAGIC: u64 = super::TYPE_TYPE_TABLE;
const VERSION: u32 = 1;

const HEADER_LEN: usize = size_of::<TypeTableHeader>();
/// Bytes before those that the checksum covers.
const CRC_END: usize = offset_of!(TypeTableHeader, version);
/// Greatest length of a table in bytes in which a flipped bit is searched.
const FLIPPED_LEN_MAX: usize = 16 << 10;
/// Types in types, on all levels, that a type may have, so that a walk over one takes no longer than its bytes allow.
const PARTS_MAX: u32 = 1 << 16;
/// Bytes of the shortest type: its kind, its number, its size.
const TYPE_LEN_MIN: usize = 17;

/// Reasons why a type table can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TypeTableError {
    /// The bytes do not begin with the magic number.
    #[error("there is no type table")]
    Absent,
    /// The checksum does not fit.
    #[error("the checksum of the type table does not fit")]
    Checksum,
    /// Another version wrote it.
    #[error("version {version} of the type table is unknown, this program knows {VERSION}")]
    Version {
        /// The version that was found.
        version: u32,
    },
    /// A rule of the format is broken.
    #[error("the type table breaks a rule: {rule}")]
    Malformed {
        /// The rule.
        rule: &'static str,
    },
}

const fn malformed<T>(rule: &'static str) -> Result<T, TypeTableError> {
    Err(TypeTableError::Malformed { rule })
}

impl TypeTable {
    /// Offset in the bytes of the root word that leads to the next older table of an unfinished migration. It is null in the
    /// bytes that [`encode`](TypeTable::encode) returns.
    pub const OLDER_OFF: u64 = offset_of!(TypeTableHeader, older) as u64;

    /// Returns the bytes as stored.
    ///
    /// # Errors
    /// [`TypeTableError::Malformed`] when the table is longer than [`TYPE_TABLE_LEN_MAX`].
    pub fn encode(&self) -> Result<Vec<u8>, TypeTableError> {
        let mut bytes = vec![0; HEADER_LEN];
        self.types.iter().for_each(|ty| put_type(&mut bytes, ty));
        if bytes.len() > TYPE_TABLE_LEN_MAX {
            return malformed("it is at most 1 MiB long");
        }
        let header = TypeTableHeader {
            magic: MAGIC,
            older: encode_root(PoolOffset::NULL),
            crc: 0,
            version: VERSION,
            len: bytes.len() as u32,
            count: self.types.len() as u32,
            root: self.root.get(),
            reserved: 0,
        };
        bytes[..HEADER_LEN].copy_from_slice(header.as_bytes());
        let crc = crc_of(&bytes);
        bytes[offset_of!(TypeTableHeader, crc)..][..4].copy_from_slice(&crc.to_le_bytes());
        Ok(bytes)
    }

    /// Decodes stored bytes, which may be longer than the table.
    ///
    /// # Errors
    /// Fails with the first rule that the bytes break.
    pub fn decode(bytes: &[u8]) -> Result<TypeTable, TypeTableError> {
        let (header, _) = TypeTableHeader::read_from_prefix(bytes).map_err(|_| TypeTableError::Absent)?;
        if header.magic != MAGIC {
            return Err(TypeTableError::Absent);
        }
        let len = header.len as usize;
        if !(HEADER_LEN..=bytes.len().min(TYPE_TABLE_LEN_MAX)).contains(&len) {
            return malformed("its length is one that the object has");
        }
        let bytes = &bytes[..len];
        if header.crc != crc_of(bytes) {
            return Err(TypeTableError::Checksum);
        }
        if header.version != VERSION {
            return Err(TypeTableError::Version { version: header.version });
        }
        if header.reserved != 0 {
            return malformed("reserved bytes are zero");
        }
        let mut reader = Reader { rest: &bytes[HEADER_LEN..] };
        let count = reader.count(header.count, TYPE_LEN_MIN)?;
        let types = (0..count).map(|_| reader.pool_type()).collect::<Result<Vec<_>, _>>()?;
        if !reader.rest.is_empty() {
            return malformed("nothing follows the types");
        }
        TypeTable::new(types, TypeId::new(header.root))
    }

    /// Returns the flipped bit of stored bytes, counted from the first byte's lowest one, if they are those of a table of at most 16 KiB
    /// but for it: in a longer one, greater damage looks like a flipped bit too often.
    ///
    /// # Cost
    /// A checksum for each bit of the header, and a cycle or two for each bit of the rest.
    pub fn flipped_bit(bytes: &[u8]) -> Option<usize> {
        let bytes = &bytes[..bytes.len().min(FLIPPED_LEN_MAX)];
        let is_table_without = |bit: &usize| {
            let mut bytes = bytes.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            TypeTable::decode(&bytes).is_ok()
        };
        let (header, _) = TypeTableHeader::read_from_prefix(bytes).ok()?;
        if TypeTable::decode(bytes).is_ok() {
            return None;
        }
        let covered = bytes.get(CRC_END..header.len as usize);
        let in_covered = covered.and_then(|covered| flipped_bit_of(header.crc, covered));
        let in_covered = in_covered.map(|bit| CRC_END * 8 + bit);
        in_covered.into_iter().chain(0..HEADER_LEN * 8).find(is_table_without)
    }

    /// Checks the rules that concern several types.
    pub(super) fn check(&mut self) -> Result<(), TypeTableError> {
        let count = self.types.len();
        if self.root.index() >= count {
            return malformed("the root's type is one of the table");
        }
        if self.types.iter().any(|ty| parts(&ty.shape).any(|(id, _)| id.index() >= count)) {
            return malformed("a type consists of types of the table");
        }
        let mut nested = vec![Nested::default(); count];
        for id in (0..count as u32).map(TypeId::new) {
            self.nest(id, NESTED_MAX, &mut nested)?;
        }
        self.nested = nested;
        self.types.iter().try_for_each(|ty| self.check_type(ty))
    }

    /// Notes what lies in a type, which has at most `levels_max` levels.
    fn nest(&self, id: TypeId, levels_max: u32, known: &mut [Nested]) -> Result<Nested, TypeTableError> {
        let mut nested = known[id.index()];
        if levels_max == 0 || nested.levels > levels_max {
            return malformed("a type is not nested more than 64 deep, and does not lie in itself");
        }
        if nested.levels == 0 {
            (nested.is_value, nested.is_key) = (true, true);
            let within = parts(&self.get(id).shape).filter(|(_, lies_within)| *lies_within);
            for (part, _) in within {
                let inner = self.nest(part, levels_max - 1, known)?;
                nested.levels = nested.levels.max(inner.levels);
                nested.parts = nested.parts.saturating_add(inner.parts);
                nested.is_value &= inner.is_value;
                nested.is_key &= inner.is_key;
                // A cell is checked as what it holds is.
                nested.is_checked |= inner.is_checked;
            }
            nested.levels += 1;
            nested.parts = nested.parts.saturating_add(1);
            nested.is_value &= is_of_value(&self.get(id).shape);
            nested.is_key &= self.is_of_key(&self.get(id).shape);
            nested.is_checked |= is_checked(&self.get(id).shape);
            known[id.index()] = nested;
        }
        if nested.parts > PARTS_MAX {
            return malformed("a type has at most 65,536 parts");
        }
        Ok(nested)
    }

    fn check_type(&self, ty: &PoolType) -> Result<(), TypeTableError> {
        let size_of = |id: &TypeId| self.get(*id).size;
        let is_plain = |id: &TypeId| self.is_value_type(*id);
        let fit = |fields: &[TypeField]| {
            let end_of = |end: u64, field: &TypeField| {
                let field_end = field.offset.checked_add(size_of(&field.id));
                field_end.filter(|field_end| field.offset >= end && *field_end <= ty.size)
            };
            fields.iter().try_fold(0, end_of).is_some()
        };
        let is_right = match &ty.shape {
            Shape::Number(kind) => ty.size == kind.size(),
            Shape::Bool => ty.size == 1,
            Shape::Char => ty.size == 4,
            Shape::Struct { fields, .. } => fit(fields),
            Shape::Enum { variants, .. } => {
                let mut tags = [false; 256];
                let is_new = |tag: u8| !std::mem::replace(&mut tags[usize::from(tag)], true);
                ty.size >= 1
                    && variants.iter().all(|variant| fit(&variant.fields))
                    && variants.iter().map(|variant| variant.tag).all(is_new)
                    && variants.iter().flat_map(|variant| &variant.fields).all(|field| is_plain(&field.id))
            }
            Shape::Array { element, len } => size_of(element).checked_mul(*len) == Some(ty.size),
            Shape::Cell(value) => {
                size_of(value) <= ty.size && ty.size >= 8 && ty.size.is_multiple_of(8) && is_plain(value)
            }
            Shape::Mutex(guarded) => size_of(guarded) == ty.size,
            Shape::Box(_) => ty.size == 8,
            Shape::Vec { element, .. } => {
                ty.size == 16 && (is_plain(element) || matches!(self.get(*element).shape, Shape::Box(_)))
            }
            Shape::Deque { element, .. } => ty.size == 32 && is_plain(element),
            Shape::HashMap { key, value, .. } => ty.size == 32 && is_plain(key) && is_plain(value),
            Shape::String { .. } => ty.size == 16,
            Shape::Text | Shape::Bytes => ty.size == 0,
            Shape::Map { key, value, .. } => ty.size == 8 && self.is_key_type(*key) && is_plain(value),
        };
        if is_right { Ok(()) } else { malformed("each type has the size and the parts of its kind") }
    }
}

/// The types that lie in a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Nested {
    /// Levels of types, the type itself included; 0 while they are not known.
    levels: u32,
    /// Number of types in all levels, those of an array counted once.
    parts: u32,
    /// True if cells can hold it: it has no cells and no pointers.
    pub(super) is_value: bool,
    /// True if maps can have it as a key.
    pub(super) is_key: bool,
    /// True if some bytes are no value of a part of it.
    pub(super) is_checked: bool,
}

const fn is_of_value(shape: &Shape) -> bool {
    use Shape::{Array, Bool, Char, Enum, Number, Struct};
    matches!(shape, Number(_) | Bool | Char | Struct { .. } | Enum { .. } | Array { .. })
}

const fn is_checked(shape: &Shape) -> bool {
    matches!(shape, Shape::Bool | Shape::Char | Shape::Enum { .. })
}

/// Returns the types that a shape names, and whether they lie within it.
fn parts(shape: &Shape) -> impl Iterator<Item = (TypeId, bool)> {
    let (fields, variants, others): (&[TypeField], &[TypeVariant], _) = match shape {
        Shape::Number(_) | Shape::Bool | Shape::Char | Shape::String { .. } | Shape::Text | Shape::Bytes => {
            (&[], &[], [None; 2])
        }
        Shape::Struct { fields, .. } => (fields, &[], [None; 2]),
        Shape::Enum { variants, .. } => (&[], variants, [None; 2]),
        Shape::Array { element: within, .. } | Shape::Cell(within) | Shape::Mutex(within) => {
            (&[], &[], [Some((*within, true)), None])
        }
        Shape::Box(beyond) | Shape::Vec { element: beyond, .. } | Shape::Deque { element: beyond, .. } => {
            (&[], &[], [Some((*beyond, false)), None])
        }
        Shape::HashMap { key, value, .. } | Shape::Map { key, value, .. } => {
            (&[], &[], [*key, *value].map(|id| Some((id, false))))
        }
    };
    let of_variants = variants.iter().flat_map(|variant| &variant.fields);
    fields.iter().chain(of_variants).map(|field| (field.id, true)).chain(others.into_iter().flatten())
}

fn crc_of(bytes: &[u8]) -> u32 {
    crc32c::crc32c(&bytes[CRC_END..])
}

fn put_type(bytes: &mut Vec<u8>, PoolType { number, size, shape }: &PoolType) {
    let mut put = |kind: u8, parts: &[&[u8]]| {
        bytes.push(kind);
        bytes.extend(number.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        parts.iter().for_each(|part| bytes.extend(*part));
    };
    let id = |id: &TypeId| id.get().to_le_bytes();
    match shape {
        Shape::Number(kind) => put(*kind as u8, &[]),
        Shape::Bool => put(10, &[]),
        Shape::Char => put(11, &[]),
        Shape::Struct { name, fields } => {
            put(12, &[]);
            put_name(bytes, name);
            put_fields(bytes, fields);
        }
        Shape::Enum { name, variants } => {
            put(13, &[]);
            put_name(bytes, name);
            bytes.extend((variants.len() as u32).to_le_bytes());
            for TypeVariant { name, tag, fields } in variants {
                bytes.push(*tag);
                put_name(bytes, name);
                put_fields(bytes, fields);
            }
        }
        Shape::Array { element, len } => put(14, &[&id(element), &len.to_le_bytes()]),
        Shape::Cell(value) => put(15, &[&id(value)]),
        Shape::Mutex(guarded) => put(16, &[&id(guarded)]),
        Shape::Box(target) => put(17, &[&id(target)]),
        Shape::Vec { element, buffer } => put(18, &[&id(element), &buffer.to_le_bytes()]),
        Shape::Deque { element, buffer } => put(19, &[&id(element), &buffer.to_le_bytes()]),
        Shape::String { buffer } => put(20, &[&buffer.to_le_bytes()]),
        Shape::HashMap { key, value, buffer } => put(21, &[&id(key), &id(value), &buffer.to_le_bytes()]),
        Shape::Text => put(22, &[]),
        Shape::Bytes => put(23, &[]),
        Shape::Map { key, value, root } => put(24, &[&id(key), &id(value), &root.to_le_bytes()]),
    }
}

/// Puts a name, cut to [`NAME_LEN_MAX`] bytes.
fn put_name(bytes: &mut Vec<u8>, name: &str) {
    let end = (0..=name.len().min(NAME_LEN_MAX)).rev().find(|end| name.is_char_boundary(*end));
    let name = &name[..end.unwrap_or(0)];
    bytes.extend((name.len() as u16).to_le_bytes());
    bytes.extend(name.as_bytes());
}

fn put_fields(bytes: &mut Vec<u8>, fields: &[TypeField]) {
    bytes.extend((fields.len() as u32).to_le_bytes());
    for TypeField { name, offset, id } in fields {
        put_name(bytes, name);
        bytes.extend(id.get().to_le_bytes());
        bytes.extend(offset.to_le_bytes());
    }
}

/// Reads the types of a table.
struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], TypeTableError> {
        let Some((taken, rest)) = self.rest.split_first_chunk() else {
            return malformed("all types lie in the table");
        };
        self.rest = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, TypeTableError> {
        self.take().map(|[byte]| byte)
    }

    fn word(&mut self) -> Result<u64, TypeTableError> {
        self.take().map(u64::from_le_bytes)
    }

    fn id(&mut self) -> Result<TypeId, TypeTableError> {
        self.take().map(u32::from_le_bytes).map(TypeId::new)
    }

    /// Returns the number of parts, `count`, if so many of `len_min` bytes or more can follow.
    fn count(&self, count: u32, len_min: usize) -> Result<usize, TypeTableError> {
        let count = count as usize;
        if count > self.rest.len() / len_min { malformed("all types lie in the table") } else { Ok(count) }
    }

    fn name(&mut self) -> Result<String, TypeTableError> {
        let len = usize::from(self.take().map(u16::from_le_bytes)?);
        if len > NAME_LEN_MAX || len > self.rest.len() {
            return malformed("a name has at most 4096 bytes");
        }
        let (name, rest) = self.rest.split_at(len);
        self.rest = rest;
        str::from_utf8(name).map(str::to_owned).or_else(|_| malformed("a name is UTF-8"))
    }

    fn fields(&mut self) -> Result<Vec<TypeField>, TypeTableError> {
        // The shortest field has an empty name, its type, and its offset.
        let count = self.take().map(u32::from_le_bytes).and_then(|count| self.count(count, 14))?;
        let field = |_| {
            let (name, id) = (self.name()?, self.id()?);
            Ok(TypeField { name, offset: self.word()?, id })
        };
        (0..count).map(field).collect()
    }

    fn variants(&mut self) -> Result<Vec<TypeVariant>, TypeTableError> {
        // The shortest variant has its tag, an empty name, and no fields.
        let count = self.take().map(u32::from_le_bytes).and_then(|count| self.count(count, 7))?;
        let variant = |_| {
            let (tag, name) = (self.byte()?, self.name()?);
            Ok(TypeVariant { name, tag, fields: self.fields()? })
        };
        (0..count).map(variant).collect()
    }

    fn pool_type(&mut self) -> Result<PoolType, TypeTableError> {
        let (kind, number, size) = (self.byte()?, self.word()?, self.word()?);
        let shape = match kind {
            0..=9 => Shape::Number(NumberKind::ALL[usize::from(kind)]),
            10 => Shape::Bool,
            11 => Shape::Char,
            12 => Shape::Struct { name: self.name()?, fields: self.fields()? },
            13 => Shape::Enum { name: self.name()?, variants: self.variants()? },
            14 => Shape::Array { element: self.id()?, len: self.word()? },
            15 => Shape::Cell(self.id()?),
            16 => Shape::Mutex(self.id()?),
            17 => Shape::Box(self.id()?),
            18 => Shape::Vec { element: self.id()?, buffer: self.word()? },
            19 => Shape::Deque { element: self.id()?, buffer: self.word()? },
            20 => Shape::String { buffer: self.word()? },
            21 => Shape::HashMap { key: self.id()?, value: self.id()?, buffer: self.word()? },
            22 => Shape::Text,
            23 => Shape::Bytes,
            24 => Shape::Map { key: self.id()?, value: self.id()?, root: self.word()? },
            _ => return malformed("each type is of a kind that the format has"),
        };
        Ok(PoolType { number, size, shape })
    }
}
