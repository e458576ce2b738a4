//! The root of a pool of typed data, and the comparison of the pool's types with those of the program.

use super::brand::Brand;
use super::types::Types;
use crate::error::HeapError;
use crate::heap::Heap;
use crate::persist::Persist;
use crate::tx::Tx;
use lode_layout::{
    PoolOffset, ProgramTypes, TYPE_TABLE_LEN_MAX, TYPE_TYPE_TABLE, TYPE_TYPED_ROOT, TypeComparison,
    TypeTable, TypeTableError, TypedRoot, WORD, decode_root,
};
use lode_pmem::{Medium, Readable};
use std::any::TypeId;
use std::sync::OnceLock;

/// Tables that one migration may replace, one after the other.
const TABLES_MAX: usize = 256;

/// The type table whose types were found to be the program's, and the program's type of the root.
#[derive(Debug, Default)]
pub(crate) struct ComparedTypes(OnceLock<(PoolOffset, TypeId)>);

impl ComparedTypes {
    /// Compares the type table of a root with the types of a program whose root is a `T`, unless it did so before. `read` returns
    /// the table. A table that `is_committed` stays, so it is not compared again.
    ///
    /// # Errors
    /// [`HeapError::OtherTypes`], [`HeapError::NotMigrated`].
    pub(crate) fn compare<T: Persist<B>, B: Brand>(
        &self,
        root: &TypedRoot,
        read: impl FnOnce() -> Result<TypeTable, HeapError>,
        is_committed: impl FnOnce() -> bool,
    ) -> Result<(), HeapError> {
        let this = (root.types, TypeId::of::<T>());
        if root.from.is_null() && self.0.get() == Some(&this) {
            return Ok(());
        }
        match read()?.compare(&TypesOf::program::<T, B>()?) {
            TypeComparison::Different(difference) => Err(HeapError::OtherTypes(difference)),
            TypeComparison::Same if root.from.is_null() => {
                if is_committed() {
                    let _ = self.0.set(this);
                }
                Ok(())
            }
            TypeComparison::Same | TypeComparison::Older => Err(HeapError::NotMigrated),
        }
    }
}

/// The types of a program.
pub(crate) struct TypesOf;

impl TypesOf {
    /// Returns the types of a program whose root is a `T`, those that they were before included.
    pub(crate) fn program<T: Persist<B>, B: Brand>() -> Result<ProgramTypes, HeapError> {
        let mut types = Types::with_older();
        let root = T::describe(&mut types);
        types.finish(root).map_err(too_many)
    }

    /// Stores the table of a program whose root is a `T` in a new object, and returns its offset.
    pub(crate) fn store<T: Persist<B>, B: Brand, M: Medium>(tx: &Tx<'_, M>) -> Result<PoolOffset, HeapError> {
        let mut types = Types::default();
        let root = T::describe(&mut types);
        let table = types.finish(root).map_err(too_many)?.table;
        tx.alloc_with_bytes(&table.encode().map_err(too_many)?, WORD, TYPE_TYPE_TABLE)
    }
}

/// Returns the error of the program's own types.
fn too_many(error: TypeTableError) -> HeapError {
    HeapError::TypeTable { at: PoolOffset::NULL, error: Box::new(error) }
}

/// Returns the committed root; `None` while there is none.
///
/// # Errors
/// [`HeapError::NotTyped`], [`HeapError::Corrupt`], [`HeapError::Fault`].
pub(crate) fn committed_root<M: Medium>(heap: &Heap<M>) -> Result<Option<TypedRoot>, HeapError> {
    let at = heap.root()?;
    if at.is_null() {
        return Ok(None);
    }
    let object = heap.object(at)?;
    check_root(at, object.size, object.type_number)?;
    decode_typed_root(at, heap.memory().reading(|memory| words_by(at, |word| memory.load8(word)))?)
}

/// Returns the root as the transaction sees it; `None` while there is none. The read is validated.
///
/// # Errors
/// As [`committed_root`], and [`HeapError::Conflict`].
pub(crate) fn root_in<M: Medium>(tx: &Tx<'_, M>) -> Result<Option<TypedRoot>, HeapError> {
    let at = tx.root()?;
    if at.is_null() {
        return Ok(None);
    }
    let (size, type_number) = tx.object(at)?;
    check_root(at, size, type_number)?;
    let [root, types, from, trees] = words_by(at, |word| tx.read8(word));
    decode_typed_root(at, [root?, types?, from?, trees?])
}

/// Returns the words of the root object at `at`, each as `load` returns it.
fn words_by<T>(at: PoolOffset, load: impl Fn(PoolOffset) -> T) -> [T; TypedRoot::WORDS] {
    std::array::from_fn(|word| load(at.plus(word as u64 * WORD)))
}

