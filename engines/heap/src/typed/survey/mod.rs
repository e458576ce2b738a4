//! A walk over all that a typed pool holds, by its type table and without the program that made it.
//!
//! ```text
//!   tables    the types of the pool, and those before while a migration is not finished
//!   pointer   a word that owns something; place: the way to something, and what may lie there
//!   entered   the walk over one object: values, and pointers to others
//!   visitor   receives what is found
//! ```

mod entered;
mod place;
mod pointer;
mod tables;
mod visitor;

pub use place::TypedPlace;
pub use pointer::{TypedElement, TypedPointer};
pub use visitor::{MapPart, TypedDamage, TypedVisitor, VisitMap};

use super::root::{committed_root, older_tables, read_type_table};
use crate::error::HeapError;
use crate::heap::Heap;
use entered::{Entered, Pointer};
use lode_layout::{PoolOffset, PoolType, Shape, TypeTable, TypedRoot};
use lode_pmem::Medium;
use place::{Step, place};
use pointer::Wanted;
use tables::{AgedTable, AgedType};

/// The content of a typed pool. Beside running transactions, what it finds need not fit together.
///
/// In a pool whose migration is not finished, objects of older types are visited as what they are: each has the number of its type,
/// and the pool has the tables of all. An object may lead to newer and to older ones, by pointers to types of one name.
#[derive(Debug)]
pub struct TypedSurvey<'h, M: Medium> {
    heap: &'h Heap<M>,
    root: TypedRoot,
    /// Offsets of the type tables, the newest first.
    at: Vec<PoolOffset>,
    tables: Vec<AgedTable>,
    /// The way to each object that was found.
    steps: Vec<Step>,
    maps: Option<VisitMap<M>>,
}

impl<'h, M: Medium> TypedSurvey<'h, M> {
    /// Returns the content of the pool; `None` if it has no root yet.
    ///
    /// # Errors
    /// [`HeapError::NotTyped`] when its root is not typed data; [`HeapError::TypeTable`], [`HeapError::Corrupt`],
    /// [`HeapError::Fault`].
    pub fn open(heap: &'h Heap<M>) -> Result<Option<TypedSurvey<'h, M>>, HeapError> {
        let Some(root) = committed_root(heap)? else { return Ok(None) };
        let mut at = vec![root.types];
        at.extend(older_tables(heap, &root)?);
        let tables = at.iter().map(|types| read_type_table(heap, *types).map(AgedTable::new));
        let tables = tables.collect::<Result<_, _>>()?;
        Ok(Some(TypedSurvey { heap, root, at, tables, steps: Vec::new(), maps: None }))
    }

    /// Lets the walk visit maps by this function, which the crate of the maps has. Without one it visits the root objects of maps alone.
    #[must_use]
    pub fn with_maps(self, visit: VisitMap<M>) -> TypedSurvey<'h, M> {
        TypedSurvey { maps: Some(visit), ..self }
    }

    /// Returns true if the types have maps.
    pub fn has_maps(&self) -> bool {
        let mut types = self.tables.iter().flat_map(|aged| aged.table.types());
        types.any(|(_, ty)| matches!(ty.shape, Shape::Map { .. }))
    }

    /// Returns true if the types have maps that the walk does not visit.
    pub fn misses_maps(&self) -> bool {
        self.maps.is_none() && self.has_maps()
    }

    /// Returns the types of the pool.
    pub fn table(&self) -> &TypeTable {
        &self.tables[0].table
    }

    /// Returns the types that the pool had before the migrations that are not finished, the newest first.
    pub fn older_tables(&self) -> impl Iterator<Item = &TypeTable> {
        self.tables[1..].iter().map(|aged| &aged.table)
    }

    /// Returns true if a migration is not finished: objects may then be of the [older types](TypedSurvey::older_tables), too.
    pub fn is_half_migrated(&self) -> bool {
        !self.root.from.is_null()
    }

    /// Returns the objects beside those of the types: the root object, and the type tables.
    pub fn frame(&self) -> Vec<PoolOffset> {
        let root_object = self.heap.root().unwrap_or(PoolOffset::NULL);
        [root_object].into_iter().chain(self.at.iter().copied()).collect()
    }

    /// Returns the offset of the table of trees beside the typed data, which the walk does not visit; [`PoolOffset::NULL`] if there is
    /// none.
    pub fn trees(&self) -> PoolOffset {
        self.root.trees
    }

