//! The walk over one object.

use super::place::{PlaceKey, Step, TypedPlace, place};
use super::pointer::{TypedElement, TypedPointer, Wanted};
use super::tables::{AgedTable, AgedType, resolve};
use super::visitor::{MapPart, TypedDamage, TypedVisitor, VisitMap};
use crate::heap::Heap;
use crate::typed::deque::State;
use crate::typed::hash_table::{SlotForm, Table, hash_in};
use crate::walk::Object;
use lode_layout::{PoolOffset, Shape, TypeId, TypeTable, WORD};
use lode_pmem::{Medium, Readable};

/// A pointer to an object of a type of its own.
pub(super) struct Pointer {
    /// Its offset in the object that is visited, or that of the vector in which it lies, in bytes.
    pub(super) offset: u64,
    /// Its index in that vector.
    pub(super) index: Option<u64>,
    /// Offset of its word in the pool.
    pub(super) word: PoolOffset,
    /// Its target.
    pub(super) at: PoolOffset,
    /// The type of the target.
    pub(super) target: TypeId,
}

/// An object that is visited.
pub(super) struct Entered<'a, M: Medium, V> {
    pub(super) heap: &'a Heap<M>,
    pub(super) tables: &'a [AgedTable],
    pub(super) steps: &'a [Step],
    /// The pointer that leads to it.
    pub(super) pointer: TypedPointer,
    /// Its type.
    pub(super) ty: AgedType,
    pub(super) maps: Option<VisitMap<M>>,
    pub(super) visitor: &'a mut V,
    pub(super) bytes: Vec<u8>,
    pub(super) pointers: Vec<Pointer>,
}

impl<'a, M: Medium, V: TypedVisitor> Entered<'a, M, V> {
    /// Visits the object, which is of the type `wanted`, or, while a migration is not finished, of one of another table.
    pub(super) fn enter(&mut self, wanted: AgedType) {
        let at = self.pointer.at;
        let place = || place(self.tables, self.steps, self.pointer);
        if !self.visitor.object(&place()) {
            return;
        }
        let ty = self.object(at).and_then(|object| {
            resolve(self.tables, wanted, object.size, object.type_number).ok_or(TypedDamage::OtherType)
        });
        let read = ty.and_then(|ty| Ok((ty, self.read(at, self.tables[ty.age].table.get(ty.id).size)?)));
        match read {
            Ok((ty, bytes)) => (self.ty, self.bytes) = (ty, bytes),
            Err(damage) => return self.visitor.damage(&place(), damage),
        }
        self.visit(self.ty.id, 0);
    }

