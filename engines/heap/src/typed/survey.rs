//! A walk over all that a typed pool holds, by its type table and without the program that made it.

use super::deque::State;
use super::hash_table::{SlotForm, Table, hash_in};
use super::root::{committed_root, read_type_table};
use crate::error::HeapError;
use crate::heap::Heap;
use lode_layout::{PoolOffset, PoolType, Shape, TypeId, TypeTable, TypedRoot, WORD};
use lode_pmem::{Medium, Readable};
use std::fmt::Write;

/// Steps of a path that its text has, the last ones.
const STEPS_MAX: usize = 48;

/// A part of a map, found by a [`VisitMap`].
#[expect(missing_debug_implementations, reason = "a value is read when it is asked for")]
#[non_exhaustive]
pub enum MapPart<'a> {
    /// A node or leaf, or the root object itself. The answer says if the walk goes on into it.
    Object(PoolOffset),
    /// An entry.
    Entry {
        /// Offset of its leaf.
        at: PoolOffset,
        /// Its key.
        key: &'a [u8],
        /// Returns its value.
        value: &'a dyn Fn() -> Vec<u8>,
    },
    /// Something that can't be right, at this offset.
    Damage(PoolOffset),
}

/// A function that passes each part of the map whose root object is at an offset to a closure.
pub type VisitMap<M> = fn(&Heap<M>, PoolOffset, &mut dyn FnMut(MapPart<'_>) -> bool);

/// Receives what a walk over a typed pool finds.
pub trait TypedVisitor {
    /// Called with each object: that of the root, those that boxes lead to, the buffers of vectors, queues, strings and hash maps,
    /// and the nodes and leaves of maps.
    /// Returns true if the walk goes on into it.
    fn object(&mut self, place: &TypedPlace<'_>) -> bool;

    /// Called with each value: a number, the content of a cell, an element, a text. `text` returns it as Rust writes it.
    fn value(&mut self, place: &TypedPlace<'_>, text: &dyn Fn() -> String) {
        let _ = (place, text);
    }

    /// Called with each thing that is not as the types say. The walk does not go into it.
    fn damage(&mut self, place: &TypedPlace<'_>, damage: TypedDamage);
}

/// A kind of damage in a typed pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TypedDamage {
    /// It can't be read.
    Unreadable,
    /// A pointer leads to it, and no object begins there.
    NoObject,
    /// A pointer leads to it, and an object of another type is there.
    OtherType,
    /// Its bytes are no value of its type.
    NoValue,
    /// It has more elements than its buffer has room for.
    TooLong,
    /// It is a text whose bytes are not UTF-8.
    NoText,
    /// It is a hash map with more or fewer entries than it counts.
    OtherCount,
    /// It is a part of a map that is damaged.
    MapPart,
    /// It is a key of a map that is none of its type, or lies where no search comes.
    NoKey,
}

impl TypedDamage {
    /// Returns a clause that says it.
    pub const fn means(self) -> &'static str {
        match self {
            TypedDamage::Unreadable => "it can't be read",
            TypedDamage::NoObject => "no object is there",
            TypedDamage::OtherType => "an object of another type is there",
            TypedDamage::NoValue => "its bytes are no value of its type",
            TypedDamage::TooLong => "it has more elements than its buffer has room for",
            TypedDamage::NoText => "its bytes are not UTF-8",
            TypedDamage::OtherCount => "it has more or fewer entries than it counts",
            TypedDamage::MapPart => "a node or leaf of the map, or what leads there, is damaged",
            TypedDamage::NoKey => "its key is none of its type, or lies where no search comes",
        }
    }
}

/// The content of a typed pool. Beside running transactions, what it finds need not fit together.
#[derive(Debug)]
pub struct TypedSurvey<'h, M: Medium> {
    heap: &'h Heap<M>,
    root: TypedRoot,
    table: TypeTable,
    /// The way to each object that was found.
    steps: Vec<Step>,
    maps: Option<VisitMap<M>>,
}

/// The pointer by which an object is reached.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// The step to the object with the pointer.
    parent: usize,
    /// The type of that object.
    ty: TypeId,
    /// The offset of the pointer in it, in bytes.
    offset: u64,
    /// The index of the pointer in the vector at that offset.
    index: Option<u64>,
    /// Number of equal steps, one after the other, for which this one stands.
    repeated: u64,
}

