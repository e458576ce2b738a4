//! Migration: the objects of a pool become those of a program whose types have changed.
//!
//! ```text
//!   1. one transaction: the root object gets the new type table, and keeps the old one beside it; if a newer program goes on, its
//!      table comes first, and the one before it leads to the oldest
//!   2. from the root on, each pointer: an object of an older type is converted, and freed; its pointers move to the new one
//!   3. one transaction: the old tables go
//! ```
//!
//! Every object has the number of its own type. So step 2 can stop after any transaction, and begins again at the root: what it
//! has converted already has the new number. A program with the old types does not open the pool after step 1, nor does the new
//! one use it before step 3.

use super::brand::Brand;
use super::heap::TypedHeap;
use super::owners::{Edge, ObjectType, Owners, Renewed, Target};
pub use super::owners::{OldObject, Version};
use super::root::{self, TypesOf};
use crate::error::HeapError;
use crate::persist::Persist;
pub use crate::persist::walk;
use crate::ptr::TargetOf;
use crate::tx::Tx;
pub use lode_layout::PoolOffset;
use lode_layout::{TypeComparison, TypeTable, TypedRoot, WORD, encode_root};
pub use lode_pmem::Fault;
use lode_pmem::Medium;
use zerocopy::IntoBytes;

/// Pointers that one transaction follows.
const BATCH: u64 = 1024;
/// Changes of a type that a migration knows.
const AGES_MAX: u32 = 256;

/// The conversion of a value of an older type to this one, which has `#[persist(was = Old)]`.
///
/// It gets the older value whole, moves the fields that stay, and makes the others. A pointer that it does not move is freed with all
/// behind it. It is called again if its transaction starts again.
///
/// ```
/// use lode_heap::{HeapError, Migrate, PBox, PCell, PString, Persist};
/// lode_heap::brand!(Shop);
///
/// #[derive(Persist)]
/// #[persist(brand = Shop, was = ItemV1)]
/// #[repr(C)]
/// struct Item {
///     name: PString<Shop>,
///     cents: PCell<u64, Shop>,
///     next: PBox<Item, Shop>,
/// }
///
/// /// An item as it was, with the name that it has on the medium. Its pointers lead to what is new by now.
/// #[derive(Persist)]
/// #[persist(brand = Shop, name = "Item")]
/// #[repr(C)]
/// struct ItemV1 {
///     name: PString<Shop>,
///     euros: PCell<u32, Shop>,
///     next: PBox<Item, Shop>,
/// }
///
/// impl Migrate<ItemV1> for Item {
///     fn migrate(old: ItemV1) -> Result<Item, HeapError> {
///         let cents = u64::from(old.euros.into_value()?) * 100;
///         Ok(Item { name: old.name, cents: PCell::new(cents), next: old.next })
///     }
/// }
/// ```
pub trait Migrate<Old>: Sized {
    /// Returns the value that the older one becomes.
    ///
    /// # Errors
    /// [`HeapError::not_converted`] when there is none. The migration ends with it, and can go on later.
    fn migrate(old: Old) -> Result<Self, HeapError>;
}

/// The work of a migration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Migrated {
    /// Number of pointers that were followed.
    pub visited: u64,
    /// Number of objects that became new ones.
    pub converted: u64,
}

impl<B: Brand, M: Medium> TypedHeap<B, M> {
    /// Makes new objects of those that are of older types, for a program whose root is a `T`. Does nothing if there are none.
    /// `progress` hears what was done so far, after each transaction.
    ///
    /// Objects are converted a few at a time. Killed at any moment, the pool holds old and new ones; no program uses it then but by
    /// another call, also one with still newer types, if it knows all types between. A pool that grows by itself may grow.
    ///
    /// # Errors
    /// [`HeapError::OtherTypes`] when a type of the pool is none that the program's types were; [`HeapError::NotConverted`];
    /// [`HeapError::OutOfSpace`] and [`HeapError::TooLarge`] without room for one object more, or for the free of all that a
    /// conversion leaves behind. The call can be repeated after each.
    ///
    /// # Durability
    /// Each transaction is durable when `progress` hears of it; the whole on return.
    ///
    /// # Cost
    /// A visit of each object. For a converted one, its bytes and some 60 more in the log, and 16 for each pointer in it.
    pub fn migrate<T: Persist<B>>(
        &mut self,
        mut progress: impl FnMut(Migrated),
    ) -> Result<Migrated, HeapError> {
        self.migrate_in_steps::<T>(BATCH, &mut progress)
    }

