//! Reading whole leaves: only a copy whose checksum is right is compared, split and returned.
//!
//! A value of up to 8 bytes changes in place by two stores. A copy taken between them has a wrong checksum and no
//! damage: [`ChecksumMismatch`]. `stability` tells the two apart.

use crate::leaf::{self, Match};
use crate::view::View;
use lode_layout::{KEY_LEN_MAX, LEAF_HEADER, LeafHeader, PoolOffset, WORD, leaf_crc, leaf_crc_append};
use std::fmt;
use std::ops::Deref;
use zerocopy::IntoBytes;

/// Greatest number of words of a leaf that is copied word by word.
const SMALL_WORDS: usize = 16;
/// Greatest number of words of a leaf that is copied without allocating memory.
const MEDIUM_WORDS: usize = 64;
/// Words above which a leaf is verified before memory is allocated: a damaged length is not believed.
const LARGE_WORDS: usize = 1 << 17;
/// Words that are verified at a time in such a leaf.
const PART_WORDS: usize = 512;
/// Greatest number of words of a value that is kept without allocating memory.
const INLINE_WORDS: usize = 3;

/// The error of a leaf whose checksum does not fit its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChecksumMismatch;

/// The value of a key: a copy of the bytes whose checksum was verified.
#[derive(Clone)]
pub struct Value(Bytes);

#[derive(Clone)]
enum Bytes {
    Inline { len: u8, words: [u64; INLINE_WORDS] },
    Allocated(Vec<u8>),
}

/// A copy of a leaf whose checksum is right. As a [`View`], it begins at offset 0.
pub(crate) struct VerifiedLeaf<'a> {
    words: &'a [u64],
    header: LeafHeader,
}

/// Calls `with` with a copy of the leaf at `leaf`. A load that failed leaves a fault, which the caller takes.
#[inline(always)]
pub(crate) fn read<R>(
    view: &impl View,
    leaf: PoolOffset,
    with: impl FnOnce(&VerifiedLeaf<'_>) -> R,
) -> Result<R, ChecksumMismatch> {
    let first = [view.load8(leaf), view.load8(leaf.plus(WORD))];
    let header = LeafHeader::from_words(first);
    let len = (header.leaf_len().ok_or(ChecksumMismatch)? / WORD) as usize;
    if len > SMALL_WORDS {
        return read_long(view, leaf, &header, len, with);
    }
    let mut words = [0; SMALL_WORDS];
    words[..2].copy_from_slice(&first);
    for (index, word) in words[..len].iter_mut().enumerate().skip(2) {
        *word = view.load8(leaf.plus(index as u64 * WORD));
    }
    let words = &words[..len];
    if leaf_crc(words) == header.crc {
        Ok(with(&VerifiedLeaf { words, header }))
    } else {
        Err(ChecksumMismatch)
    }
}

/// Calls `with` with a copy of a leaf of `len` words. The length may be damaged.
#[inline(never)]
fn read_long<R>(
    view: &impl View,
    leaf: PoolOffset,
    header: &LeafHeader,
    len: usize,
    with: impl FnOnce(&VerifiedLeaf<'_>) -> R,
) -> Result<R, ChecksumMismatch> {
    let room = view.len().saturating_sub(leaf.get()) / WORD;
    if len as u64 > room || header.key_len as usize > KEY_LEN_MAX {
        return Err(ChecksumMismatch);
    }
    if len <= MEDIUM_WORDS {
        return Ok(with(&copy(view, leaf, header, &mut [0; MEDIUM_WORDS][..len])?));
    }
    if len > LARGE_WORDS && !has_valid_checksum_in_parts(view, leaf, len) {
        return Err(ChecksumMismatch);
    }
    Ok(with(&copy(view, leaf, header, &mut vec![0; len])?))
}

/// Copies a leaf to `words`, as many as it has.
fn copy<'a>(
    view: &impl View,
    leaf: PoolOffset,
    header: &LeafHeader,
    words: &'a mut [u64],
) -> Result<VerifiedLeaf<'a>, ChecksumMismatch> {
    view.read(leaf, words.as_mut_bytes());
    // The bytes may have changed since, in a leaf whose value changes.
    let found = LeafHeader::from_words([words[0], words[1]]);
    let is_sound = found.leaf_len() == header.leaf_len() && leaf_crc(words) == found.crc;
    if is_sound { Ok(VerifiedLeaf { words, header: found }) } else { Err(ChecksumMismatch) }
}

