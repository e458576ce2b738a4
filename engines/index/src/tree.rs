//! The tree and its operations.

use crate::attempt::{Attempt, Retry};
use crate::count;
use crate::cursor::Cursor;
use crate::direction::Direction;
use crate::error::IndexError;
use crate::insert::InsertPoint;
use crate::lookup::Lookup;
use crate::node::Node;
use crate::reader::Reader;
use crate::stability::StabilityWait;
use crate::verified::Value;
use crate::view::{Source, View};
use lode_heap::{Heap, HeapError, Tx};
use lode_layout::{KEY_LEN_MAX, PoolOffset, SLOT_REACH, TREE_SIZE, TYPE_TREE, tree_meta};
use lode_pmem::{Medium, Memory};

/// Conflicts after which a transaction that holds locks of earlier operations starts again.
const CONFLICTS_HOLDING_MAX: u32 = 200;
/// Alignment of a root object, whose cells have a line each.
pub(crate) const TREE_ALIGN: u64 = 64;

/// An ordered map from keys to values, in the pool of `heap`.
///
/// Keys are any bytes, up to 64 KiB; one may be a prefix of another. Values are any bytes. Many threads may read
/// and write at once; readers take no lock.
///
/// # Durability
/// A change is durable when its transaction has returned. A function without a transaction argument runs its own
/// transaction, so its change is durable on return.
#[derive(Debug)]
pub struct Tree<'h, M: Medium> {
    heap: &'h Heap<M>,
    root: PoolOffset,
}

impl<M: Medium> Clone for Tree<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Medium> Copy for Tree<'_, M> {}

impl<'h, M: Medium> Tree<'h, M> {
    /// Makes an empty tree and returns its root object, for [`open`](Tree::open). The caller keeps that offset in the
    /// pool, as the heap's root or in an object of its own.
    ///
    /// # Errors
    /// [`IndexError::PoolTooLarge`]; [`IndexError::Heap`] when there is no room.
    pub fn create(tx: &Tx<'_, M>) -> Result<PoolOffset, IndexError> {
        check_pool_len(tx.heap().memory())?;
        let root = tx.alloc_zeroed(TREE_SIZE, TREE_ALIGN, TYPE_TREE)?;
        tx.lock(root)?;
        tx.store8(Node::root(root).meta_at(), tree_meta());
        Ok(root)
    }

    /// Opens the tree whose root object is at `root`.
    ///
    /// # Errors
    /// [`IndexError::NoTree`], [`IndexError::PoolTooLarge`], [`IndexError::Fault`].
    pub fn open(heap: &'h Heap<M>, root: PoolOffset) -> Result<Tree<'h, M>, IndexError> {
        check_pool_len(heap.memory())?;
        if heap.memory().reading(|memory| memory.load8(Node::root(root).meta_at()))? != tree_meta() {
            return Err(IndexError::NoTree { at: root });
        }
        Ok(Tree { heap, root })
    }

    /// Opens the tree whose root object is at `root`, as the transaction sees it: one that the transaction has made, too.
    ///
    /// # Errors
    /// [`IndexError::NoTree`], [`IndexError::OtherPool`].
    pub fn open_in(heap: &'h Heap<M>, tx: &Tx<'_, M>, root: PoolOffset) -> Result<Tree<'h, M>, IndexError> {
        let tree = Tree { heap, root };
        tree.check_heap(tx)?;
        if tx.load8(Node::root(root).meta_at()) != tree_meta() {
            return Err(IndexError::NoTree { at: root });
        }
        Ok(tree)
    }

    /// Returns the tree of a pool without a root object that was opened for reading. It is empty and can't be
    /// changed.
    pub fn empty(heap: &'h Heap<M>) -> Tree<'h, M> {
        Tree { heap, root: PoolOffset::NULL }
    }

    /// Returns the heap that the tree is in.
    pub fn heap(&self) -> &'h Heap<M> {
        self.heap
    }

    /// Returns the offset of the root object. It is [`PoolOffset::NULL`] for the tree that
    /// [`empty`](Tree::empty) returns.
    pub fn root(&self) -> PoolOffset {
        self.root
    }

