//! Keys, laid out one after the other in the order of their use. Reading them costs all engines the same and next to
//! nothing.

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use std::collections::HashSet;
use std::fs;

/// The word list of Debian's `wamerican-insane`.
pub(crate) const WORDS: &str = "/usr/share/dict/american-english-insane";

/// The low bits of an id that count up.
const NUMBER_BITS: u32 = 24;

/// The kind of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeySet {
    /// Random keys of 8 bytes.
    Random,
    /// English words.
    Words,
}

/// A list of keys in a certain order. Each is followed by a NUL, which most engines leave alone.
pub(crate) struct Keys {
    bytes: Vec<u8>,
    /// Offset in `bytes` after each key and its NUL.
    ends: Vec<u32>,
    /// Value that is stored under each key.
    ids: Vec<u64>,
}

impl Keys {
    /// Keys with ids that say which key they belong to, and count up.
    fn number<'a>(list: impl Iterator<Item = &'a [u8]>) -> Result<Keys> {
        let id = |key, number| u64::from(crc32c::crc32c(key)) << NUMBER_BITS | number;
        Keys::build(list.zip(0..).map(|(key, number)| (key, id(key, number))))
    }

    /// Returns the number of the key that an id belongs to: different for all keys of a list.
    pub(crate) fn number_of(id: u64) -> u32 {
        (id & ((1 << NUMBER_BITS) - 1)) as u32
    }

    fn build<'a>(list: impl Iterator<Item = (&'a [u8], u64)>) -> Result<Keys> {
        let mut keys = Keys { bytes: Vec::new(), ends: Vec::new(), ids: Vec::new() };
        for (key, id) in list {
            keys.bytes.extend_from_slice(key);
            keys.bytes.push(0);
            keys.ends.push(u32::try_from(keys.bytes.len()).context("key lists end at 4 GiB")?);
            keys.ids.push(id);
        }
        Ok(keys)
    }

    /// `count` keys of the set, all different, in random order. Words are all there are, or `count` if that is less.
    pub(crate) fn new(set: KeySet, count: usize, rng: &mut Rng) -> Result<Keys> {
        match set {
            KeySet::Random => {
                let mut seen = HashSet::with_capacity(count);
                let mut list = Vec::with_capacity(count);
                while list.len() < count {
                    let key = rng.u64(..);
                    if seen.insert(key) {
                        list.push(key.to_be_bytes());
                    }
                }
                Keys::number(list.iter().map(<[u8; 8]>::as_slice))
            }
            KeySet::Words => {
                let text = fs::read(WORDS).with_context(|| format!("{WORDS}: install wamerican-insane"))?;
                let mut list: Vec<&[u8]> =
                    text.split(|byte| *byte == b'\n').filter(|w| !w.is_empty()).collect();
                list.sort_unstable();
                list.dedup();
                ensure!(!text.contains(&0), "{WORDS} holds a NUL");
                rng.shuffle(&mut list);
                list.truncate(count);
                Keys::number(list.into_iter())
            }
        }
    }

    /// The same keys in another random order; each id grows by `add`.
    pub(crate) fn reordered(&self, add: u64, rng: &mut Rng) -> Result<Keys> {
        let mut order: Vec<usize> = (0..self.len()).collect();
        rng.shuffle(&mut order);
        Keys::build(order.into_iter().map(|index| (self.key(index), self.ids[index] + add)))
    }

    /// Number of keys.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    fn key(&self, index: usize) -> &[u8] {
        let with_nul = self.key_with_nul(index);
        &with_nul[..with_nul.len() - 1]
    }

    fn key_with_nul(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.bytes[start..self.ends[index] as usize]
    }

    /// All keys with their ids, in order.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.iter_with_nul().map(|(key, id)| (&key[..key.len() - 1], id))
    }

    /// All keys with the NUL that follows each, and their ids, in order.
    #[inline]
    pub(crate) fn iter_with_nul(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let mut start = 0;
        self.ends.iter().zip(&self.ids).map(move |(end, id)| {
            let key = &self.bytes[start..*end as usize];
            start = *end as usize;
            (key, *id)
        })
    }

    /// All keys and their NULs.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the offset in [`bytes`](Keys::bytes) after each key and its NUL.
    pub(crate) fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// Returns the value that is stored under each key.
    pub(crate) fn ids(&self) -> &[u64] {
        &self.ids
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn reordered_keys_keep_ids() {
        let mut rng = Rng::with_seed(1);
        let keys = Keys::new(KeySet::Random, 100, &mut rng).unwrap();
        let again = keys.reordered(1000, &mut rng).unwrap();
        let sorted = |keys: &Keys, less: u64| {
            let mut list: Vec<_> = keys.iter().map(|(key, id)| (key.to_vec(), id - less)).collect();
            list.sort();
            list
        };
        assert_eq!(sorted(&keys, 0), sorted(&again, 1000));
        assert_ne!(keys.bytes(), again.bytes());
    }

    #[test]
    fn random_keys_are_nul_terminated() {
        let keys = Keys::new(KeySet::Random, 3, &mut Rng::with_seed(1)).unwrap();
        assert_eq!(keys.ends(), [9, 18, 27]);
        assert!(keys.iter_with_nul().all(|(key, _)| key[8] == 0));
        assert_eq!(keys.iter().map(|(_, id)| id & 0xff_ffff).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