    /// Does what [`migrate`](TypedHeap::migrate) does in one transaction: killed before it is over, the pool is as it was.
    ///
    /// # Errors
    /// As [`migrate`](TypedHeap::migrate). Nothing is changed then.
    ///
    /// # Durability
    /// Durable on return.
    pub fn migrate_at_once<T: Persist<B>>(&mut self) -> Result<Migrated, HeapError> {
        self.forget_compared();
        self.run(|_| self.migrate_by::<T>(u64::MAX, &mut |_| ()))
    }

    /// Does what [`migrate`](TypedHeap::migrate) does, with transactions that follow so many pointers each, or fewer where space
    /// is short.
    ///
    /// # Errors
    /// As [`migrate`](TypedHeap::migrate).
    pub fn migrate_in_steps<T: Persist<B>>(
        &mut self,
        pointers: u64,
        progress: &mut dyn FnMut(Migrated),
    ) -> Result<Migrated, HeapError> {
        self.forget_compared();
        self.migrate_by::<T>(pointers, progress)
    }

    /// Callers have the heap exclusively: no reference to the root is left, which is freed when it is converted.
    fn migrate_by<T: Persist<B>>(
        &self,
        pointers: u64,
        progress: &mut dyn FnMut(Migrated),
    ) -> Result<Migrated, HeapError> {
        let mut done = Migrated::default();
        let Some(root_object) = self.run(|tx| begin::<T, B, M>(tx.raw()))? else { return Ok(done) };
        let mut waiting =
            vec![Pointer { word: root_object, is_root: true, target: TargetOf::<T, B>::TARGET }];
        let mut batch = pointers.max(1);
        while !waiting.is_empty() {
            // Those that the transaction does not reach are not copied.
            let rest = waiting.len().saturating_sub(usize::try_from(batch).unwrap_or(usize::MAX));
            match self.run(|tx| follow(tx.raw(), waiting[rest..].to_vec(), done, batch)) {
                Ok((left, now)) => {
                    waiting.truncate(rest);
                    waiting.extend(left);
                    done = now;
                    progress(done);
                }
                // What is freed has room again after the transaction.
                Err(
                    HeapError::OutOfSpace { .. } | HeapError::CannotGrow { .. } | HeapError::TooLarge { .. },
                ) if batch > 1 && batch < u64::MAX => {
                    batch /= 2;
                }
                Err(error) => return Err(error),
            }
        }
        self.run(|tx| finish(tx.raw()))?;
        Ok(done)
    }
}

/// A word that leads to an object.
#[derive(Clone, Copy)]
struct Pointer {
    word: PoolOffset,
    /// True for the first word of the root object, which has a form of its own.
    is_root: bool,
    target: &'static Target,
}

impl From<Edge> for Pointer {
    fn from(Edge { word, target }: Edge) -> Pointer {
        Pointer { word, is_root: false, target }
    }
}

impl Pointer {
    fn load<M: Medium>(&self, tx: &Tx<'_, M>) -> Result<PoolOffset, HeapError> {
        match self.is_root {
            true => Ok(root::root_in(tx)?.map_or(PoolOffset::NULL, |root| root.root)),
            false => Ok(load(tx, self.word)),
        }
    }

    /// Stores where the object is from now on. Only the root's word needs a lock: the heap is the migration's alone, so no other
    /// transaction reads the others.
    fn store<M: Medium>(&self, tx: &Tx<'_, M>, at: PoolOffset) -> Result<(), HeapError> {
        if !self.is_root {
            tx.store8(self.word, at.get());
            return Ok(());
        }
        tx.lock(self.word)?;
        if let Some(root) = root::root_in(tx)? {
            tx.store_words(self.word, &TypedRoot { root: at, ..root }.encode());
        }
        Ok(())
    }
}