    /// Pins the calling thread for lookups and scans.
    ///
    /// # Cost
    /// One locked instruction. While a reader lives, the space of removed or replaced objects is not used again.
    #[inline]
    pub fn reader(&self) -> Reader<'h, M> {
        Reader::new(self.heap, self.root)
    }

    /// Returns a copy of the value of `key`, as [`Reader::get`] does: the right value or an error. `None` is not
    /// proved.
    ///
    /// # Errors
    /// As [`Reader::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        Ok(self.reader().get(key)?.map(Value::into_vec))
    }

    /// Gives `key` the value `value`. Returns true if it had a value before. The leaves on the path are not verified.
    /// If one is damaged, `false` does not prove that the key was absent, as for [`get`](Tree::get).
    ///
    /// # Errors
    /// [`IndexError::KeyTooLong`], [`IndexError::Corrupt`], [`IndexError::Fault`], [`IndexError::Heap`];
    /// [`IndexError::OtherPool`] if the caller passes a transaction of another heap.
    ///
    /// # Durability
    /// Durable on return.
    ///
    /// # Cost
    /// One drain.
    #[inline]
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.heap.run(|tx| self.insert_in(tx, key, value))
    }

    /// Inserts as [`insert`](Tree::insert) does, as a part of `tx`.
    ///
    /// # Errors
    /// As [`insert`](Tree::insert). After [`IndexError::Heap`] the transaction must end, so pass the error on.
    #[inline]
    pub fn insert_in(&self, tx: &Tx<'_, M>, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.change(tx, key, &mut Insert { key, value })
    }

    /// Removes `key`. Returns true if it was present. `false` is not proved, like `None` of [`get`](Tree::get).
    ///
    /// # Errors
    /// [`IndexError::Corrupt`], [`IndexError::Fault`], [`IndexError::Heap`].
    ///
    /// # Durability
    /// Durable on return.
    ///
    /// # Cost
    /// One drain, none if the key was not there.
    #[inline]
    pub fn delete(&self, key: &[u8]) -> Result<bool, IndexError> {
        self.heap.run(|tx| self.delete_in(tx, key))
    }

    /// Deletes as [`delete`](Tree::delete) does, as a part of `tx`. That a key is absent counts as read: `tx` starts
    /// again if another transaction adds the key before `tx` commits.
    ///
    /// # Errors
    /// As [`delete`](Tree::delete). After [`IndexError::Heap`] the transaction must end, so pass the error on.
    #[inline]
    pub fn delete_in(&self, tx: &Tx<'_, M>, key: &[u8]) -> Result<bool, IndexError> {
        self.change(tx, key, &mut Delete { key })
    }

    /// Passes the value of `key`, if it has one, to `decide`, and stores the value that `decide` returns. `None` from
    /// `decide` leaves the key as it is. No other thread changes the key in between. `decide` may be called several
    /// times.
    ///
    /// # Errors
    /// As [`insert`](Tree::insert).
    ///
    /// # Durability
    /// Durable on return.
    ///
    /// # Cost
    /// One drain, none if nothing is changed.
    pub fn update(
        &self,
        key: &[u8],
        mut decide: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<(), IndexError> {
        self.heap.run(|tx| self.update_in(tx, key, &mut decide))
    }

    /// Updates as [`update`](Tree::update) does, as a part of `tx`.
    ///
    /// # Errors
    /// As [`insert`](Tree::insert). After [`IndexError::Heap`] the transaction must end, so pass the error on.
    pub fn update_in(
        &self,
        tx: &Tx<'_, M>,
        key: &[u8],
        decide: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<(), IndexError> {
        self.change(tx, key, &mut Update { key, decide })
    }

    /// Gives `key` a value, unless it has one that `accepts` refuses, as seen by the transaction. `accepts` is called again if another
    /// transaction has changed the place.
    ///
    /// # Errors
    /// As [`update_in`](Tree::update_in).
    #[inline]
    pub(crate) fn replace_in(
        &self,
        tx: &Tx<'_, M>,
        key: &[u8],
        value: &[u8],
        accepts: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), IndexError> {
        self.change(tx, key, &mut Replace { key, value, accepts })
    }

    /// Returns a copy of the value of `key` as the transaction sees it, its own changes included.
    ///
    /// The read is validated: the transaction starts again if another one changes the key, or adds it, before this one
    /// commits. Waits for a transaction that is about to change the key's node.
    ///
    /// # Errors
    /// As [`Reader::get`]. After [`IndexError::Heap`] the transaction must end, so pass the error on.
    pub fn get_in(&self, tx: &Tx<'_, M>, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        self.check_heap(tx)?;
        if self.root.is_null() || key.len() > KEY_LEN_MAX {
            return Ok(None);
        }
        Ok(self.change(tx, key, &mut Get { key })?.map(Value::into_vec))
    }

    /// Returns a copy of the value of `key` as [`get_in`](Tree::get_in) does, but does not validate the read: the
    /// value may be another one when the transaction commits, and need not go with its other reads. Waits for no
    /// lock.
    ///
    /// # Errors
    /// As [`Reader::get`].
    pub fn get_unvalidated_in(&self, tx: &Tx<'_, M>, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        self.check_heap(tx)?;
        let _pin = self.heap.pin();
        let lookup = Lookup { heap: self.heap, view: tx, memory: tx.memory(), tx: Some(tx) };
        let found = lookup.get(self.root, key);
        tx.memory().fault().map_or(found, |fault| Err(fault.into())).map(|value| value.map(Value::into_vec))
    }

    /// Returns the number of keys as the transaction sees it, as the tree has counted them. The transaction starts
    /// again if another one adds or removes a key before this one commits.
    ///
    /// # Errors
    /// [`IndexError::Heap`], which the closure passes on; [`IndexError::Fault`].
    pub fn count_in(&self, tx: &Tx<'_, M>) -> Result<u64, IndexError> {
        self.check_heap(tx)?;
        if self.root.is_null() {
            return Ok(0);
        }
        let sum = count::sum_in(tx, self.root)?;
        tx.memory().fault().map_or(Ok(sum), |fault| Err(fault.into()))
    }

    /// Returns the number of keys, as the tree has counted them. While others add and remove keys, it is about the
    /// number at some moment of the call. It is not proved; [`count_leaves`](Tree::count_leaves) proves it.
    ///
    /// # Errors
    /// [`IndexError::Fault`].
    pub fn count(&self) -> Result<u64, IndexError> {
        if self.root.is_null() {
            return Ok(0);
        }
        Ok(self.heap.memory().reading(|memory| count::sum(memory, self.root))?)
    }

    /// Refuses a transaction of another heap, which would store there at this tree's offsets.
    #[inline]
    pub(crate) fn check_heap(&self, tx: &Tx<'_, M>) -> Result<(), IndexError> {
        if std::ptr::eq(tx.heap(), self.heap) { Ok(()) } else { Err(IndexError::OtherPool) }
    }

    /// Returns the number of leaves to which the tree leads. Stops at `most` + 1.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] when a node is damaged, [`IndexError::Fault`].
    ///
    /// # Cost
    /// Reads each node once, and no leaf.
    pub fn count_leaves(&self, most: u64) -> Result<u64, IndexError> {
        let _pin = self.heap.pin();
        let mut cursor = Cursor::new(Direction::Forward);
        let mut count = 0;
        self.heap.memory().try_reading(|view| {
            let source = Source { heap: self.heap, view };
            cursor.begin(source, self.root, None)?;
            while count <= most && cursor.next(source)?.is_some() {
                count += 1;
            }
            Ok(count)
        })
    }

    /// Repeats `change` until no other thread interferes.
    #[inline]
    pub(crate) fn change<C: Change<M>>(
        &self,
        tx: &Tx<'_, M>,
        key: &[u8],
        change: &mut C,
    ) -> Result<C::Output, IndexError> {
        if key.len() > KEY_LEN_MAX {
            return Err(IndexError::KeyTooLong { len: key.len() });
        }
        self.check_heap(tx)?;
        if self.root.is_null() {
            return Err(HeapError::ReadOnly.into());
        }
        let _pin = self.heap.pin();
        let held = tx.lock_savepoint();
        let (mut conflicts, mut wait) = (0, StabilityWait::default());
        for round in 0.. {
            let attempted = if tx.sees_memory() {
                change.attempt(&Attempt { tx, view: tx.memory(), root: self.root })
            } else {
                change.attempt(&Attempt { tx, view: tx, root: self.root })
            };
            match attempted {
                Ok(output) => {
                    return tx
                        .memory()
                        .fault()
                        .map_or(Ok(output), |fault| Err(abort_transaction(tx, fault.into())));
                }
                Err(Retry::Failed(error)) => return Err(error),
                Err(Retry::Conflict) if tx.will_restart() => return Err(HeapError::Conflict.into()),
                Err(Retry::Conflict) => conflicts += 1,
                // The writer that changes the place waits for no other thread, so holding locks meanwhile does no
                // harm. A restart would forget the number of attempts, and damage would keep the transaction for
                // ever.
                Err(Retry::Inconsistent(at)) => {
                    let damage = IndexError::Corrupt { what: "the node of the tree", at };
                    wait.wait_until_stable(self.heap, tx.memory(), damage)?;
                }
            }
            tx.unlock_since(held);
            if held.has_locks() && conflicts >= CONFLICTS_HOLDING_MAX {
                return Err(tx.restart().into());
            }
            self.heap.medium().relax(round);
        }
        unreachable!("the loop ends with a result")
    }
}

/// Prevents the commit of a transaction in which half of a change is stored.
#[cold]
fn abort_transaction<M: Medium>(tx: &Tx<'_, M>, error: IndexError) -> IndexError {
    tx.set_rollback_only();
    error
}

/// Aborts, as [`abort_transaction`] does, after an attempt that failed and may have stored something.
#[inline]
pub(crate) fn abort_on_error<M: Medium>(tx: &Tx<'_, M>, done: Result<(), Retry>) -> Result<(), Retry> {
    done.map_err(|retry| match retry {
        Retry::Failed(error) => Retry::Failed(abort_transaction(tx, error)),
        other => other,
    })
}

fn check_pool_len(memory: &Memory) -> Result<(), IndexError> {
    let len = memory.reserved();
    if len > SLOT_REACH {
        return Err(IndexError::PoolTooLarge { len, max: SLOT_REACH });
    }
    Ok(())
}

/// An operation that changes the tree, or reads it as a part of a transaction.
pub(crate) trait Change<M: Medium> {
    type Output;

    /// Finds and locks all that is to be changed, and only then changes it.
    fn attempt<V: View>(&mut self, attempt: &Attempt<'_, '_, M, V>) -> Result<Self::Output, Retry>;
}

struct Insert<'a> {
    key: &'a [u8],
    value: &'a [u8],
}