/// The place of something in a typed pool.
#[derive(Debug)]
pub struct TypedPlace<'a> {
    table: &'a TypeTable,
    steps: &'a [Step],
    /// The last step to the object.
    step: usize,
    /// The type of the object.
    ty: TypeId,
    /// The offset in the object, in bytes; none for the object itself.
    offset: Option<u64>,
    /// The index in the vector or queue at that offset.
    index: Option<u64>,
    /// The key in the map at that offset.
    key: Option<PlaceKey<'a>>,
    at: PoolOffset,
}

/// The type and the bytes of a key.
#[derive(Clone, Copy, Debug)]
enum PlaceKey<'a> {
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

    /// Returns the way from the root, as `Shop.items[17].name`. A pointer that is followed many times, as in a list, is
    /// named once, with their number: `Shop.first.next{16}.name`. Of a long way, the text has the last steps.
    pub fn path(&self) -> String {
        let mut steps = Vec::new();
        let mut step = self.step;
        while step != 0 && steps.len() < STEPS_MAX {
            steps.push(self.steps[step]);
            step = self.steps[step].parent;
        }
        let mut path = self.table.name(self.table.root_declared());
        path += if step == 0 { "" } else { "..." };
        for Step { ty, offset, index, repeated, .. } in steps.into_iter().rev() {
            path += &self.table.step(ty, offset);
            path += &index_text(index);
            if repeated > 1 {
                let _ = write!(path, "{{{repeated}}}");
            }
        }
        path += &self.offset.map_or(String::new(), |offset| self.table.step(self.ty, offset));
        path += &index_text(self.index);
        let key = self.key.map(|key| {
            let (text, key) = match key {
                PlaceKey::Sorted(id, key) => (self.table.key_text(id, key), key),
                PlaceKey::Hashed(id, key) => (self.table.value_text(id, key), key),
            };
            format!("[{}]", text.unwrap_or_else(|| format!("b\"{}\"", key.escape_ascii())))
        });
        path + &key.unwrap_or_default()
    }
}

fn index_text(index: Option<u64>) -> String {
    index.map_or(String::new(), |index| format!("[{index}]"))
}

/// An object that is to be visited.
struct Found {
    at: PoolOffset,
    ty: TypeId,
    step: usize,
}

impl<'h, M: Medium> TypedSurvey<'h, M> {
    /// Returns the content of the pool; `None` if it has no root yet.
    ///
    /// # Errors
    /// [`HeapError::NotTyped`] when its root is not typed data; [`HeapError::TypeTable`], [`HeapError::Corrupt`],
    /// [`HeapError::Fault`].
    pub fn open(heap: &'h Heap<M>) -> Result<Option<TypedSurvey<'h, M>>, HeapError> {
        let Some(root) = committed_root(heap)? else { return Ok(None) };
        let table = read_type_table(heap, root.types)?;
        Ok(Some(TypedSurvey { heap, root, table, steps: Vec::new(), maps: None }))
    }

    /// Lets the walk visit maps by this function, which the crate of the maps has. Without one it finds no part of a map.
    #[must_use]
    pub fn with_maps(self, visit: VisitMap<M>) -> TypedSurvey<'h, M> {
        TypedSurvey { maps: Some(visit), ..self }
    }

    /// Returns true if the types have maps that the walk does not visit.
    pub fn misses_maps(&self) -> bool {
        let has_maps = || self.table.types().any(|(_, ty)| matches!(ty.shape, Shape::Map { .. }));
        self.maps.is_none() && has_maps()
    }