fn has_valid_checksum_in_parts(view: &impl View, leaf: PoolOffset, len: usize) -> bool {
    let mut part = [0; PART_WORDS];
    let (mut crc, mut found) = (0, 0);
    for first in (0..len).step_by(PART_WORDS) {
        let words = &mut part[..PART_WORDS.min(len - first)];
        view.read(leaf.plus(first as u64 * WORD), words.as_mut_bytes());
        if first == 0 {
            (crc, found) = (words[0] as u32, leaf_crc(words));
        } else {
            found = leaf_crc_append(found, words);
        }
    }
    crc == found
}

/// Returns the value of `key`, if the leaf at `leaf` is that of `key`.
#[inline(always)]
pub(crate) fn value_of(
    view: &impl View,
    leaf: PoolOffset,
    key: &[u8],
) -> Result<Option<Value>, ChecksumMismatch> {
    read(view, leaf, |leaf| leaf.has_key(key).then(|| leaf.value()))
}

impl VerifiedLeaf<'_> {
    /// Returns true if this is the leaf of `key`.
    #[inline(always)]
    pub(crate) fn has_key(&self, key: &[u8]) -> bool {
        leaf::has_key(self, PoolOffset::NULL, key)
    }

    /// Compares `key` with the key of the leaf.
    pub(crate) fn compare(&self, key: &[u8]) -> Match {
        leaf::compare(self, PoolOffset::NULL, key)
    }

    /// Returns the key.
    pub(crate) fn key(&self) -> &[u8] {
        &self.words.as_bytes()[LEAF_HEADER as usize..][..self.header.key_len as usize]
    }

    /// Returns the bytes of the value.
    pub(crate) fn value_bytes(&self) -> &[u8] {
        let (first, len) = (self.header.value_off() as usize, self.header.value_len as usize);
        &self.words.as_bytes()[first..][..len]
    }

    /// Returns the value.
    #[inline(always)]
    pub(crate) fn value(&self) -> Value {
        let (first, len) = ((self.header.value_off() / WORD) as usize, self.header.value_len as usize);
        if len > INLINE_WORDS * WORD as usize {
            return Value(Bytes::Allocated(self.words[first..].as_bytes()[..len].to_vec()));
        }
        let words = std::array::from_fn(|index| self.words.get(first + index).copied().unwrap_or(0));
        Value(Bytes::Inline { len: len as u8, words })
    }
}

impl View for VerifiedLeaf<'_> {
    #[inline(always)]
    fn load8(&self, at: PoolOffset) -> u64 {
        self.words.get((at.get() / WORD) as usize).copied().unwrap_or(0)
    }

    fn prefetch(&self, _at: PoolOffset) {}

    fn read(&self, at: PoolOffset, into: &mut [u8]) {
        into.copy_from_slice(&self.words.as_bytes()[at.get() as usize..][..into.len()]);
    }

    fn len(&self) -> u64 {
        self.words.len() as u64 * WORD
    }
}

impl Value {
    /// Returns the bytes of the value.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Bytes::Inline { len, words } => &words.as_bytes()[..usize::from(*len)],
            Bytes::Allocated(bytes) => bytes,
        }
    }

    /// Returns the bytes of the value. Those of a long one are not copied.
    #[inline]
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Bytes::Allocated(bytes) => bytes,
            inline @ Bytes::Inline { .. } => Value(inline).as_bytes().to_vec(),
        }
    }
}

impl From<Value> for Vec<u8> {
    fn from(value: Value) -> Vec<u8> {
        value.into_vec()
    }
}

/// Makes a value of bytes that were verified elsewhere.
impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Value {
        let mut words = [0; INLINE_WORDS];
        match words.as_mut_bytes().get_mut(..bytes.len()) {
            None => Value(Bytes::Allocated(bytes.to_vec())),
            Some(inline) => {
                inline.copy_from_slice(bytes);
                Value(Bytes::Inline { len: bytes.len() as u8, words })
            }
        }
    }
}

/// Makes a value of bytes that were verified elsewhere.
impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Value {
        Value(Bytes::Allocated(bytes))
    }
}

impl Deref for Value {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl AsRef<[u8]> for Value {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        **self == **other
    }
}

impl Eq for Value {}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Value").field(&self.as_bytes()).finish()
    }
}
