//! Scans: keys and values between two bounds, from both ends.

use crate::cursor::{Cursor, Way};
use crate::error::IndexError;
use crate::leaf;
use crate::reader::{Reader, Value};
use lode_layout::{KEY_LEN_MAX, LEAF_HEADER, PoolOffset};
use lode_pmem::{Fault, Medium, Memory};
use std::ops::{Bound, RangeBounds};

/// A key and its value.
#[derive(Clone, Debug)]
pub struct Entry<'r> {
    /// The key.
    pub key: Vec<u8>,
    /// The value that it had.
    pub value: Value<'r>,
    memory: &'r Memory,
    leaf: PoolOffset,
}

impl Entry<'_> {
    /// That key and value are as they were written, which their checksum proves. Nobody may write to the tree
    /// meanwhile: a new value of up to 8 bytes and its checksum are not stored at once.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`], [`IndexError::Fault`].
    ///
    /// # Cost
    /// Reads all of both.
    pub fn verify(&self) -> Result<(), IndexError> {
        let is_sound = leaf::is_sound(self.memory, self.leaf, &leaf::header(self.memory, self.leaf));
        match Fault::take() {
            Some(fault) => Err(fault.into()),
            None if is_sound => Ok(()),
            None => Err(IndexError::Corrupt { what: "the checksum of the leaf", at: self.leaf }),
        }
    }
}

/// The entries of a range of keys, ascending from the front and descending from the back.
///
/// It yields each key that is there all the time, once, with a value that it had at some moment of the scan. Keys
/// that come or go meanwhile are there or not. After an error it ends.
///
/// # Cost
/// Each node is read once a direction, each key is copied; no lock, no store.
#[derive(Debug)]
pub struct Range<'r, M: Medium> {
    reader: &'r Reader<'r, M>,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    front: Option<Cursor<'r>>,
    back: Option<Cursor<'r>>,
    is_over: bool,
}

impl<'h, M: Medium> Reader<'h, M> {
    /// The entries whose keys lie in `keys`.
    pub fn range<K: AsRef<[u8]>>(&self, keys: impl RangeBounds<K>) -> Range<'_, M> {
        let own = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        self.between(own(keys.start_bound()), own(keys.end_bound()))
    }

    /// The entries whose keys begin with `prefix`.
    pub fn prefix(&self, prefix: &[u8]) -> Range<'_, M> {
        let end = prefix_end(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        self.between(Bound::Included(prefix.to_vec()), end)
    }

    /// All entries.
    pub fn iter(&self) -> Range<'_, M> {
        self.between(Bound::Unbounded, Bound::Unbounded)
    }

    /// The entry of the least key.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`], [`IndexError::Fault`].
    pub fn first(&self) -> Result<Option<Entry<'_>>, IndexError> {
        self.iter().next().transpose()
    }

    /// The entry of the greatest key.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`], [`IndexError::Fault`].
    pub fn last(&self) -> Result<Option<Entry<'_>>, IndexError> {
        self.iter().next_back().transpose()
    }

    fn between(&self, from: Bound<Vec<u8>>, to: Bound<Vec<u8>>) -> Range<'_, M> {
        Range { reader: self, from, to, front: None, back: None, is_over: false }
    }
}

/// The least key that comes after all keys that begin with `prefix`; none where no key does. Ranges within a prefix end
/// there.
#[must_use]
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

fn key_of(bound: &Bound<Vec<u8>>) -> Option<&[u8]> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}

fn is_above(from: &Bound<Vec<u8>>, key: &[u8]) -> bool {
    match from {
        Bound::Included(from) => key >= from.as_slice(),
        Bound::Excluded(from) => key > from.as_slice(),
        Bound::Unbounded => true,
    }
}

fn is_below(to: &Bound<Vec<u8>>, key: &[u8]) -> bool {
    match to {
        Bound::Included(to) => key <= to.as_slice(),
        Bound::Excluded(to) => key < to.as_slice(),
        Bound::Unbounded => true,
    }
}

/// A copy of the key of the leaf at `leaf`.
fn copy_key(memory: &Memory, leaf: PoolOffset) -> Result<Vec<u8>, IndexError> {
    let len = leaf::header(memory, leaf).key_len as usize;
    if len > KEY_LEN_MAX {
        return Err(IndexError::Corrupt { what: "the header of the leaf", at: leaf });
    }
    let mut key = vec![0; len];
    memory.read(leaf.plus(LEAF_HEADER), &mut key);
    Ok(key)
}

impl<'r, M: Medium> Range<'r, M> {
    /// The next entry from one end, which becomes the bound there.
    fn step(&mut self, way: Way) -> Result<Option<Entry<'r>>, IndexError> {
        let memory = self.reader.memory();
        let (cursor, start) = match way {
            Way::Up => (&mut self.front, &self.from),
            Way::Down => (&mut self.back, &self.to),
        };
        let is_first = cursor.is_none();
        if cursor.is_none() {
            *cursor = Some(Cursor::new(memory, self.reader.root(), way, key_of(start))?);
        }
        let Some(cursor) = cursor else { return Ok(None) };
        let mut skipped = false;
        while let Some(leaf) = cursor.next()? {
            let key = copy_key(memory, leaf)?;
            let (is_behind, is_before_end) = match way {
                Way::Up => (is_above(&self.from, &key), is_below(&self.to, &key)),
                Way::Down => (is_below(&self.to, &key), is_above(&self.from, &key)),
            };
            if !is_behind {
                // Only the first leaf of all may lie before the bound; later ones ascend, or descend.
                if !is_first || skipped {
                    return Err(IndexError::Corrupt {
                        what: "the order of the keys before the leaf",
                        at: leaf,
                    });
                }
                skipped = true;
                continue;
            }
            if !is_before_end {
                return Ok(None);
            }
            let value = Value::of(memory, leaf)?;
            match way {
                Way::Up => self.from = Bound::Excluded(key.clone()),
                Way::Down => self.to = Bound::Excluded(key.clone()),
            }
            return Ok(Some(Entry { key, value, memory, leaf }));
        }
        Ok(None)
    }

    fn guarded(&mut self, way: Way) -> Option<Result<Entry<'r>, IndexError>> {
        if self.is_over {
            return None;
        }
        let stepped = self.step(way);
        let answer = match Fault::take() {
            Some(fault) => Err(fault.into()),
            None => stepped,
        };
        self.is_over = !matches!(answer, Ok(Some(_)));
        answer.transpose()
    }
}

impl<'r, M: Medium> Iterator for Range<'r, M> {
    type Item = Result<Entry<'r>, IndexError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.guarded(Way::Up)
    }
}

impl<M: Medium> DoubleEndedIterator for Range<'_, M> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.guarded(Way::Down)
    }
}