/// Returns the offset in a word of a pointer to which the transaction has not stored, unless it has made the object that has the word:
/// the content of a new object is in place. So the transaction's stores need not be looked at, of which there are many.
fn load<M: Medium>(tx: &Tx<'_, M>, word: PoolOffset) -> PoolOffset {
    PoolOffset::new(if tx.sees_pending() { tx.load8(word) } else { tx.memory().load8(word) })
}

/// Puts the program's types beside those of the pool, if some of these are older. Returns the root object, or `None` if there is
/// nothing to do.
fn begin<T: Persist<B>, B: Brand, M: Medium>(tx: &Tx<'_, M>) -> Result<Option<PoolOffset>, HeapError> {
    let Some(root) = root::root_in(tx)? else { return Ok(None) };
    let program = TypesOf::program::<T, B>()?;
    let compare = |types| match root::type_table_in(tx, types)?.compare(&program) {
        TypeComparison::Different(difference) => Err(HeapError::OtherTypes(difference)),
        comparison => Ok(comparison),
    };
    let comparison = compare(root.types)?;
    let at = tx.root()?;
    // A migration that is not finished goes on, also one that an older program has begun.
    root::older_tables_in(tx, &root)?.into_iter().try_for_each(|types| compare(types).map(drop))?;
    if comparison == TypeComparison::Same {
        return Ok((!root.from.is_null()).then_some(at));
    }
    let types = TypesOf::store::<T, B, M>(tx)?;
    tx.lock(at)?;
    // Objects of the types of `from` may be there already. Without one the word is null already, if it is not damaged: nothing else
    // looks at it.
    let older = root.types.plus(TypeTable::OLDER_OFF);
    tx.lock(older)?;
    tx.store8(older, encode_root(root.from));
    tx.store_words(at, &TypedRoot { types, from: root.types, ..root }.encode());
    Ok(Some(at))
}

/// Takes the old type tables away.
fn finish<M: Medium>(tx: &Tx<'_, M>) -> Result<(), HeapError> {
    let Some(root) = root::root_in(tx)? else { return Ok(()) };
    let at = tx.root()?;
    let older = root::older_tables_in(tx, &root)?;
    tx.lock(at)?;
    tx.store_words(at, &TypedRoot { from: PoolOffset::NULL, ..root }.encode());
    older.into_iter().try_for_each(|types| tx.free(types)).inspect_err(|_| tx.set_rollback_only())
}

/// Follows at most `count` pointers: those that wait, and those in the objects to which they lead. Returns the pointers that are left,
/// and what was done.
fn follow<M: Medium>(
    tx: &Tx<'_, M>,
    mut waiting: Vec<Pointer>,
    mut done: Migrated,
    count: u64,
) -> Result<(Vec<Pointer>, Migrated), HeapError> {
    let end = done.visited.saturating_add(count);
    let memory = tx.heap().memory();
    let (mut renewed, mut owners) = (Renewed::none(memory), Owners::new(memory));
    while done.visited < end
        && let Some(pointer) = waiting.pop()
    {
        done.visited += 1;
        if done.visited + waiting.len() as u64 > tx.heap().memory().len() / WORD {
            // More pointers than the pool has words.
            return Err(HeapError::Corrupt {
                what: "a pointer of an object to one that owns it",
                at: pointer.word,
            });
        }
        let at = pointer.load(tx)?;
        if at.is_null() {
            continue;
        }
        match pointer.target {
            Target::Buffer(number) => check_buffer(tx, at, *number)?,
            Target::Boxes(boxes) => {
                check_buffer(tx, at, boxes.buffer)?;
                // The first one is followed first.
                waiting.extend(boxes.edges(tx, pointer.word)?.rev().map(Pointer::from));
            }
            Target::Structure(structure) => check_buffer(tx, at, structure.root)?,
            Target::Object(ty) => {
                let at = match age_at(tx, at, ty)? {
                    0 => at,
                    age => {
                        done.converted += 1;
                        renew(tx, &mut renewed, &pointer, at, ty, age)
                            .inspect_err(|_| tx.set_rollback_only())?
                    }
                };
                if let Some(walk) = ty.walk {
                    walk(at, &mut owners)?;
                }
                // The first one is followed first.
                waiting.extend(owners.edges.drain(..).rev().map(Pointer::from));
            }
        }
    }
    Ok((waiting, done))
}

