//! Leaves: comparing keys with them and making new ones.

use crate::bugs;
use crate::error::IndexError;
use crate::node::Symbol;
use crate::view::View;
use lode_heap::{HeapError, Tx};
use lode_layout::{LEAF_HEADER, LeafHeader, PoolOffset, TYPE_LEAF, WORD, encode_leaf, leaf_crc, leaf_words};
use lode_pmem::{Medium, Readable};
use zerocopy::IntoBytes;

/// Greatest number of words of a leaf that is built without allocating memory.
const SMALL_WORDS: usize = 16;
/// Alignment of leaves, which lets a slot hold their offset.
const LEAF_ALIGN: u64 = 16;

/// Result of comparing a key with that of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// They are equal.
    Equal,
    /// They differ first at byte number `at`, where the leaf's key has `theirs`.
    Differs { at: usize, theirs: Symbol },
}

#[inline]
pub(crate) fn header(view: &impl View, leaf: PoolOffset) -> LeafHeader {
    LeafHeader::from_words([view.load8(leaf), view.load8(leaf.plus(WORD))])
}

/// Returns true if the leaf at `leaf` is that of `key`.
#[inline(always)]
pub(crate) fn has_key(view: &impl View, leaf: PoolOffset, key: &[u8]) -> bool {
    let key_len = view.load8(leaf) >> 32;
    let at = leaf.plus(LEAF_HEADER);
    let (words, rest) = key.as_chunks::<8>();
    let mut equal = key_len == key.len() as u64;
    for (index, word) in words.iter().enumerate() {
        if !equal {
            return false;
        }
        equal = view.load8(at.plus(index as u64 * WORD)) == u64::from_le_bytes(*word);
    }
    if rest.is_empty() || !equal {
        return equal;
    }
    let differ = view.load8(at.plus(words.len() as u64 * WORD)) ^ word_of(rest);
    differ << (64 - rest.len() * 8) == 0
}

/// Compares `key` with the key of the leaf at `leaf`.
pub(crate) fn compare(view: &impl View, leaf: PoolOffset, key: &[u8]) -> Match {
    let theirs = (view.load8(leaf) >> 32) as usize;
    let shared = theirs.min(key.len());
    let at = leaf.plus(LEAF_HEADER);
    for (index, part) in key[..shared].chunks(8).enumerate() {
        let word = view.load8(at.plus(index as u64 * WORD));
        let differ = (word ^ word_of(part)) << ((8 - part.len()) * 8);
        if differ != 0 {
            let byte = (differ >> ((8 - part.len()) * 8)).trailing_zeros() / 8;
            let theirs = Symbol::Byte((word >> (byte * 8)) as u8);
            return Match::Differs { at: index * 8 + byte as usize, theirs };
        }
    }
    if theirs == key.len() {
        return Match::Equal;
    }
    if theirs == shared {
        return Match::Differs { at: shared, theirs: Symbol::End };
    }
    let byte = view.load8(at.plus((shared as u64) & !7)) >> (shared % 8 * 8);
    Match::Differs { at: shared, theirs: Symbol::Byte(byte as u8) }
}

/// Returns the word that begins with `part`, at most 8 bytes, and ends with zeros.
#[inline]
fn word_of(part: &[u8]) -> u64 {
    if let Ok(word) = <[u8; 8]>::try_from(part) {
        return u64::from_le_bytes(word);
    }
    let mut word = [0; 8];
    word[..part.len()].copy_from_slice(part);
    u64::from_le_bytes(word)
}

/// Calls `with` with the words of the leaf of `key` and `value`.
#[inline]
fn with_encoded<R>(key: &[u8], value: &[u8], with: impl FnOnce(&[u64]) -> R) -> R {
    let len = leaf_words(key.len(), value.len());
    if len <= SMALL_WORDS {
        let mut words = [0; SMALL_WORDS];
        encode_leaf(key, value, &mut words[..len]);
        return with(&words[..len]);
    }
    let mut words = vec![0; len];
    encode_leaf(key, value, &mut words);
    with(&words)
}

/// Allocates the leaf of `key` and `value`.
#[inline]
pub(crate) fn alloc<M: Medium>(tx: &Tx<'_, M>, key: &[u8], value: &[u8]) -> Result<PoolOffset, HeapError> {
    with_encoded(key, value, |words| tx.alloc_with(words, LEAF_ALIGN, TYPE_LEAF))
}

/// Allocates a copy of the leaf at `leaf`, checksum included.
pub(crate) fn copy<M: Medium>(
    tx: &Tx<'_, M>,
    view: &impl View,
    leaf: PoolOffset,
) -> Result<PoolOffset, IndexError> {
    let damaged = || IndexError::Corrupt { what: "the header of the leaf", at: leaf };
    let len = header(view, leaf).leaf_len().filter(|len| *len <= view.len()).ok_or_else(damaged)?;
    let mut words = vec![0; (len / WORD) as usize];
    view.read(leaf, words.as_mut_bytes());
    Ok(tx.alloc_with(&words, LEAF_ALIGN, TYPE_LEAF)?)
}

/// Stores another value in place in `leaf`, whose key is `key`. Returns false if this would take more than a single
/// store of a word, since readers take no lock.
#[inline]
pub(crate) fn change_in_place<M: Medium>(
    tx: &Tx<'_, M>,
    header: &LeafHeader,
    leaf: PoolOffset,
    key: &[u8],
    value: &[u8],
) -> bool {
    let fits = value.len() as u64 == header.value_len && header.value_len <= WORD;
    if fits && !value.is_empty() {
        with_encoded(key, value, |words| {
            let (at, word) = (leaf.plus(header.value_off()), words[words.len() - 1]);
            if bugs::VALUE_BEFORE_DRAIN.is_active() {
                tx.heap().medium().store8(at, word);
            }
            tx.store8(at, word);
            tx.store8(leaf, words[0]);
        });
    }
    fits
}

/// Returns the offset of the value of the leaf at `leaf`, and its length in bytes. Fails if the pool of `pool_len`
/// bytes does not hold it.
#[inline]
pub(crate) fn value_range(
    view: &impl View,
    leaf: PoolOffset,
    pool_len: u64,
) -> Result<(PoolOffset, u64), IndexError> {
    let header = header(view, leaf);
    let damaged = || IndexError::Corrupt { what: "the header of the leaf", at: leaf };
    let len = header.leaf_len().ok_or_else(damaged)?;
    if leaf.get() > pool_len || len > pool_len - leaf.get() {
        return Err(damaged());
    }
    Ok((leaf.plus(header.value_off()), header.value_len))
}

/// Returns true if the leaf at `leaf` has the checksum that its header says.
pub(crate) fn has_valid_checksum(memory: &Readable, leaf: PoolOffset, header: &LeafHeader) -> bool {
    let len = header.leaf_len().unwrap_or(0).min(memory.len());
    let mut words = vec![0u64; (len / WORD) as usize];
    memory.read(leaf, words.as_mut_bytes());
    len > 0 && leaf_crc(&words) == header.crc
}
