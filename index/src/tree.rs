//! The tree: what can be asked of it and done to it.

use crate::attempt::{Attempt, Miss};
use crate::checked::Value;
use crate::count;
use crate::cursor::{Cursor, Way};
use crate::error::IndexError;
use crate::insert::Spot;
use crate::lookup::{Link, Lookup};
use crate::node::Node;
use crate::reader::Reader;
use crate::unrest::Unrest;
use crate::view::View;
use lode_heap::{Heap, HeapError, Tx};
use lode_layout::{KEY_LEN_MAX, PoolOffset, SLOT_REACH, TREE_SIZE, TYPE_TREE, tree_meta};
use lode_pmem::{Fault, Medium, Memory};

/// Conflicts after which a transaction that holds locks of earlier operations gives up and starts again.
const ATTEMPTS_HOLDING: u32 = 200;
/// A root object has cells of a line each.
const TREE_ALIGN: u64 = 64;

/// An ordered map from keys to values, in the pool behind `heap`.
///
/// Keys are any bytes, up to 64 KiB; one may be a prefix of another. Values are any bytes. Many threads may read
/// and write at once; readers take no lock.
///
/// # Durability
/// A change is durable when the transaction that it is part of has returned; for those that begin a transaction
/// of their own, when they return.
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
    /// Makes an empty tree; returns its root object, for [`open`](Tree::open). The caller keeps that offset in
    /// the pool, as the heap's root or in an object of its own.
    ///
    /// # Errors
    /// [`IndexError::PoolTooLarge`]; [`IndexError::Heap`] when there is no room.
    pub fn create(tx: &Tx<'_, M>) -> Result<PoolOffset, IndexError> {
        check_reach(tx.heap().memory())?;
        let root = tx.alloc_zeroed(TREE_SIZE, TREE_ALIGN, TYPE_TREE)?;
        tx.store8(Node::root(root).meta_at(), tree_meta());
        Ok(root)
    }

    /// Opens the tree whose root object is at `root`.
    ///
    /// # Errors
    /// [`IndexError::NoTree`], [`IndexError::PoolTooLarge`], [`IndexError::Fault`].
    pub fn open(heap: &'h Heap<M>, root: PoolOffset) -> Result<Tree<'h, M>, IndexError> {
        check_reach(heap.memory())?;
        if heap.memory().load8(Node::root(root).meta_at()) != tree_meta() {
            return Err(Fault::take().map_or(IndexError::NoTree { at: root }, IndexError::from));
        }
        Ok(Tree { heap, root })
    }

    /// The tree of a pool without a root object that was opened for reading: empty, and it can't be changed.
    pub(crate) fn absent(heap: &'h Heap<M>) -> Tree<'h, M> {
        Tree { heap, root: PoolOffset::NULL }
    }

    /// The heap that the tree is in.
    pub fn heap(&self) -> &'h Heap<M> {
        self.heap
    }

    /// Where the root object is; [`PoolOffset::NULL`] for the tree of a [`Store`](crate::kv::Store) without one, which is
    /// empty.
    pub fn root(&self) -> PoolOffset {
        self.root
    }

    /// Pins the calling thread for lookups and scans.
    ///
    /// # Cost
    /// One locked instruction. While a reader lives, what is removed or replaced is not used again.
    #[inline]
    pub fn reader(&self) -> Reader<'h, M> {
        Reader::new(self.heap, self.root)
    }

    /// Returns a copy of the value of `key`, as [`Reader::get`] does: the right one or an error, or `None`, which is
    /// not proved.
    ///
    /// # Errors
    /// As [`Reader::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        Ok(self.reader().get(key)?.map(Value::into_vec))
    }

    /// Gives `key` the value `value`; whether it had another one before. The leaves that lie on the way are not
    /// verified: where one is damaged, that it had none is not proved, as for [`get`](Tree::get).
    ///
    /// # Errors
    /// [`IndexError::KeyTooLong`], [`IndexError::Corrupt`], [`IndexError::Fault`], [`IndexError::Heap`];
    /// [`IndexError::OtherPool`] where the caller gives the transaction.
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

    /// As [`insert`](Tree::insert), as a part of `tx`.
    ///
    /// # Errors
    /// As [`insert`](Tree::insert). When it is one of the heap the transaction must end, so pass it on.
    #[inline]
    pub fn insert_in(&self, tx: &Tx<'_, M>, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.change(tx, key, &mut Insert { key, value })
    }

    /// Removes `key`; whether it was there. That it was not is proved as little as by [`get`](Tree::get).
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

    /// As [`delete`](Tree::delete), as a part of `tx`.
    ///
    /// # Errors
    /// As [`delete`](Tree::delete). When it is one of the heap the transaction must end, so pass it on.
    #[inline]
    pub fn delete_in(&self, tx: &Tx<'_, M>, key: &[u8]) -> Result<bool, IndexError> {
        self.change(tx, key, &mut Delete { key })
    }

    /// Gives `key` the value that `decide` makes of the one it has, or leaves it as it is for `None`. Nobody else
    /// changes the key in between. `decide` may be called several times.
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

    /// As [`update`](Tree::update), as a part of `tx`.
    ///
    /// # Errors
    /// As [`insert`](Tree::insert). When it is one of the heap the transaction must end, so pass it on.
    pub fn update_in(
        &self,
        tx: &Tx<'_, M>,
        key: &[u8],
        decide: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<(), IndexError> {
        self.change(tx, key, &mut Update { key, decide })
    }

    /// A copy of the value of `key` as the transaction sees it: with what it has changed itself.
    ///
    /// Takes no lock: until the transaction is over others may change the key, unless it has changed it.
    ///
    /// # Errors
    /// As [`Reader::get`].
    pub fn get_in(&self, tx: &Tx<'_, M>, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        self.check_heap(tx)?;
        let _pin = self.heap.pin();
        let value = Lookup { heap: self.heap, view: tx, tx: Some(tx) }.get(self.root, key)?;
        Ok(value.map(Value::into_vec))
    }

    /// The number of keys, as the tree has counted them; while others add and remove keys, about what it was at some
    /// moment of the call. Nothing proves it: [`Store::count_proven`](crate::kv::Store::count_proven) does.
    ///
    /// # Errors
    /// [`IndexError::Fault`].
    pub fn count(&self) -> Result<u64, IndexError> {
        if self.root.is_null() {
            return Ok(0);
        }
        let sum = count::sum(self.heap.memory(), self.root);
        Fault::take().map_or(Ok(sum), |fault| Err(fault.into()))
    }

    /// Fails for a transaction of another heap, which would store there at this one's offsets.
    #[inline]
    fn check_heap(&self, tx: &Tx<'_, M>) -> Result<(), IndexError> {
        if std::ptr::eq(tx.heap(), self.heap) { Ok(()) } else { Err(IndexError::OtherPool) }
    }

    /// Returns the number of leaves to which the tree leads, for as long as there are no more than `most`.
    ///
    /// # Cost
    /// Reads each node once, and no leaf.
    pub(crate) fn count_leaves(&self, most: u64) -> Result<u64, IndexError> {
        let _pin = self.heap.pin();
        let mut cursor = Cursor::new(self.heap, Way::Up);
        let mut count = 0;
        let mut walk = || {
            cursor.begin(self.root, None)?;
            while count <= most && cursor.next()?.is_some() {
                count += 1;
            }
            Ok(())
        };
        let walked = walk();
        Fault::take().map_or(walked, |fault| Err(fault.into())).map(|()| count)
    }

    /// Tries `change` until nobody comes between.
    #[inline]
    fn change<C: Change<M>>(
        &self,
        tx: &Tx<'_, M>,
        key: &[u8],
        change: &mut C,
    ) -> Result<C::Answer, IndexError> {
        if key.len() > KEY_LEN_MAX {
            return Err(IndexError::KeyTooLong { len: key.len() });
        }
        self.check_heap(tx)?;
        if self.root.is_null() {
            return Err(HeapError::ReadOnly.into());
        }
        let _pin = self.heap.pin();
        let held = tx.held();
        let (mut conflicts, mut unrest) = (0, Unrest::default());
        for round in 0.. {
            let attempted = if tx.is_clean() {
                change.attempt(&Attempt { tx, view: self.heap.memory(), root: self.root })
            } else {
                change.attempt(&Attempt { tx, view: tx, root: self.root })
            };
            match attempted {
                Ok(answer) => {
                    return Fault::take().map_or(Ok(answer), |fault| Err(give_up(tx, fault.into())));
                }
                Err(Miss::Failed(error)) => return Err(error),
                Err(Miss::Conflict) => conflicts += 1,
                // Whoever makes it so waits for nobody, so to hold locks meanwhile does no harm. Starting again
                // would forget how often it was so, and damage would keep the transaction for ever.
                Err(Miss::Unsettled(at)) => {
                    unrest.outlast(self.heap, IndexError::Corrupt { what: "the node of the tree", at })?;
                }
            }
            tx.unlock_since(held);
            if held.is_any() && conflicts >= ATTEMPTS_HOLDING {
                return Err(tx.restart().into());
            }
            self.heap.medium().relax(round);
        }
        unreachable!("the loop ends with an answer")
    }
}