/// Returns how many changes ago the object at `at` was made.
fn age_at<M: Medium>(tx: &Tx<'_, M>, at: PoolOffset, ty: &ObjectType) -> Result<u32, HeapError> {
    let (size, number) = tx.object(at)?;
    let versions = (0..AGES_MAX).map_while(|age| (ty.version)(age).map(|version| (age, version)));
    let mut versions = versions.filter(|(_, version)| version.number == number && version.size <= size);
    let unknown = HeapError::Corrupt { what: "the type of an object, which no version of its type has,", at };
    versions.next().map(|(age, _)| age).ok_or(unknown)
}

fn check_buffer<M: Medium>(tx: &Tx<'_, M>, at: PoolOffset, number: u64) -> Result<(), HeapError> {
    let is_right = tx.object(at)?.1 == number;
    if is_right { Ok(()) } else { Err(HeapError::Corrupt { what: "the type of a buffer", at }) }
}

/// Makes a new object of the one at `at`, which is `age` changes older, and lets the pointer lead to it. Returns its offset.
fn renew<M: Medium>(
    tx: &Tx<'_, M>,
    renewed: &mut Renewed<'_>,
    pointer: &Pointer,
    at: PoolOffset,
    ty: &ObjectType,
    age: u32,
) -> Result<PoolOffset, HeapError> {
    (ty.renew)(renewed, at, age).map_err(|error| error.of_object(at))?;
    let Renewed { bytes, align, number, pointers, old } = renewed;
    for (offset, target) in pointers {
        let word = &mut bytes[*offset as usize..][..WORD as usize];
        let tag = u64::from_le_bytes(word.try_into().unwrap_or_default());
        if tag != 0 {
            // A pointer of another object, or one that was moved already, would have two owners.
            let stray =
                HeapError::NotConverted { at, reason: "a pointer in the new value is not one of the old" };
            let moved = old.take(tag).ok_or(stray)?;
            word.copy_from_slice(&moved_target(tx, &moved, target)?.get().to_le_bytes());
        }
    }
    // Its pointers are found in place.
    let new = tx.alloc_in_place(bytes, *align, *number)?;
    // The pointers that were not moved, while the older object is still there.
    let left: Vec<Edge> = old.edges.drain(..).flatten().collect();
    if !left.is_empty() {
        free_old(tx, left)?;
    }
    tx.free(at)?;
    pointer.store(tx, new)?;
    Ok(new)
}

/// Returns the target of a pointer of an older object for the pointer of the new one. A buffer whose elements are of another type
/// by now is copied to one with that type's number.
fn moved_target<M: Medium>(tx: &Tx<'_, M>, moved: &Edge, target: &Target) -> Result<PoolOffset, HeapError> {
    let at = load(tx, moved.word);
    let (Target::Buffer(old), Target::Buffer(new)) = (moved.target, target) else { return Ok(at) };
    check_buffer(tx, at, *old)?;
    if old == new {
        return Ok(at);
    }
    let mut words = vec![0; (tx.usable_size(at)? / WORD) as usize];
    tx.heap().memory().reading(|memory| memory.read(at, words.as_mut_bytes()))?;
    let copy = tx.alloc_with(&words, WORD, *new)?;
    tx.free(at)?;
    Ok(copy)
}

/// Frees what the edges of an older object lead to, with all that it owns. Those objects may be older, too.
fn free_old<M: Medium>(tx: &Tx<'_, M>, edges: Vec<Edge>) -> Result<(), HeapError> {
    let mut owners = Owners::new(tx.heap().memory());
    owners.edges = edges;
    while let Some(Edge { word, target }) = owners.edges.pop() {
        let at = PoolOffset::new(tx.load8(word));
        if at.is_null() {
            continue;
        }
        match target {
            Target::Buffer(number) => check_buffer(tx, at, *number)?,
            Target::Boxes(boxes) => {
                check_buffer(tx, at, boxes.buffer)?;
                owners.edges.extend(boxes.edges(tx, word)?);
            }
            Target::Structure(structure) => {
                (structure.free)(tx, at)?;
                continue;
            }
            Target::Object(ty) => (ty.visit_version)(at, &mut owners, age_at(tx, at, ty)?)?,
        }
        tx.free(at)?;
    }
    Ok(())
}
