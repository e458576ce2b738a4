//! The table of the types that a typed pool holds.
#![doc = include_str!("../type_table_header.md")]

mod builder;
mod codec;
mod difference;
mod keys;
mod shape;
mod values;

pub use builder::TypeTableBuilder;
use codec::Nested;
pub use codec::{TYPE_TABLE_LEN_MAX, TypeTableError};
pub use difference::{ProgramTypes, TypeComparison, TypeDifference, TypeRow};
pub use shape::{NumberKind, PoolType, Shape, TypeField, TypeId, TypeVariant};

use std::fmt::Write;

/// Type number of the object that holds the table.
pub const TYPE_TYPE_TABLE: u64 = u64::from_le_bytes(*b"LdTypes\0");

/// Levels of types in types that a table may have.
const NESTED_MAX: u32 = 64;

/// Longest name that is made of others, in bytes.
const NAME_LEN_MAX: usize = 4096;

/// The types that a typed pool holds: that of its root, and all those to which it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeTable {
    types: Vec<PoolType>,
    root: TypeId,
    /// The types in each type.
    nested: Vec<Nested>,
}

impl TypeTable {
    /// Makes the table of `types`, of which `root` is that of the root.
    ///
    /// # Errors
    /// [`TypeTableError::Malformed`] when they break a rule of the format.
    pub fn new(types: Vec<PoolType>, root: TypeId) -> Result<TypeTable, TypeTableError> {
        let mut table = TypeTable { types, root, nested: Vec::new() };
        table.check()?;
        Ok(table)
    }

    /// Returns the type of the root.
    pub fn root(&self) -> TypeId {
        self.root
    }

    /// Returns the struct, or other type, that the root is, also if a mutex guards it.
    pub fn root_declared(&self) -> TypeId {
        self.declared(self.root)
    }

    /// Returns the struct, or other type, that a type is, also if a mutex guards it.
    pub fn declared(&self, id: TypeId) -> TypeId {
        let mut id = id;
        while let Shape::Mutex(guarded) = self.get(id).shape {
            id = guarded;
        }
        id
    }

    /// Returns all types.
    pub fn types(&self) -> impl Iterator<Item = (TypeId, &PoolType)> {
        (0..).map(TypeId::new).zip(&self.types)
    }

    /// Returns a type.
    ///
    /// # Panics
    /// Panics if it is one of another table.
    pub fn get(&self, id: TypeId) -> &PoolType {
        &self.types[id.index()]
    }

    /// Returns the name of a type as a program writes it, without its brand.
    pub fn name(&self, id: TypeId) -> String {
        name_of(&self.types, id)
    }

    /// Returns true if a type has pointers that lead to objects, buffers or maps with this type number.
    pub fn leads_to(&self, id: TypeId, number: u64) -> bool {
        match &self.get(id).shape {
            Shape::Box(target) => self.get(*target).number == number,
            Shape::Struct { fields, .. } => fields.iter().any(|field| self.leads_to(field.id, number)),
            Shape::Array { element, len } => *len > 0 && self.leads_to(*element, number),
            Shape::Mutex(guarded) => self.leads_to(*guarded, number),
            Shape::Vec { element, buffer } => {
                let is_box = matches!(self.get(*element).shape, Shape::Box(_));
                *buffer == number || is_box && self.leads_to(*element, number)
            }
            Shape::Deque { buffer, .. } | Shape::String { buffer } | Shape::HashMap { buffer, .. } => {
                *buffer == number
            }
            Shape::Map { root, .. } => *root == number,
            _ => false,
        }
    }

    /// Returns the number of boxes in a type that lead to the type `target`. A vector of such boxes counts as any number.
    pub fn boxes_of(&self, id: TypeId, target: TypeId) -> u64 {
        match &self.get(id).shape {
            Shape::Box(found) => u64::from(*found == target),
            Shape::Struct { fields, .. } => {
                let boxes = fields.iter().map(|field| self.boxes_of(field.id, target));
                boxes.fold(0, u64::saturating_add)
            }
            Shape::Array { element, len } => self.boxes_of(*element, target).saturating_mul(*len),
            Shape::Mutex(guarded) => self.boxes_of(*guarded, target),
            Shape::Vec { element, .. } => match self.get(*element).shape {
                Shape::Box(found) if found == target => u64::MAX,
                _ => 0,
            },
            _ => 0,
        }
    }

    /// Returns the way from a type to the cell, pointer or value that lies at an offset in it, as `.items[3].price`.
    pub fn step(&self, id: TypeId, offset: u64) -> String {
        let (mut path, mut id, mut offset) = (String::new(), id, offset);
        loop {
            match &self.get(id).shape {
                Shape::Struct { fields, .. } => {
                    let at_offset = |field: &&TypeField| {
                        let end = field.offset + self.get(field.id).size;
                        (field.offset..end).contains(&offset)
                    };
                    let Some(field) = fields.iter().find(at_offset) else { return path };
                    let _ = write!(path, ".{}", field.name);
                    (id, offset) = (field.id, offset - field.offset);
                }
                Shape::Array { element, .. } if !self.is_value_type(*element) => {
                    let size = self.get(*element).size.max(1);
                    let _ = write!(path, "[{}]", offset / size);
                    (id, offset) = (*element, offset % size);
                }
                Shape::Mutex(guarded) => id = *guarded,
                _ => return path,
            }
        }
    }
}

/// Returns the name of a type among `types`. A name that is longer than [`NAME_LEN_MAX`] bytes is cut.
pub(super) fn name_of(types: &[PoolType], id: TypeId) -> String {
    /// A part that is still to be written.
    enum Part {
        Type(TypeId),
        Text(String),
    }
    let (mut name, mut open) = (String::new(), vec![Part::Type(id)]);
    while let Some(part) = open.pop() {
        let id = match part {
            Part::Text(text) => {
                name += &text;
                continue;
            }
            Part::Type(id) => id,
        };
        if name.len() > NAME_LEN_MAX {
            name += "...";
            break;
        }
        let mut of = |before: &str, inner: TypeId, after: String| {
            name += before;
            open.extend([Part::Text(after), Part::Type(inner)]);
        };
        match &types[id.index()].shape {
            Shape::Number(kind) => name += kind.name(),
            Shape::Bool => name += "bool",
            Shape::Char => name += "char",
            Shape::Struct { name: declared, .. } | Shape::Enum { name: declared, .. } => name += declared,
            Shape::Array { element, len } => of("[", *element, format!("; {len}]")),
            Shape::Cell(value) => of("PCell<", *value, ">".into()),
            Shape::Mutex(guarded) => of("PMutex<", *guarded, ">".into()),
            Shape::Box(target) => of("PBox<", *target, ">".into()),
            Shape::Vec { element, .. } => of("PVec<", *element, ">".into()),
            Shape::Deque { element, .. } => of("PDeque<", *element, ">".into()),
            Shape::String { .. } => name += "PString",
            Shape::Text => name += "String",
            Shape::Bytes => name += "Vec<u8>",
            shape @ (Shape::Map { key, value, .. } | Shape::HashMap { key, value, .. }) => {
                name += if let Shape::Map { .. } = shape { "PMap<" } else { "PHashMap<" };
                let text = |text: &str| Part::Text(text.to_owned());
                open.extend([text(">"), Part::Type(*value), text(", "), Part::Type(*key)]);
            }
        }
    }
    name
}
