//! The places of a typed pool, by their ways from the root.

use super::pointer::{TypedPointer, Wanted};
use super::tables::{AgedTable, AgedType, resolve};
use lode_layout::{PoolOffset, Shape, TypeId};
use std::fmt::Write;

/// Steps of a path that its text has, the last ones.
const STEPS_MAX: usize = 48;

/// The pointer by which an object is reached.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// The step to the object with the pointer. The first step of a way is its own.
    pub(super) parent: usize,
    /// The type of that object.
    pub(super) ty: AgedType,
    /// The offset of the pointer in it, in bytes.
    pub(super) offset: u64,
    /// The index of the pointer in the vector at that offset.
    pub(super) index: Option<u64>,
    /// Number of equal steps, one after the other, for which this one stands; 0 for the first step of a way.
    pub(super) repeated: u64,
}

/// The place of something in a typed pool.
#[derive(Debug)]
pub struct TypedPlace<'a> {
    pub(super) tables: &'a [AgedTable],
    pub(super) steps: &'a [Step],
    /// The last step to the object.
    pub(super) step: usize,
    /// The type of the object, and an offset in it in bytes; none for the object itself.
    pub(super) within: Option<(AgedType, u64)>,
    /// The index in the vector or queue at that offset.
    pub(super) index: Option<u64>,
    /// The key in the map at that offset.
    pub(super) key: Option<PlaceKey<'a>>,
    pub(super) at: PoolOffset,
    /// The pointer that leads here; none for a value.
    pub(super) pointer: Option<TypedPointer>,
}

/// The type and the bytes of a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum PlaceKey<'a> {
    /// Of a sorted map.
    Sorted(TypeId, &'a [u8]),
    /// Of a hash map.
    Hashed(TypeId, &'a [u8]),
}

impl TypedPlace<'_> {
    /// Returns the offset in the pool.
    pub fn at(&self) -> PoolOffset {
        self.at
    }

    /// Returns the pointer that leads to the object; `None` for a value in one, and for a node or leaf of a map.
    pub fn pointer(&self) -> Option<TypedPointer> {
        self.pointer
    }

    /// Returns true if the object can be one of so many bytes with this type number.
    pub fn accepts(&self, size: u64, number: u64) -> bool {
        match self.pointer.map(|pointer| pointer.wanted) {
            Some(Wanted::Object(wanted)) => resolve(self.tables, wanted, size, number).is_some(),
            Some(Wanted::Buffer(_, wanted) | Wanted::Map(_, wanted)) => number == wanted,
            None => false,
        }
    }

    /// Returns true if an object of its type can own one with this type number.
    pub fn leads_to(&self, number: u64) -> bool {
        match self.pointer.map(|pointer| pointer.wanted) {
            Some(Wanted::Object(ty)) => self.tables[ty.age].table.leads_to(ty.id, number),
            _ => false,
        }
    }

    /// Returns the number of pointers in an object of its type that lead to objects of the same type, as in a list.
    pub fn pointers_to_same_type(&self) -> u64 {
        match self.pointer.map(|pointer| pointer.wanted) {
            Some(Wanted::Object(ty)) => self.tables[ty.age].table.boxes_of(ty.id, ty.id),
            _ => 0,
        }
    }

    /// Returns true if an entry with these bytes can be one of the map.
    pub fn has_room_for(&self, key: &[u8], value: &[u8]) -> bool {
        let Some(Wanted::Map(ty, _)) = self.pointer.map(|pointer| pointer.wanted) else { return false };
        let table = &self.tables[ty.age].table;
        match table.get(ty.id).shape {
            Shape::Map { key: key_id, value: value_id, .. } => {
                let is_long_enough = value.len() as u64 == table.get(value_id).size;
                is_long_enough && table.key_text(key_id, key).is_some() && table.is_value(value_id, value)
            }
            _ => false,
        }
    }

    /// Returns the name of the type of the object, or of the vector, queue, text or map that owns it.
    pub fn type_name(&self) -> String {
        let ty = self.pointer.map(|pointer| pointer.wanted.ty());
        ty.map_or(String::new(), |ty| self.tables[ty.age].table.name(ty.id))
    }

    /// Returns the way from the root, as `Shop.items[17].name`. A pointer that is followed many times, as in a list, is
    /// named once, with their number: `Shop.first.next{16}.name`. Of a long way, the text has the last steps.
    pub fn path(&self) -> String {
        let mut steps = Vec::new();
        let mut step = self.step;
        while self.steps[step].parent != step && steps.len() < STEPS_MAX {
            steps.push(self.steps[step]);
            step = self.steps[step].parent;
        }
        let table = |ty: AgedType| &self.tables[ty.age].table;
        let Step { parent, ty, .. } = self.steps[step];
        let mut path = table(ty).name(table(ty).declared(ty.id));
        if parent != step {
            path = "...".to_owned();
        }
        for Step { ty, offset, index, repeated, .. } in steps.into_iter().rev() {
            path += &table(ty).step(ty.id, offset);
            path += &index_text(index);
            if repeated > 1 {
                let _ = write!(path, "{{{repeated}}}");
            }
        }
        let Some((ty, offset)) = self.within else { return path };
        path += &table(ty).step(ty.id, offset);
        path += &index_text(self.index);
        let key = self.key.map(|key| {
            let (text, key) = match key {
                PlaceKey::Sorted(id, key) => (table(ty).key_text(id, key), key),
                PlaceKey::Hashed(id, key) => (table(ty).value_text(id, key), key),
            };
            format!("[{}]", text.unwrap_or_else(|| format!("b\"{}\"", key.escape_ascii())))
        });
        path + &key.unwrap_or_default()
    }
}

fn index_text(index: Option<u64>) -> String {
    index.map_or(String::new(), |index| format!("[{index}]"))
}

/// Returns the place to which a pointer leads.
pub(super) fn place<'a>(tables: &'a [AgedTable], steps: &'a [Step], pointer: TypedPointer) -> TypedPlace<'a> {
    let TypedPointer { at, step, within, element, .. } = pointer;
    let index = within.and(element).map(|element| element.index);
    TypedPlace { tables, steps, step, within, index, key: None, at, pointer: Some(pointer) }
}
