//! The description of types, for the type table of a pool.

pub use lode_layout::TypeId;
use lode_layout::{
    NumberKind, PoolType, ProgramTypes, Shape, TypeField, TypeTableBuilder, TypeTableError, TypeVariant,
};
use std::any;
use std::collections::HashMap;

/// Adds a type, and all to which it leads, to the types of a pool.
pub type Describe = fn(&mut Types) -> TypeId;

/// The types of a pool, as a program declares them. For [`Persist::describe`](crate::Persist::describe).
#[derive(Debug, Default)]
pub struct Types {
    table: TypeTableBuilder,
    /// The declared types, by what they are to the compiler; true for those that are values of cells.
    declared: HashMap<(any::TypeId, bool), TypeId>,
    /// The types as they were before they changed, if that is wanted.
    older: Option<HashMap<TypeId, TypeId>>,
}

/// The declaration of a struct or an enum.
#[derive(Debug)]
pub struct Declaration<'a> {
    /// Its name, without parameters.
    pub name: &'a str,
    /// Its parameters, but for its brand.
    pub parameters: &'a [Parameter],
    /// Its number on the medium.
    pub number: u64,
    /// Its size in bytes.
    pub size: usize,
    /// The type that it was before it changed.
    pub was: Option<Describe>,
}

/// A parameter of a declared type.
#[derive(Debug)]
pub enum Parameter {
    /// A type.
    Type(Describe),
    /// A constant.
    Value(u64),
}

/// A field of a persistent struct.
#[derive(Debug)]
pub struct Part<'a> {
    /// Its name.
    pub name: &'a str,
    /// Bytes from the start of the struct.
    pub offset: usize,
    /// Its type.
    pub describe: Describe,
}

/// A variant of an enum.
#[derive(Debug)]
pub struct Variant<'a> {
    /// Its name.
    pub name: &'a str,
    /// The byte that names it.
    pub tag: u8,
    /// The name and the type of each field.
    pub fields: &'a [(&'a str, Describe)],
}

impl Types {
    /// Returns no types, to which those are added that types were before.
    pub(crate) fn with_older() -> Types {
        Types { older: Some(HashMap::new()), ..Types::default() }
    }

    /// Adds a type that is no struct and no enum.
    pub fn add(&mut self, number: u64, size: usize, shape: Shape) -> TypeId {
        self.table.add(PoolType { number, size: size as u64, shape })
    }

    pub(crate) fn number(&mut self, number: u64, kind: NumberKind) -> TypeId {
        self.add(number, kind.size() as usize, Shape::Number(kind))
    }

    /// Returns the size of a type in bytes.
    pub fn size(&self, id: TypeId) -> usize {
        self.table.size(id) as usize
    }

    /// Adds a tuple, whose values lie one directly after the other.
    pub fn tuple(&mut self, number: u64, size: usize, values: &[Describe]) -> TypeId {
        let ids: Vec<TypeId> = values.iter().map(|describe| describe(self)).collect();
        let names: Vec<String> = ids.iter().map(|id| self.table.name(*id)).collect();
        let name =
            if ids.len() == 1 { format!("({},)", names[0]) } else { format!("({})", names.join(", ")) };
        let indexes: Vec<String> = (0..ids.len()).map(|index| index.to_string()).collect();
        let fields = self.packed(0, indexes.iter().map(String::as_str).zip(ids));
        self.add(number, size, Shape::Struct { name, fields })
    }

    /// Returns the fields that lie one directly after the other, from the offset `start` on.
    fn packed<'f>(&self, start: u64, fields: impl Iterator<Item = (&'f str, TypeId)>) -> Vec<TypeField> {
        let mut end = start;
        let field = |(name, id): (&str, TypeId)| {
            let offset = end;
            end += self.table.size(id);
            TypeField { name: name.to_owned(), offset, id }
        };
        fields.map(field).collect()
    }

    /// Adds the persistent struct `T`.
    pub fn structure<T: 'static>(&mut self, declaration: &Declaration<'_>, parts: &[Part<'_>]) -> TypeId {
        self.declare::<T>(false, declaration, |types, name| {
            let field = |part: &Part<'_>| TypeField {
                name: part.name.to_owned(),
                offset: part.offset as u64,
                id: (part.describe)(types),
            };
            let mut fields: Vec<TypeField> = parts.iter().map(field).collect();
            fields.sort_by_key(|field| field.offset);
            Shape::Struct { name, fields }
        })
    }

    /// Adds the struct `T`, whose values cells hold: its fields lie one directly after the other.
    pub fn value_structure<T: 'static>(
        &mut self,
        declaration: &Declaration<'_>,
        fields: &[(&str, Describe)],
    ) -> TypeId {
        self.declare::<T>(true, declaration, |types, name| Shape::Struct {
            name,
            fields: types.packed_fields(0, fields),
        })
    }

    /// Adds the enum `T`: a tag, and the fields of a variant one directly after the other.
    pub fn enumeration<T: 'static>(
        &mut self,
        declaration: &Declaration<'_>,
        variants: &[Variant<'_>],
    ) -> TypeId {
        self.declare::<T>(true, declaration, |types, name| {
            let of = |variant: &Variant<'_>| TypeVariant {
                name: variant.name.to_owned(),
                tag: variant.tag,
                fields: types.packed_fields(1, variant.fields),
            };
            Shape::Enum { name, variants: variants.iter().map(of).collect() }
        })
    }

    fn packed_fields(&mut self, start: u64, fields: &[(&str, Describe)]) -> Vec<TypeField> {
        let ids: Vec<TypeId> = fields.iter().map(|(_, describe)| describe(self)).collect();
        self.packed(start, fields.iter().map(|(name, _)| *name).zip(ids))
    }

    /// Adds a declared type, once. It may lead to itself, so it is known by its name before `shape` describes it.
    fn declare<T: 'static>(
        &mut self,
        is_value: bool,
        declaration: &Declaration<'_>,
        shape: impl FnOnce(&mut Types, String) -> Shape,
    ) -> TypeId {
        let key = (any::TypeId::of::<T>(), is_value);
        if let Some(id) = self.declared.get(&key) {
            return *id;
        }
        let name = self.name_of(declaration);
        // A parameter may have led here.
        if let Some(id) = self.declared.get(&key) {
            return *id;
        }
        let id = self.table.reserve(name.clone());
        self.declared.insert(key, id);
        let shape = shape(self, name);
        let ty = PoolType { number: declaration.number, size: declaration.size as u64, shape };
        self.table.fill(id, ty);
        if self.older.is_some()
            && let Some(was) = declaration.was
        {
            let was = was(self);
            self.older.get_or_insert_default().insert(id, was);
        }
        id
    }

    fn name_of(&mut self, declaration: &Declaration<'_>) -> String {
        let parameter = |parameter: &Parameter| match parameter {
            Parameter::Type(describe) => {
                let id = describe(self);
                self.table.name(id)
            }
            Parameter::Value(value) => value.to_string(),
        };
        let parameters: Vec<String> = declaration.parameters.iter().map(parameter).collect();
        let name = declaration.name;
        if parameters.is_empty() { name.to_owned() } else { format!("{name}<{}>", parameters.join(", ")) }
    }

    /// Returns all types; that of the root is `root`.
    pub(crate) fn finish(self, root: TypeId) -> Result<ProgramTypes, TypeTableError> {
        Ok(ProgramTypes { table: self.table.finish(root)?, older: self.older.unwrap_or_default() })
    }
}