impl<M: Medium> Change<M> for Insert<'_> {
    type Output = bool;

    #[inline]
    fn attempt<V: View>(&mut self, attempt: &Attempt<'_, '_, M, V>) -> Result<bool, Retry> {
        let point = attempt.find_insert_point(self.key)?;
        abort_on_error(attempt.tx, attempt.put(&point, self.key, self.value))?;
        Ok(matches!(point, InsertPoint::Existing(_)))
    }
}

struct Update<'a, F> {
    key: &'a [u8],
    decide: F,
}

impl<M: Medium, F: FnMut(Option<&[u8]>) -> Option<Vec<u8>>> Change<M> for Update<'_, F> {
    type Output = ();

    fn attempt<V: View>(&mut self, attempt: &Attempt<'_, '_, M, V>) -> Result<(), Retry> {
        let point = attempt.find_insert_point(self.key)?;
        let old = attempt.value_at(&point, self.key)?;
        match (self.decide)(old.as_deref()) {
            Some(new) => abort_on_error(attempt.tx, attempt.put(&point, self.key, &new)),
            // The lock is kept: it proves what `decide` has seen.
            None => Ok(()),
        }
    }
}

/// Gives a key a value, unless `accepts` refuses the one that it has.
struct Replace<'a, F> {
    key: &'a [u8],
    value: &'a [u8],
    accepts: F,
}