/// Keeps a transaction in which half of a change is stored from being committed.
#[cold]
fn give_up<M: Medium>(tx: &Tx<'_, M>, error: IndexError) -> IndexError {
    tx.doom();
    error
}

/// As [`give_up`], for an attempt that may already have stored something.
#[inline]
fn or_give_up<M: Medium>(tx: &Tx<'_, M>, done: Result<(), Miss>) -> Result<(), Miss> {
    done.map_err(|miss| match miss {
        Miss::Failed(error) => Miss::Failed(give_up(tx, error)),
        other => other,
    })
}

fn check_reach(memory: &Memory) -> Result<(), IndexError> {
    let len = memory.reserved();
    if len > SLOT_REACH {
        return Err(IndexError::PoolTooLarge { len, max: SLOT_REACH });
    }
    Ok(())
}

/// An operation that changes the tree.
trait Change<M: Medium> {
    type Answer;

    /// Finds out what is to be changed, locks it, and only then changes it.
    fn attempt<V: View>(&mut self, attempt: &Attempt<'_, '_, M, V>) -> Result<Self::Answer, Miss>;
}

struct Insert<'a> {
    key: &'a [u8],
    value: &'a [u8],
}

impl<M: Medium> Change<M> for Insert<'_> {
    type Answer = bool;

    #[inline]
    fn attempt<V: View>(&mut self, attempt: &Attempt<'_, '_, M, V>) -> Result<bool, Miss> {
        let spot = attempt.spot(self.key)?;
        or_give_up(attempt.tx, attempt.put(&spot, self.key, self.value))?;
        Ok(matches!(spot, Spot::There(_)))
    }
}

