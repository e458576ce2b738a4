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
    fn digest_depends_on_the_order() {
        let one = fold_pair(fold_pair(0, b"a", b"1"), b"b", b"2");
        assert_ne!(one, fold_pair(fold_pair(0, b"b", b"2"), b"a", b"1"));
    }
}
