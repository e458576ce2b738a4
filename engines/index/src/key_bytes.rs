//! Comparison of the key bytes in a node, eight at once, without a branch.

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = LOW_BITS << 7;

/// Returns the number of bytes of `word` that are not 0.
pub(crate) fn nonzero_bytes(word: u64) -> usize {
    // The sum has the high bit of each byte whose lower bits are not 0. No byte carries into the next.
    ((((word & !HIGH_BITS) + !HIGH_BITS) | word) & HIGH_BITS).count_ones() as usize
}

/// Indices of the key bytes that may equal a certain byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyByteMatches(u64);

impl KeyByteMatches {
    /// Returns the indices of the bytes in up to eight `words` that equal `byte`, and perhaps some more.
    #[inline(always)]
    pub(crate) fn of<const WORDS: usize>(words: [u64; WORDS], byte: u8) -> KeyByteMatches {
        let wanted = LOW_BITS * u64::from(byte);
        let mut found = 0;
        for (index, word) in words.into_iter().enumerate() {
            let differ = word ^ wanted;
            // The high bit of each zero byte of `differ`. A borrow may add that of the byte above it.
            let zero = differ.wrapping_sub(LOW_BITS) & !differ & HIGH_BITS;
            // Bit 8 b + w is for byte b of word w.
            found |= zero >> (7 - index);
        }
        KeyByteMatches(found)
    }
}

impl Iterator for KeyByteMatches {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(bit % 8 * 8 + bit / 8)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn nonzero_bytes_are_counted() {
        for bytes in [[0; 8], [1; 8], [0x80; 8], [0, 1, 0x7F, 0x80, 0xFF, 0, 0x81, 0]] {
            let expected = bytes.iter().filter(|byte| **byte != 0).count();
            assert_eq!(nonzero_bytes(u64::from_le_bytes(bytes)), expected, "{bytes:?}");
        }
    }

    #[test]
    fn each_byte_is_found_at_each_index() {
        for byte in 0..=255u8 {
            for place in 0..48 {
                for other in [byte ^ 1, byte ^ 0x80, !byte, byte.wrapping_add(1)] {
                    let mut key_bytes = [other; 48];
                    key_bytes[place] = byte;
                    let mut words = [0; 6];
                    for (word, bytes) in words.iter_mut().zip(key_bytes.as_chunks::<8>().0) {
                        *word = u64::from_le_bytes(*bytes);
                    }
                    let found: Vec<usize> = KeyByteMatches::of(words, byte).collect();
                    assert!(found.contains(&place), "{byte} at {place}");
                    assert!(found.len() <= 8 && found.iter().all(|found| *found < 48), "{found:?}");
                }
            }
            assert_eq!(KeyByteMatches::of([LOW_BITS * u64::from(byte); 2], byte).count(), 16);
            assert_eq!(KeyByteMatches::of([LOW_BITS * u64::from(!byte); 2], byte).count(), 0);
        }
    }
}
