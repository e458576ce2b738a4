//! The set of images that were tried already.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Images by their hash of 128 bits, each with the last round in which it was tried.
#[derive(Debug, Default)]
pub(crate) struct SeenImages {
    images: HashMap<[u64; 2], u32, BuildHasherDefault<IdentityHasher>>,
    round: u32,
}

impl SeenImages {
    /// Begins a round in which other contents are legal, so images have to be tried again.
    pub(crate) fn next_round(&mut self) {
        self.round += 1;
    }

    /// Returns true if an image was not tried in this round, and records that it is tried now.
    pub(crate) fn is_new(&mut self, hash: u128) -> bool {
        let before = self.images.insert([hash as u64, (hash >> 64) as u64], self.round);
        before != Some(self.round)
    }

    /// Returns the number of different images so far.
    pub(crate) fn images(&self) -> u64 {
        self.images.len() as u64
    }
}

/// A hasher that returns the bits of a key that is a hash already.
#[derive(Debug, Default)]
pub(crate) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 ^= u64::from_le_bytes(word);
        }
    }

    fn write_usize(&mut self, _length: usize) {}
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn images_are_deduplicated() {
        let mut seen = SeenImages::default();
        seen.next_round();
        // The second differs from the first in a high bit only.
        let hashes = [1, 1 | 1 << 127];
        assert!(hashes.iter().all(|hash| seen.is_new(*hash)));
        assert!(!hashes.iter().any(|hash| seen.is_new(*hash)));
        seen.next_round();
        assert!(hashes.iter().all(|hash| seen.is_new(*hash)));
        assert_eq!(seen.images(), 2);
    }
}
