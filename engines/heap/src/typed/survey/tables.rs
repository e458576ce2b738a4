//! The type tables of a pool: one, or, while a migration is not finished, those of older programs, too.

use lode_layout::{Shape, TypeId, TypeTable};
use std::collections::HashMap;

/// One of the type tables of a pool.
#[derive(Debug)]
pub(super) struct AgedTable {
    pub(super) table: TypeTable,
    /// The types of which objects are, by their numbers.
    pub(super) objects: HashMap<u64, TypeId>,
}

impl AgedTable {
    pub(super) fn new(table: TypeTable) -> AgedTable {
        let boxed = table.types().filter_map(|(_, ty)| match ty.shape {
            Shape::Box(target) => Some(target),
            _ => None,
        });
        let ids = boxed.chain([table.root()]);
        let objects = ids.map(|id| (table.get(id).number, id)).collect();
        AgedTable { table, objects }
    }
}

/// A type of one of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct AgedType {
    /// The number of newer tables.
    pub(super) age: usize,
    pub(super) id: TypeId,
}

/// Returns the type of an object of so many bytes with this type number, where one of the type `wanted` should be: that type, or, while
/// a migration is not finished, the one of that name in another table. The root may have had another name.
pub(super) fn resolve(tables: &[AgedTable], wanted: AgedType, size: u64, number: u64) -> Option<AgedType> {
    let fits = |ty: &AgedType| {
        let ty = tables[ty.age].table.get(ty.id);
        ty.number == number && ty.size <= size
    };
    if fits(&wanted) || tables.len() == 1 {
        return Some(wanted).filter(fits);
    }
    let of_wanted = &tables[wanted.age].table;
    let is_same = |ty: &AgedType| {
        let of_found = &tables[ty.age].table;
        let are_roots = wanted.id == of_wanted.root() && ty.id == of_found.root();
        are_roots || of_found.name(ty.id) == of_wanted.name(wanted.id)
    };
    let of_table = |(age, aged): (usize, &AgedTable)| Some(AgedType { age, id: *aged.objects.get(&number)? });
    tables.iter().enumerate().filter_map(of_table).find(|ty| fits(ty) && is_same(ty))
}