    /// Visits all that the root reaches. Something that was visited is visited again if another pointer leads to it and the
    /// visitor goes on into it.
    pub fn visit(&mut self, visitor: &mut impl TypedVisitor) {
        let ty = AgedType { age: 0, id: self.table().root() };
        self.visit_from(self.root.root, ty, visitor);
    }

    /// Visits what a pointer leads to, and all beyond. A buffer leads to nothing, and nor does the root object of a map.
    pub fn visit_pointer(&mut self, pointer: TypedPointer, visitor: &mut impl TypedVisitor) {
        let _pin = self.heap.pin();
        let mut open = vec![pointer];
        while let Some(pointer) = open.pop() {
            let Wanted::Object(wanted) = pointer.wanted else { continue };
            let mut entered = Entered {
                heap: self.heap,
                tables: &self.tables,
                steps: &self.steps,
                pointer,
                ty: wanted,
                maps: self.maps,
                visitor: &mut *visitor,
                bytes: Vec::new(),
                pointers: Vec::new(),
            };
            entered.enter(wanted);
            let (ty, pointers) = (entered.ty, entered.pointers);
            // The first one is visited first.
            for Pointer { offset, index, word, at, target } in pointers.into_iter().rev() {
                let step = self.step(pointer.step, ty, offset, index);
                let wanted = Wanted::Object(AgedType { id: target, ..ty });
                let element = index.map(|index| TypedElement { vector: pointer.at.plus(offset), index });
                open.push(TypedPointer { word, at, step, within: None, element, wanted });
            }
        }
    }

    /// Visits an object of the type with this number, and all beyond, as if a way began there. Visits nothing if the pool has no such
    /// type.
    pub fn visit_unreached(&mut self, at: PoolOffset, number: u64, visitor: &mut impl TypedVisitor) {
        let found = (0..).zip(&self.tables).find_map(|(age, aged)| Some((age, *aged.objects.get(&number)?)));
        let Some((age, id)) = found else { return };
        self.visit_from(at, AgedType { age, id }, visitor);
    }

    /// Visits an object of a type with which a way begins, and all beyond.
    fn visit_from(&mut self, at: PoolOffset, ty: AgedType, visitor: &mut impl TypedVisitor) {
        let step = self.steps.len();
        self.steps.push(Step { parent: step, ty, offset: 0, index: None, repeated: 0 });
        let (word, wanted) = (PoolOffset::NULL, Wanted::Object(ty));
        let pointer = TypedPointer { word, at, step, within: None, element: None, wanted };
        self.visit_pointer(pointer, visitor);
    }

    /// Returns the place to which a pointer leads.
    pub fn place(&self, pointer: TypedPointer) -> TypedPlace<'_> {
        place(&self.tables, &self.steps, pointer)
    }

    /// Returns the name of the type with this number, or of the vector, queue, text or map whose buffer or root object has it; `None`
    /// if the pool has none.
    pub fn type_name(&self, number: u64) -> Option<String> {
        self.tables.iter().find_map(|AgedTable { table, objects }| {
            let of_buffer = |ty: &PoolType| match ty.shape {
                Shape::Vec { buffer, .. }
                | Shape::Deque { buffer, .. }
                | Shape::String { buffer }
                | Shape::HashMap { buffer, .. } => buffer == number,
                Shape::Map { root, .. } => root == number,
                _ => false,
            };
            let buffer = || table.types().find(|(_, ty)| of_buffer(ty)).map(|(id, _)| id);
            objects.get(&number).copied().or_else(buffer).map(|id| table.name(id))
        })
    }

    /// Returns the ages of the tables in which objects have the type number `number`, the newest table first: 0 is the age of the types
    /// of the pool, and 1 of those before.
    pub fn ages(&self, number: u64) -> Vec<usize> {
        let ages = (0..).zip(&self.tables).filter(|(_, aged)| aged.objects.contains_key(&number));
        ages.map(|(age, _)| age).collect()
    }

    /// Adds the step from an object by the pointer at an offset in it, or by that with an index in the vector there.
    fn step(&mut self, from: usize, ty: AgedType, offset: u64, index: Option<u64>) -> usize {
        let last = self.steps[from];
        let is_same = (last.ty, last.offset, last.index) == (ty, offset, index);
        let is_repeated = last.repeated > 0 && is_same;
        let (parent, repeated) = if is_repeated { (last.parent, last.repeated + 1) } else { (from, 1) };
        self.steps.push(Step { parent, ty, offset, index, repeated });
        self.steps.len() - 1
    }
}
