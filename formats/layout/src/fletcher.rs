//! Fletcher-64 as UEFI, the Linux kernel and PMDK compute it: over 32-bit little-endian words.

/// Returns the Fletcher-64 of `bytes`. Pads an incomplete last word with zeros.
///
/// The low half is the sum of the words; the high half is the sum of those sums. Both are modulo 2^32. A format that
/// contains its own checksum counts those 8 bytes as zeros.
///
/// # Cost
/// Two additions for each 4 bytes.
pub fn fletcher64(bytes: &[u8]) -> u64 {
    let mut sums = Sums::default();
    sums.add(bytes);
    sums.value()
}

/// Returns the Fletcher-64 of `bytes` with the 8 bytes at `hole`, a multiple of 4, taken as zeros.
pub fn fletcher64_with_hole(bytes: &[u8], hole: usize) -> u64 {
    let mut sums = Sums::default();
    sums.add(&bytes[..hole]);
    sums.add(&[0; 8]);
    sums.add(&bytes[hole + 8..]);
    sums.value()
}

/// Returns the Fletcher-64 of the bytes that have the Fletcher-64 `before`, whole words, and then `bytes`.
pub(crate) fn fletcher64_append(before: u64, bytes: &[u8]) -> u64 {
    let mut sums = Sums { low: before as u32, high: (before >> 32) as u32 };
    sums.add(bytes);
    sums.value()
}

/// Writes the Fletcher-64 of `bytes` into its 8 bytes at `hole`, a multiple of 4, which count as zeros. This is the
/// checksum of a format that contains its own checksum.
///
/// # Panics
/// Panics if there are no 8 bytes at `hole`.
pub fn store_fletcher64(bytes: &mut [u8], hole: usize) {
    let sum = fletcher64_with_hole(bytes, hole);
    bytes[hole..hole + 8].copy_from_slice(&sum.to_le_bytes());
}

/// The two sums of the words so far.
#[derive(Default)]
struct Sums {
    low: u32,
    high: u32,
}

impl Sums {
    fn add(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.add_word(*word);
        }
        if !rest.is_empty() {
            let mut padded = [0; 4];
            padded[..rest.len()].copy_from_slice(rest);
            self.add_word(padded);
        }
    }

    fn add_word(&mut self, word: [u8; 4]) {
        self.low = self.low.wrapping_add(u32::from_le_bytes(word));
        self.high = self.high.wrapping_add(self.low);
    }

    fn value(&self) -> u64 {
        u64::from(self.high) << 32 | u64::from(self.low)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn known_checksums() {
        assert_eq!(fletcher64(&[]), 0);
        assert_eq!(fletcher64(&[1, 0, 0, 0]), 0x1_0000_0001);
        assert_eq!(fletcher64(&[1, 0, 0, 0, 2, 0, 0, 0]), 0x4_0000_0003);
        assert_eq!(fletcher64(&[0xFF; 8]), 0xFFFF_FFFD_FFFF_FFFE, "both sums wrap");
        assert_eq!(fletcher64(&[1, 0, 0, 0, 2]), 0x4_0000_0003, "padded");
    }

    #[test]
    fn sums_are_continued() {
        let bytes: Vec<u8> = (1..=40).collect();
        assert_eq!(fletcher64_append(fletcher64(&bytes[..12]), &bytes[12..]), fletcher64(&bytes));
    }

    #[test]
    fn hole_counts_as_zeros() {
        let mut bytes: Vec<u8> = (1..=40).collect();
        let mut zeroed = bytes.clone();
        zeroed[12..20].fill(0);
        assert_eq!(fletcher64_with_hole(&bytes, 12), fletcher64(&zeroed));
        assert_eq!(fletcher64_with_hole(&bytes, 32), fletcher64(&[&bytes[..32], &[0; 8]].concat()));
        store_fletcher64(&mut bytes, 12);
        assert_eq!(bytes[12..20], fletcher64(&zeroed).to_le_bytes());
        assert_eq!((&bytes[..12], &bytes[20..]), (&zeroed[..12], &zeroed[20..]));
    }
}