    fn table(&self) -> &'a TypeTable {
        &self.tables[self.ty.age].table
    }

    /// Returns the object at `at`.
    fn object(&self, at: PoolOffset) -> Result<Object, TypedDamage> {
        match self.heap.object_or_block(at) {
            Ok((object, is_allocated)) if is_allocated == Some(true) || self.visitor.visits_blocks() => {
                Ok(object)
            }
            _ => Err(TypedDamage::NoObject),
        }
    }

    /// Returns the size of the buffer at `at`, if it has this type number.
    fn buffer_size(&self, at: PoolOffset, number: u64) -> Result<u64, TypedDamage> {
        let object = self.object(at)?;
        if object.type_number == number { Ok(object.size) } else { Err(TypedDamage::OtherType) }
    }

    /// Returns so many bytes from `at` on, which lie in an object.
    fn read(&self, at: PoolOffset, len: u64) -> Result<Vec<u8>, TypedDamage> {
        let mut bytes = vec![0; len as usize];
        let read = self.heap.memory().reading(|memory: &Readable| memory.read(at, &mut bytes));
        read.map(|()| bytes).map_err(|_| TypedDamage::Unreadable)
    }

    /// Returns the place of a value at an offset in the object, which lies at `at`.
    fn place(&self, offset: u64, at: PoolOffset) -> TypedPlace<'a> {
        let within = Some((self.ty, offset));
        let (tables, steps, step) = (self.tables, self.steps, self.pointer.step);
        TypedPlace { tables, steps, step, within, index: None, key: None, at, pointer: None }
    }

    /// Visits what lies in the object at `offset`, which is of the type `id`.
    fn visit(&mut self, id: TypeId, offset: u64) {
        let table = self.table();
        match &table.get(id).shape {
            Shape::Number(_) | Shape::Bool | Shape::Char | Shape::Enum { .. } => self.visit_value(id, offset),
            Shape::Cell(value) => self.visit_value(*value, offset),
            Shape::Struct { fields, .. } => {
                fields.iter().for_each(|field| self.visit(field.id, offset + field.offset));
            }
            Shape::Array { element, .. } if table.is_value_type(*element) => self.visit_value(id, offset),
            Shape::Array { .. } if table.get(id).size == 0 => {}
            Shape::Array { element, len } => {
                let size = table.get(*element).size;
                (0..*len).for_each(|index| self.visit(*element, offset + index * size));
            }
            Shape::Mutex(guarded) => self.visit(*guarded, offset),
            Shape::Box(target) => {
                let at = self.target(offset);
                if !at.is_null() {
                    let word = self.pointer.at.plus(offset);
                    self.pointers.push(Pointer { offset, index: None, word, at, target: *target });
                }
            }
            Shape::Vec { element, buffer } => {
                let len = self.word(offset + WORD);
                let state = State { buffer: self.target(offset), room: len, first: 0, len };
                self.visit_elements(id, offset, *element, *buffer, &state);
            }
            Shape::Deque { element, buffer } => {
                let state = State::read(|word| self.word_or_target(offset, word));
                self.visit_elements(id, offset, *element, *buffer, &state);
            }
            Shape::String { buffer } => self.visit_text(id, offset, *buffer),
            Shape::HashMap { key, value, buffer } => {
                let map = Table::read(|word| self.word_or_target(offset, word));
                self.visit_entries(id, offset, [*key, *value], *buffer, map);
            }
            Shape::Map { key, value, root } => self.visit_map(id, offset, [*key, *value], *root),
            // A key is not where its map is.
            Shape::Text | Shape::Bytes => {}
        }
    }

    /// Returns the offset to which the word at `offset` leads.
    fn target(&self, offset: u64) -> PoolOffset {
        let stored = PoolOffset::new(self.word(offset));
        match stored.is_null() {
            true => stored,
            false => self.visitor.target(self.pointer.at.plus(offset), stored),
        }
    }

    /// Returns a word of the container at `offset`, whose first word leads to its buffer.
    fn word_or_target(&self, offset: u64, word: u64) -> u64 {
        match word {
            0 => self.target(offset).get(),
            _ => self.word(offset + word * WORD),
        }
    }

    /// Returns a word of the object, whose type has it.
    fn word(&self, offset: u64) -> u64 {
        let word = self.bytes.get(offset as usize..).and_then(|rest| rest.first_chunk());
        word.map_or(0, |word| u64::from_le_bytes(*word))
    }

    fn visit_value(&mut self, id: TypeId, offset: u64) {
        let place = self.place(offset, self.pointer.at.plus(offset));
        let bytes = self.bytes.get(offset as usize..).unwrap_or_default();
        show(self.visitor, self.table(), &place, id, bytes);
    }

    /// Returns the pointer from what lies at an offset to what that owns alone.
    fn pointer_to(&self, offset: u64, at: PoolOffset, wanted: Wanted) -> TypedPointer {
        let (word, within) = (self.pointer.at.plus(offset), Some((self.ty, offset)));
        TypedPointer { word, at, step: self.pointer.step, within, element: None, wanted }
    }

    /// Visits the buffer of the vector, queue, text or hash map of the type `id` at an offset. Returns the bytes of all `room` elements
    /// of `size` bytes.
    fn buffer(
        &mut self,
        (id, offset): (TypeId, u64),
        number: u64,
        at: PoolOffset,
        room: u64,
        size: u64,
    ) -> Option<Vec<u8>> {
        let pointer = self.pointer_to(offset, at, Wanted::Buffer(AgedType { id, ..self.ty }, number));
        let place = place(self.tables, self.steps, pointer);
        if at.is_null() || !self.visitor.object(&place) {
            return None;
        }
        let bytes = self.buffer_size(at, number).and_then(|found| {
            // Elements without bytes take one in the buffer.
            let taken = room.checked_mul(size.max(1)).filter(|taken| *taken <= found);
            self.read(at, taken.ok_or(TypedDamage::TooLong)?)
        });
        bytes.map_err(|damage| self.visitor.damage(&place, damage)).ok()
    }

    fn visit_elements(&mut self, own: TypeId, offset: u64, id: TypeId, number: u64, state: &State) {
        let State { buffer: at, room, first, len } = *state;
        let table = self.table();
        let size = table.get(id).size;
        let Some(bytes) = self.buffer((own, offset), number, at, room, size) else { return };
        let is_sound = len == 0 || (len <= room && first < room);
        if !is_sound {
            return self.visitor.damage(&self.place(offset, at), TypedDamage::TooLong);
        }
        for index in 0..len {
            let begin = (first + index) % room * size;
            let (word, bytes) = (at.plus(begin), &bytes[begin as usize..]);
            if let Shape::Box(target) = table.get(id).shape {
                self.visit_element(offset, index, word, bytes, target);
            } else {
                let place = TypedPlace { index: Some(index), ..self.place(offset, word) };
                show(self.visitor, table, &place, id, bytes);
            }
        }
    }

    /// Visits the element of the vector at `offset` that owns an object, and never none. Its word is at `word`.
    fn visit_element(&mut self, offset: u64, index: u64, word: PoolOffset, bytes: &[u8], target: TypeId) {
        let stored = bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let at = self.visitor.target(word, PoolOffset::new(stored));
        if !at.is_null() {
            return self.pointers.push(Pointer { offset, index: Some(index), word, at, target });
        }
        let element = Some(TypedElement { vector: self.pointer.at.plus(offset), index });
        let wanted = Wanted::Object(AgedType { id: target, ..self.ty });
        let pointer = TypedPointer { word, element, ..self.pointer_to(offset, at, wanted) };
        self.visitor.damage(&place(self.tables, self.steps, pointer), TypedDamage::NoObject);
    }

    /// Visits the entries of the hash map of the type `own` at `offset`, with keys and values of these types.
    fn visit_entries(&mut self, own: TypeId, offset: u64, ids: [TypeId; 2], number: u64, map: Table) {
        let (table, pool_len) = (self.table(), self.heap.memory().len());
        let [key, value] = ids.map(|id| table.get(id).size);
        let whole = self.place(offset, map.buffer);
        let Some(form) = SlotForm::bounded(key, value, number, pool_len) else {
            return self.visitor.damage(&whole, TypedDamage::TooLong);
        };
        let buffer = self.buffer((own, offset), number, map.buffer, map.room, form.size());
        let Some(bytes) = buffer else { return };
        let used = bytes.chunks_exact(form.size() as usize).zip(0..).filter(|(slot, _)| hash_in(slot) != 0);
        let used: Vec<(&[u8], u64)> = used.collect();
        if used.len() as u64 != map.len || map.check(form, pool_len).is_err() {
            return self.visitor.damage(&whole, TypedDamage::OtherCount);
        }
        for (slot, index) in used {
            let key = &slot[form.key()];
            let place = self.place(offset, map.slot(form, index));
            let place = TypedPlace { key: Some(PlaceKey::Hashed(ids[0], key)), ..place };
            if !table.is_value(ids[0], key) || !map.is_found(form, &bytes, index) {
                self.visitor.damage(&place, TypedDamage::NoKey);
            } else {
                show(self.visitor, table, &place, ids[1], &slot[form.value()]);
            }
        }
    }

    /// Visits the map of the type `own` at `offset`, with keys and values of these types.
    fn visit_map(&mut self, own: TypeId, offset: u64, ids: [TypeId; 2], number: u64) {
        let root = self.target(offset);
        let pointer = self.pointer_to(offset, root, Wanted::Map(AgedType { id: own, ..self.ty }, number));
        let place = place(self.tables, self.steps, pointer);
        if root.is_null() || !self.visitor.object(&place) {
            return;
        }
        if let Err(damage) = self.buffer_size(root, number) {
            return self.visitor.damage(&place, damage);
        }
        let Some(visit) = self.maps else { return };
        visit(self.heap, root, &mut |part| {
            match part {
                MapPart::Object(at) if at == root => {}
                MapPart::Object(at) => return self.visitor.object(&self.place(offset, at)),
                MapPart::Damage(at) => {
                    self.visitor.damage(&self.place(offset, at), TypedDamage::MapPart);
                }
                MapPart::Entry { at, key, value } => self.visit_entry(offset, ids, at, key, &value()),
            }
            true
        });
    }

    /// Visits an entry of the map at `offset`.
    fn visit_entry(
        &mut self,
        offset: u64,
        [key_id, value_id]: [TypeId; 2],
        at: PoolOffset,
        key: &[u8],
        value: &[u8],
    ) {
        let table = self.table();
        let place = self.place(offset, at);
        let place = TypedPlace { key: Some(PlaceKey::Sorted(key_id, key)), ..place };
        if table.key_text(key_id, key).is_none() {
            self.visitor.damage(&place, TypedDamage::NoKey);
        } else if value.len() as u64 != table.get(value_id).size {
            self.visitor.damage(&place, TypedDamage::NoValue);
        } else {
            show(self.visitor, table, &place, value_id, value);
        }
    }

    fn visit_text(&mut self, own: TypeId, offset: u64, number: u64) {
        let (at, len) = (self.target(offset), self.word(offset + WORD));
        let bytes = match at.is_null() {
            true => Some(Vec::new()),
            false => self.buffer((own, offset), number, at, len, 1),
        };
        let Some(bytes) = bytes else { return };
        let place = self.place(offset, self.pointer.at.plus(offset));
        match str::from_utf8(&bytes) {
            Ok(text) => self.visitor.value(&place, &|| format!("{text:?}")),
            Err(_) => self.visitor.damage(&place, TypedDamage::NoText),
        }
    }
}

/// Shows the value with which `bytes` begin, or that they are none.
fn show(
    visitor: &mut impl TypedVisitor,
    table: &TypeTable,
    place: &TypedPlace<'_>,
    id: TypeId,
    bytes: &[u8],
) {
    match table.is_value(id, bytes) {
        true => visitor.value(place, &|| table.value_text(id, bytes).unwrap_or_default()),
        false => visitor.damage(place, TypedDamage::NoValue),
    }
}
