//! Pairs of byte strings for stores, laid out one after the other in the order of their use, like
//! [`Keys`](crate::keys::Keys).

use fastrand::Rng;

/// Pairs whose keys all have one length, and whose values all have another.
pub(crate) struct Pairs {
    bytes: Vec<u8>,
    key_len: usize,
    pair_len: usize,
}

impl Pairs {
    /// `count` pairs with random keys and values. Keys of 16 bytes and more are all different, for all practical
    /// purposes.
    pub(crate) fn random(count: usize, key_len: usize, value_len: usize, rng: &mut Rng) -> Pairs {
        let pair_len = key_len + value_len;
        let mut bytes = vec![0; count * pair_len];
        rng.fill(&mut bytes);
        Pairs { bytes, key_len, pair_len }
    }

    /// `count` pairs whose keys ascend and come after random ones, with random values.
    pub(crate) fn ascending(count: usize, key_len: usize, value_len: usize, rng: &mut Rng) -> Pairs {
        let mut pairs = Pairs::random(count, key_len, value_len, rng);
        for (number, pair) in pairs.bytes.chunks_exact_mut(pairs.pair_len).enumerate() {
            pair[..key_len].fill(0xff);
            pair[key_len - 8..key_len].copy_from_slice(&(number as u64).to_be_bytes());
        }
        pairs
    }

    /// The same pairs in another random order.
    pub(crate) fn shuffled(&self, rng: &mut Rng) -> Pairs {
        let mut all: Vec<&[u8]> = self.bytes.chunks_exact(self.pair_len).collect();
        rng.shuffle(&mut all);
        Pairs { bytes: all.concat(), key_len: self.key_len, pair_len: self.pair_len }
    }

    /// The pairs in parts of `count`; the last part may have fewer.
    pub(crate) fn parts(&self, count: usize) -> Vec<Pairs> {
        let parts = self.bytes.chunks(count * self.pair_len);
        parts
            .map(|bytes| Pairs { bytes: bytes.to_vec(), key_len: self.key_len, pair_len: self.pair_len })
            .collect()
    }

    /// Makes each value begin with its key.
    pub(crate) fn sign(&mut self) {
        for pair in self.bytes.chunks_exact_mut(self.pair_len) {
            pair.copy_within(..self.key_len, self.key_len);
        }
    }

    /// One pair.
    pub(crate) fn pair(&self, index: usize) -> (&[u8], &[u8]) {
        self.bytes[index * self.pair_len..][..self.pair_len].split_at(self.key_len)
    }

    /// Number of pairs.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() / self.pair_len
    }

    /// All pairs, in order.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.bytes.chunks_exact(self.pair_len).map(|pair| pair.split_at(self.key_len))
    }
}

/// One step of the digest of a scan.
#[inline]
pub(crate) fn fold_pair(digest: u64, key: &[u8], value: &[u8]) -> u64 {
    // The multiplication makes each pair count by its place.
    digest.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(crc32c::crc32c_append(crc32c::crc32c(key), value))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn pairs_have_the_lengths_asked_for() {
        let pairs = Pairs::random(3, 16, 100, &mut Rng::with_seed(1));
        assert_eq!(pairs.len(), 3);
        assert!(pairs.iter().all(|(key, value)| key.len() == 16 && value.len() == 100));
        let keys: Vec<&[u8]> = pairs.iter().map(|(key, _)| key).collect();
        assert!(keys[0] != keys[1] && keys[1] != keys[2]);
    }

    #[test]
    fn signed_values_begin_with_their_keys() {
        let mut pairs = Pairs::random(3, 16, 100, &mut Rng::with_seed(1));
        pairs.sign();
        assert!(pairs.iter().all(|(key, value)| value.starts_with(key)));
        assert_eq!(pairs.pair(2), pairs.iter().nth(2).unwrap());
    }

    #[test]
    fn parts_and_shuffles_have_all_pairs() {
        let pairs = Pairs::random(10, 16, 8, &mut Rng::with_seed(1));
        let parts = pairs.parts(4);
        assert_eq!(parts.iter().map(Pairs::len).collect::<Vec<_>>(), [4, 4, 2]);
        let mut shuffled: Vec<_> = parts.iter().flat_map(Pairs::iter).collect();
        let again = pairs.shuffled(&mut Rng::with_seed(2));
        let mut all: Vec<_> = again.iter().collect();
        assert_ne!(shuffled, all);
        shuffled.sort();
        all.sort();
        assert_eq!(shuffled, all);
    }

    #[test]
    fn ascending_keys_ascend() {
        let pairs = Pairs::ascending(300, 24, 1, &mut Rng::with_seed(1));
        assert!(pairs.iter().map(|(key, _)| key).is_sorted());
        assert!(pairs.iter().all(|(key, _)| key.len() == 24 && key.starts_with(&[0xff; 16])));
    }

    #[test]
    fn digest_depends_on_the_order() {
        let one = fold_pair(fold_pair(0, b"a", b"1"), b"b", b"2");
        assert_ne!(one, fold_pair(fold_pair(0, b"b", b"2"), b"a", b"1"));
    }
}