pub(super) fn check_root(at: PoolOffset, size: u64, found: u64) -> Result<(), HeapError> {
    let is_typed = found == TYPE_TYPED_ROOT && size >= TypedRoot::LEN;
    if is_typed { Ok(()) } else { Err(HeapError::NotTyped { at, found }) }
}

fn decode_typed_root(at: PoolOffset, words: [u64; TypedRoot::WORDS]) -> Result<Option<TypedRoot>, HeapError> {
    TypedRoot::decode(words).map(Some).ok_or(HeapError::Corrupt { what: "the root object", at })
}

/// Returns the committed type table at `types`.
///
/// # Errors
/// [`HeapError::TypeTable`] when it is damaged; [`HeapError::Corrupt`], [`HeapError::Fault`].
pub(crate) fn read_type_table<M: Medium>(heap: &Heap<M>, types: PoolOffset) -> Result<TypeTable, HeapError> {
    let object = heap.object(types)?;
    let mut bytes = table_space(types, object.size, object.type_number)?;
    heap.memory().reading(|memory: &Readable| memory.read(types, &mut bytes))?;
    decode_table(types, &bytes)
}

/// Returns the offsets of the older tables of an unfinished migration, the newest of them first.
///
/// # Errors
/// [`HeapError::Corrupt`], [`HeapError::Fault`].
pub(crate) fn older_tables<M: Medium>(
    heap: &Heap<M>,
    root: &TypedRoot,
) -> Result<Vec<PoolOffset>, HeapError> {
    follow_older(root, |at| {
        let object = heap.object(at)?;
        let word = || heap.memory().reading(|memory| memory.load8(at.plus(TypeTable::OLDER_OFF)));
        check_table(at, object.size, object.type_number).and_then(|()| Ok(word()?))
    })
}

/// Returns the offsets of [`older_tables`] as the transaction sees them.
///
/// # Errors
/// As [`older_tables`], and [`HeapError::Conflict`].
pub(crate) fn older_tables_in<M: Medium>(
    tx: &Tx<'_, M>,
    root: &TypedRoot,
) -> Result<Vec<PoolOffset>, HeapError> {
    follow_older(root, |at| {
        let (size, type_number) = tx.object(at)?;
        check_table(at, size, type_number)?;
        tx.read8(at.plus(TypeTable::OLDER_OFF))
    })
}

fn follow_older(
    root: &TypedRoot,
    older: impl Fn(PoolOffset) -> Result<u64, HeapError>,
) -> Result<Vec<PoolOffset>, HeapError> {
    let (mut tables, mut next) = (Vec::new(), root.from);
    while !next.is_null() {
        let corrupt = HeapError::Corrupt { what: "the older type table", at: next };
        // No table is older than itself.
        if next == root.types || tables.contains(&next) || tables.len() == TABLES_MAX {
            return Err(corrupt);
        }
        tables.push(next);
        next = decode_root(older(next)?).ok_or(corrupt)?;
    }
    Ok(tables)
}

/// Returns the type table at `types` as the transaction sees it. Its types never change.
pub(crate) fn type_table_in<M: Medium>(tx: &Tx<'_, M>, types: PoolOffset) -> Result<TypeTable, HeapError> {
    let (size, type_number) = tx.object(types)?;
    let mut bytes = table_space(types, size, type_number)?;
    tx.read(types, &mut bytes);
    decode_table(types, &bytes)
}

/// Returns space for the bytes of the table in an object.
fn table_space(at: PoolOffset, size: u64, type_number: u64) -> Result<Vec<u8>, HeapError> {
    check_table(at, size, type_number)?;
    Ok(vec![0; (size as usize).min(TYPE_TABLE_LEN_MAX)])
}

fn check_table(at: PoolOffset, size: u64, type_number: u64) -> Result<(), HeapError> {
    let is_table = type_number == TYPE_TYPE_TABLE && size >= TypeTable::OLDER_OFF + WORD;
    if is_table { Ok(()) } else { Err(HeapError::Corrupt { what: "the type table", at }) }
}

fn decode_table(at: PoolOffset, bytes: &[u8]) -> Result<TypeTable, HeapError> {
    TypeTable::decode(bytes).map_err(|error| HeapError::TypeTable { at, error: Box::new(error) })
}

/// Makes the object at `root` the root, a `T`, with the program's types beside it.
pub(crate) fn set_root<T: Persist<B>, B: Brand, M: Medium>(
    tx: &Tx<'_, M>,
    root: PoolOffset,
) -> Result<(), HeapError> {
    let types = TypesOf::store::<T, B, M>(tx)?;
    let typed = TypedRoot { root, types, from: PoolOffset::NULL, trees: PoolOffset::NULL };
    let typed = tx.alloc_with(&typed.encode(), WORD, TYPE_TYPED_ROOT)?;
    tx.set_root(typed);
    Ok(())
}
