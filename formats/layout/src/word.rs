//! Self-checked words: 48 bits of payload and 16 bits of check in one word that is stored atomically.
//!
//! Allocation bitmaps and chunk descriptors consist of such words. The check reveals a flipped bit, and no separate
//! checksum has to be updated. The word stays the unit of an atomic store.

/// Bits of payload in a checked word.
pub const CHECKED_BITS: u32 = 48;

const PAYLOAD: u64 = (1 << CHECKED_BITS) - 1;

// The constant is odd, and no 16 adjacent bits of it are all equal. So each payload bit changes the top 16 bits of the
// product.
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

const fn check_of(payload: u64) -> u64 {
    payload.wrapping_add(1).wrapping_mul(MIX) >> CHECKED_BITS
}

/// Returns the word that carries `payload`. Ignores the upper 16 bits of `payload`.
#[inline]
pub const fn checked(payload: u64) -> u64 {
    let payload = payload & PAYLOAD;
    payload | check_of(payload) << CHECKED_BITS
}

/// Returns the payload of `word`, or `None` if its check is wrong.
#[inline]
pub const fn unchecked(word: u64) -> Option<u64> {
    let payload = word & PAYLOAD;
    if word >> CHECKED_BITS == check_of(payload) { Some(payload) } else { None }
}

/// Returns the payload of `word` without verifying its check.
#[inline]
pub const fn payload(word: u64) -> u64 {
    word & PAYLOAD
}

#[cfg(test)]
mod test {
    use super::*;

    /// Returns payloads at the edges and a pseudo-random walk through the rest.
    fn samples() -> impl Iterator<Item = u64> {
        let edges = [0, 1, PAYLOAD, PAYLOAD - 1, 1 << 47, 0x5555_5555_5555, 0xAAAA_AAAA_AAAA];
        let mut state = 1u64;
        edges.into_iter().chain((0..20_000).map(move |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 16
        }))
    }

    #[test]
    fn payload_round_trips() {
        for sample in samples() {
            assert_eq!(unchecked(checked(sample)), Some(sample));
            assert_eq!(payload(checked(sample)), sample);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "a million words: minutes")]
    fn every_flipped_bit_is_found() {
        for sample in samples() {
            for bit in 0..64 {
                assert_eq!(unchecked(checked(sample) ^ 1 << bit), None, "payload {sample:#x}, bit {bit}");
            }
        }
    }

    #[test]
    fn zero_is_not_a_checked_word() {
        assert_eq!(unchecked(0), None);
        assert_eq!(unchecked(u64::MAX), None);
    }
}
