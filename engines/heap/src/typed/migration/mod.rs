//! Migration: the objects of a pool become those of a program whose types have changed.
//!
//! ```text
//!   1. one transaction: the root object gets the new type table, and keeps the old one beside it; if a newer program goes on, its
//!      table comes first, and the one before it leads to the oldest
//!   2. from the root on, each pointer: the objects of older types are found
//!   3. a transaction for each superblock of such objects: all are converted in place, and the superblock gets their type
//!   4. if any are left, from the root on: an object of an older type is converted, and freed; its pointers move to the new one
//!   5. one transaction: the old tables go
//! ```
//!
//! Every object has the number of its own type. So the steps 3 and 4 can stop after any transaction, and a migration begins again at
//! the root: what it has converted already has the new number. A program with the old types does not open the pool after step 1, nor
//! does the new one use it before step 5.

mod in_place;
mod older;
mod renewal;
mod walk;

use self::in_place::convert_in_place;
use self::older::OlderObjects;
use self::renewal::renew;
use self::walk::{Walk, age_at};
use super::brand::Brand;
use super::heap::TypedHeap;
use super::owners::Renewed;
pub use super::owners::{OldObject, Version};
use super::root::{self, TypesOf};
use crate::error::HeapError;
use crate::persist::Persist;
pub use crate::persist::walk;
use crate::ptr::TargetOf;
use crate::tx::Tx;
pub use lode_layout::PoolOffset;
use lode_layout::{TypeComparison, TypeTable, TypedRoot, encode_root};
pub use lode_pmem::Fault;
use lode_pmem::Medium;
use std::mem;

/// Pointers that one transaction follows.
const BATCH: u64 = 1024;

/// The conversion of a value of an older type to this one, which has `#[persist(was = Old)]`.
///
/// It gets the older value whole, moves the fields that stay, and makes the others. A pointer that it does not move is freed with all
/// behind it. It is called in any order, more than once for an object whose superblock can't be converted in place or whose transaction
/// starts again, and also for objects that are freed later because the object before them does not keep them.
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
    /// Number of pointers that were followed, by the last walk if there were two.
    pub visited: u64,
    /// Number of objects that became new ones, those included that were freed later because their owners did not keep them.
    pub converted: u64,
}

impl<B: Brand, M: Medium> TypedHeap<B, M> {
    /// Makes new objects of those that are of older types, for a program whose root is a `T`. Does nothing if there are none.
    /// `progress` hears what was done so far, after each transaction.
    ///
    /// Objects are converted a few at a time, in place if the new type belongs into blocks of the same size. Killed at any moment, the
    /// pool holds old and new ones; no program uses it then but by another call, also one with still newer types, if it knows all
    /// types between. A pool that grows by itself may grow.
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
    /// A visit of each object. For a converted one, its bytes in the log; if it does not fit in its place, leaves something behind,
    /// or lies beside objects that are not converted: a second visit, some 60 bytes more in the log, and 16 for each pointer in it. Private
    /// memory: some 2 % of the bytes of older objects.
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
    ///
    /// # Cost
    /// Each older object becomes a new one in another place.
    pub fn migrate_at_once<T: Persist<B>>(&mut self) -> Result<Migrated, HeapError> {
        self.check_outside_of_transactions()?;
        self.forget_compared();
        self.run(|_| {
            let Some(walk) = self.begin_migration::<T>()? else { return Ok(Migrated::default()) };
            let done = self.convert_one_by_one(walk, 0, u64::MAX, &mut |_| ())?;
            self.finish_migration()?;
            Ok(done)
        })
    }

    /// Does what [`migrate`](TypedHeap::migrate) does. Transactions that convert objects one by one follow so many pointers each, or
    /// fewer where space is short.
    ///
    /// # Errors
    /// As [`migrate`](TypedHeap::migrate).
    pub fn migrate_in_steps<T: Persist<B>>(
        &mut self,
        pointers: u64,
        progress: &mut dyn FnMut(Migrated),
    ) -> Result<Migrated, HeapError> {
        self.check_outside_of_transactions()?;
        self.forget_compared();
        let Some(walk) = self.begin_migration::<T>()? else { return Ok(Migrated::default()) };
        let (older, visited) = self.find_older(&walk)?;
        let mut done = Migrated { visited, converted: 0 };
        let leaves_some = convert_in_place(self, older, &mut |converted| {
            done.converted += converted;
            progress(done);
        })?;
        if leaves_some {
            done = self.convert_one_by_one(walk, done.converted, pointers.max(1), progress)?;
        }
        self.finish_migration()?;
        Ok(done)
    }

    /// A transaction that was begun, and forgotten, would take all changes with it.
    fn check_outside_of_transactions(&self) -> Result<(), HeapError> {
        if self.raw().in_transaction() { Err(HeapError::InTransaction) } else { Ok(()) }
    }

    /// Begins a migration, or goes on with it. Returns the walk over all objects; `None` if there is nothing to do.
    fn begin_migration<T: Persist<B>>(&self) -> Result<Option<Walk>, HeapError> {
        let root_object = self.run(|tx| begin::<T, B, M>(tx.raw()))?;
        Ok(root_object.map(|at| Walk::of(at, TargetOf::<T, B>::TARGET)))
    }

    /// Finds the objects of older types. Returns the number of pointers that were followed, too. Changes nothing.
    fn find_older(&self, start: &Walk) -> Result<(OlderObjects, u64), HeapError> {
        let (mut walk, mut older) = (start.clone(), OlderObjects::default());
        while !walk.is_over() {
            let mut is_restarted = false;
            self.run(|tx| {
                if mem::replace(&mut is_restarted, true) {
                    // What the attempt before has found can't be told from what was found earlier.
                    (walk, older) = (start.clone(), OlderObjects::default());
                }
                let tx = tx.raw();
                walk.follow(tx, BATCH, |_, at, ty, owners| older.enter(tx, at, ty, owners))
            })?;
        }
        Ok((older, walk.visited))
    }

    /// Makes new objects of all that are of older types, in transactions that follow `pointers` pointers. `converted` are new ones
    /// already. Callers have the heap exclusively: no reference to the root is left, which is freed when it is converted.
    fn convert_one_by_one(
        &self,
        mut walk: Walk,
        converted: u64,
        pointers: u64,
        progress: &mut dyn FnMut(Migrated),
    ) -> Result<Migrated, HeapError> {
        let mut done = Migrated { visited: 0, converted };
        let mut batch = pointers;
        while !walk.is_over() {
            let step = self.run(|tx| {
                let (tx, mut part, mut converted) = (tx.raw(), walk.next_part(batch), done.converted);
                let mut renewed = Renewed::none(tx.heap().memory());
                part.follow(tx, batch, |pointer, at, ty, owners| {
                    let at = match age_at(tx, at, ty)? {
                        0 => at,
                        age => {
                            converted += 1;
                            renew(tx, &mut renewed, pointer, at, ty, age)
                                .inspect_err(|_| tx.set_rollback_only())?
                        }
                    };
                    ty.walk.map_or(Ok(()), |walk| Ok(walk(at, owners)?))
                })?;
                Ok((part, converted))
            });
            match step {
                Ok((part, converted)) => {
                    walk.put_back(part, batch);
                    done = Migrated { visited: walk.visited, converted };
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
        Ok(done)
    }

    fn finish_migration(&self) -> Result<(), HeapError> {
        self.run(|tx| finish(tx.raw()))
    }
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