struct Update<'a, F> {
    key: &'a [u8],
    decide: F,
}

impl<M: Medium, F: FnMut(Option<&[u8]>) -> Option<Vec<u8>>> Change<M> for Update<'_, F> {
    type Answer = ();

    fn attempt<V: View>(&mut self, attempt: &Attempt<'_, '_, M, V>) -> Result<(), Miss> {
        let held = attempt.tx.held();
        let spot = attempt.spot(self.key)?;
        let old = match &spot {
            Spot::There(step) => Some(attempt.lookup().settle(&Link::from(step), |leaf| leaf.value())?),
            _ => attempt.vouch_for_absence(self.key).map(|()| None)?,
        };
        match (self.decide)(old.as_deref()) {
            Some(new) => or_give_up(attempt.tx, attempt.put(&spot, self.key, &new)),
            None => {
                attempt.tx.unlock_since(held);
                Ok(())
            }
        }
    }
}

struct Delete<'a> {
    key: &'a [u8],
}

impl<M: Medium> Change<M> for Delete<'_> {
    type Answer = bool;

    #[inline]
    fn attempt<V: View>(&mut self, attempt: &Attempt<'_, '_, M, V>) -> Result<bool, Miss> {
        let found = attempt.removal(self.key)?;
        if let Some((leaf, removal)) = &found {
            or_give_up(attempt.tx, attempt.remove(*leaf, removal))?;
        }
        Ok(found.is_some())
    }
}