    /// Returns the types of the pool.
    pub fn table(&self) -> &TypeTable {
        &self.table
    }

    /// Returns true if a migration is not finished: objects are then of other types, too, than those of the table, and are not
    /// visited.
    pub fn is_half_migrated(&self) -> bool {
        !self.root.from.is_null()
    }

    /// Returns the objects beside those of the types: the root object, and the type table.
    pub fn frame(&self) -> [PoolOffset; 2] {
        let root_object = self.heap.root().unwrap_or(PoolOffset::NULL);
        [root_object, self.root.types]
    }

    /// Visits all that the root reaches. Something that was visited is visited again if another pointer leads to it and the
    /// visitor goes on into it.
    ///
    /// # Errors
    /// [`HeapError::NotMigrated`] when a migration is not finished.
    pub fn visit(&mut self, visitor: &mut impl TypedVisitor) -> Result<(), HeapError> {
        if self.is_half_migrated() {
            return Err(HeapError::NotMigrated);
        }
        let ty = self.table.root();
        self.steps = vec![Step { parent: 0, ty, offset: 0, index: None, repeated: 0 }];
        let _pin = self.heap.pin();
        let mut open = vec![Found { at: self.root.root, ty, step: 0 }];
        while let Some(found) = open.pop() {
            let mut entered = Entered {
                heap: self.heap,
                table: &self.table,
                steps: &self.steps,
                found: &found,
                maps: self.maps,
                visitor: &mut *visitor,
                bytes: Vec::new(),
                pointers: Vec::new(),
            };
            entered.enter();
            // The first one is visited first.
            for pointer in entered.pointers.into_iter().rev() {
                let step = self.step(&found, &pointer);
                open.push(Found { at: pointer.at, ty: pointer.ty, step });
            }
        }
        Ok(())
    }

    /// Adds the step from an object by a pointer in it.
    fn step(&mut self, found: &Found, pointer: &Pointer) -> usize {
        let last = self.steps[found.step];
        let Pointer { offset, index, .. } = *pointer;
        let is_same = (last.ty, last.offset, last.index) == (found.ty, offset, index);
        let is_repeated = last.repeated > 0 && is_same;
        let (parent, repeated) = if is_repeated { (last.parent, last.repeated + 1) } else { (found.step, 1) };
        self.steps.push(Step { parent, ty: found.ty, offset, index, repeated });
        self.steps.len() - 1
    }
}

/// A pointer in an object.
struct Pointer {
    /// Its offset in the object, or that of the vector in which it lies, in bytes.
    offset: u64,
    /// Its index in that vector.
    index: Option<u64>,
    /// Its target.
    at: PoolOffset,
    /// The type of the target.
    ty: TypeId,
}

/// An object that is visited.
struct Entered<'a, M: Medium, V> {
    heap: &'a Heap<M>,
    table: &'a TypeTable,
    steps: &'a [Step],
    found: &'a Found,
    maps: Option<VisitMap<M>>,
    visitor: &'a mut V,
    bytes: Vec<u8>,
    pointers: Vec<Pointer>,
}

impl<'a, M: Medium, V: TypedVisitor> Entered<'a, M, V> {
    fn enter(&mut self) {
        let at = self.found.at;
        if !self.visitor.object(&self.place(None, at)) {
            return;
        }
        let PoolType { number, size, .. } = *self.table.get(self.found.ty);
        let read = self.object(at, number, size).and_then(|_| self.read(at, size));
        match read {
            Ok(bytes) => self.bytes = bytes,
            Err(damage) => return self.visitor.damage(&self.place(None, at), damage),
        }
        self.visit(self.found.ty, 0);
    }

    /// Returns the size of the object at `at`, if it has this type number and so many bytes.
    fn object(&self, at: PoolOffset, number: u64, size: u64) -> Result<u64, TypedDamage> {
        let object = self.heap.object(at).map_err(|_| TypedDamage::NoObject)?;
        match object.type_number == number && object.size >= size {
            true => Ok(object.size),
            false => Err(TypedDamage::OtherType),
        }
    }

