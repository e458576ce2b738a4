//! Making a type table, type after type.

use super::shape::{PoolType, Shape, TypeId};
use super::{TypeTable, TypeTableError, name_of};
use std::collections::HashMap;

/// A type table that is being made. A type is in it once.
#[derive(Debug, Default)]
pub struct TypeTableBuilder {
    types: Vec<PoolType>,
    ids: HashMap<PoolType, TypeId>,
}

impl TypeTableBuilder {
    /// Adds a type, whose parts are there already, and returns its index.
    pub fn add(&mut self, ty: PoolType) -> TypeId {
        if let Some(id) = self.ids.get(&ty) {
            return *id;
        }
        let id = self.push(ty.clone());
        self.ids.insert(ty, id);
        id
    }

    /// Adds a type of which only the name is known, since it leads to itself. [`fill`](TypeTableBuilder::fill) follows.
    pub fn reserve(&mut self, name: String) -> TypeId {
        self.push(PoolType { number: 0, size: 0, shape: Shape::Struct { name, fields: Vec::new() } })
    }

    fn push(&mut self, ty: PoolType) -> TypeId {
        let id = TypeId::new(self.types.len() as u32);
        self.types.push(ty);
        id
    }

    /// Gives the reserved index `id` its type.
    pub fn fill(&mut self, id: TypeId, ty: PoolType) {
        self.types[id.index()] = ty;
    }

    /// Returns the name of a type, which may be reserved.
    pub fn name(&self, id: TypeId) -> String {
        name_of(&self.types, id)
    }

    /// Returns the size of a type in bytes.
    pub fn size(&self, id: TypeId) -> u64 {
        self.types[id.index()].size
    }

    /// Returns the table, whose root's type is `root`.
    ///
    /// # Errors
    /// As [`TypeTable::new`].
    pub fn finish(self, root: TypeId) -> Result<TypeTable, TypeTableError> {
        TypeTable::new(self.types, root)
    }
}