impl<M: Medium, F: FnMut(&[u8]) -> bool> Change<M> for Replace<'_, F> {
    type Output = ();

    #[inline]
    fn attempt<V: View>(&mut self, attempt: &Attempt<'_, '_, M, V>) -> Result<(), Retry> {
        let point = attempt.find_insert_point(self.key)?;
        match attempt.value_at(&point, self.key)? {
            // The lock is kept, as that of an update.
            Some(old) if !(self.accepts)(&old) => Ok(()),
            _ => abort_on_error(attempt.tx, attempt.put(&point, self.key, self.value)),
        }
    }
}

struct Get<'a> {
    key: &'a [u8],
}

impl<M: Medium> Change<M> for Get<'_> {
    type Output = Option<Value>;

    #[inline]
    fn attempt<V: View>(&mut self, attempt: &Attempt<'_, '_, M, V>) -> Result<Option<Value>, Retry> {
        attempt.read_value(self.key)
    }
}

struct Delete<'a> {
    key: &'a [u8],
}

impl<M: Medium> Change<M> for Delete<'_> {
    type Output = bool;

    #[inline]
    fn attempt<V: View>(&mut self, attempt: &Attempt<'_, '_, M, V>) -> Result<bool, Retry> {
        let found = attempt.find_removal(&[self.key])?;
        if let Some(removal) = &found {
            abort_on_error(attempt.tx, attempt.remove(removal))?;
        }
        Ok(found.is_some())
    }
}