    /// Returns so many bytes from `at` on, which lie in an object.
    fn read(&self, at: PoolOffset, len: u64) -> Result<Vec<u8>, TypedDamage> {
        let mut bytes = vec![0; len as usize];
        let read = self.heap.memory().reading(|memory: &Readable| memory.read(at, &mut bytes));
        read.map(|()| bytes).map_err(|_| TypedDamage::Unreadable)
    }

    fn place(&self, offset: Option<u64>, at: PoolOffset) -> TypedPlace<'a> {
        let Found { ty, step, .. } = *self.found;
        TypedPlace { table: self.table, steps: self.steps, step, ty, offset, index: None, key: None, at }
    }

    /// Visits what lies in the object at `offset`, which is of the type `id`.
    fn visit(&mut self, id: TypeId, offset: u64) {
        let table = self.table;
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
                let at = PoolOffset::new(self.word(offset));
                if !at.is_null() {
                    self.pointers.push(Pointer { offset, index: None, at, ty: *target });
                }
            }
            Shape::Vec { element, buffer } => {
                let [at, len] = [self.word(offset), self.word(offset + WORD)];
                let state = State { buffer: PoolOffset::new(at), room: len, first: 0, len };
                self.visit_elements(offset, *element, *buffer, &state);
            }
            Shape::Deque { element, buffer } => {
                let state = State::read(|word| self.word(offset + word * WORD));
                self.visit_elements(offset, *element, *buffer, &state);
            }
            Shape::String { buffer } => self.visit_text(offset, *buffer),
            Shape::HashMap { key, value, buffer } => {
                let table = Table::read(|word| self.word(offset + word * WORD));
                self.visit_entries(offset, [*key, *value], *buffer, table);
            }
            Shape::Map { key, value, root } => self.visit_map(offset, [*key, *value], *root),
            // A key is not where its map is.
            Shape::Text | Shape::Bytes => {}
        }
    }

    /// Visits the map at `offset`, with keys and values of these types.
    fn visit_map(&mut self, offset: u64, [key_id, value_id]: [TypeId; 2], number: u64) {
        let at = PoolOffset::new(self.word(offset));
        let place = self.place(Some(offset), at);
        let Some(visit) = self.maps.filter(|_| !at.is_null()) else { return };
        if let Err(damage) = self.object(at, number, 0) {
            if self.visitor.object(&place) {
                self.visitor.damage(&place, damage);
            }
            return;
        }
        visit(self.heap, at, &mut |part| {
            match part {
                MapPart::Object(at) => return self.visitor.object(&self.place(Some(offset), at)),
                MapPart::Damage(at) => {
                    self.visitor.damage(&self.place(Some(offset), at), TypedDamage::MapPart);
                }
                MapPart::Entry { at, key, value } => {
                    let place = self.place(Some(offset), at);
                    let place = TypedPlace { key: Some(PlaceKey::Sorted(key_id, key)), ..place };
                    let (table, value) = (self.table, value());
                    if table.key_text(key_id, key).is_none() {
                        self.visitor.damage(&place, TypedDamage::NoKey);
                    } else if value.len() as u64 != table.get(value_id).size {
                        self.visitor.damage(&place, TypedDamage::NoValue);
                    } else {
                        show(self.visitor, table, &place, value_id, &value);
                    }
                }
            }
            true
        });
    }

    /// Returns a word of the object, whose type has it.
    fn word(&self, offset: u64) -> u64 {
        let word = self.bytes.get(offset as usize..).and_then(|rest| rest.first_chunk());
        word.map_or(0, |word| u64::from_le_bytes(*word))
    }

    fn visit_value(&mut self, id: TypeId, offset: u64) {
        let place = self.place(Some(offset), self.found.at.plus(offset));
        let bytes = self.bytes.get(offset as usize..).unwrap_or_default();
        show(self.visitor, self.table, &place, id, bytes);
    }

    /// Visits the buffer of a vector, queue, string or hash map. Returns the bytes of all `room` elements of `size` bytes.
    fn buffer(&mut self, offset: u64, number: u64, at: PoolOffset, room: u64, size: u64) -> Option<Vec<u8>> {
        let place = self.place(Some(offset), at);
        if at.is_null() || !self.visitor.object(&place) {
            return None;
        }
        let bytes = self.object(at, number, 0).and_then(|found| {
            // Elements without bytes take one in the buffer.
            let taken = room.checked_mul(size.max(1)).filter(|taken| *taken <= found);
            self.read(at, taken.ok_or(TypedDamage::TooLong)?)
        });
        bytes.map_err(|damage| self.visitor.damage(&place, damage)).ok()
    }

    fn visit_elements(&mut self, offset: u64, id: TypeId, number: u64, state: &State) {
        let State { buffer: at, room, first, len } = *state;
        let size = self.table.get(id).size;
        let Some(bytes) = self.buffer(offset, number, at, room, size) else { return };
        let is_sound = len == 0 || (len <= room && first < room);
        if !is_sound {
            return self.visitor.damage(&self.place(Some(offset), at), TypedDamage::TooLong);
        }
        for index in 0..len {
            let begin = (first + index) % room * size;
            let place = TypedPlace { index: Some(index), ..self.place(Some(offset), at.plus(begin)) };
            let bytes = &bytes[begin as usize..];
            match self.table.get(id).shape {
                Shape::Box(target) => self.visit_box(&place, target, bytes),
                _ => show(self.visitor, self.table, &place, id, bytes),
            }
        }
    }

    /// Visits the entries of the hash map at `offset`, with keys and values of these types.
    fn visit_entries(&mut self, offset: u64, ids: [TypeId; 2], number: u64, map: Table) {
        let [key, value] = ids.map(|id| self.table.get(id).size);
        let Some(form) = SlotForm::bounded(key, value, number, self.heap.memory().len()) else {
            return self.visitor.damage(&self.place(Some(offset), map.buffer), TypedDamage::TooLong);
        };
        let Some(bytes) = self.buffer(offset, number, map.buffer, map.room, form.size()) else { return };
        let used = bytes.chunks_exact(form.size() as usize).zip(0..).filter(|(slot, _)| hash_in(slot) != 0);
        let used: Vec<(&[u8], u64)> = used.collect();
        if used.len() as u64 != map.len || map.check(form, self.heap.memory().len()).is_err() {
            return self.visitor.damage(&self.place(Some(offset), map.buffer), TypedDamage::OtherCount);
        }
        for (slot, index) in used {
            let at = map.slot(form, index);
            let key = &slot[form.key()];
            let place =
                TypedPlace { key: Some(PlaceKey::Hashed(ids[0], key)), ..self.place(Some(offset), at) };
            if !self.table.is_value(ids[0], key) || !map.is_found(form, &bytes, index) {
                self.visitor.damage(&place, TypedDamage::NoKey);
            } else {
                show(self.visitor, self.table, &place, ids[1], &slot[form.value()]);
            }
        }
    }

    /// Visits the element of a vector that owns an object, and never none.
    fn visit_box(&mut self, place: &TypedPlace<'_>, ty: TypeId, bytes: &[u8]) {
        let word = bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        if word == 0 {
            return self.visitor.damage(place, TypedDamage::NoObject);
        }
        let offset = place.offset.unwrap_or_default();
        self.pointers.push(Pointer { offset, index: place.index, at: PoolOffset::new(word), ty });
    }

    fn visit_text(&mut self, offset: u64, number: u64) {
        let [at, len] = [self.word(offset), self.word(offset + WORD)];
        let at = PoolOffset::new(at);
        let bytes = match at.is_null() {
            true => Some(Vec::new()),
            false => self.buffer(offset, number, at, len, 1),
        };
        let Some(bytes) = bytes else { return };
        let place = self.place(Some(offset), self.found.at.plus(offset));
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
