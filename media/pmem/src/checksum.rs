//! Checksums of a few words or bytes, at the speed of the CPU.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::folding;
use lode_layout::{RECORD_LONG_WORDS, record_checksum, rotate_sums};

/// Computes the same checksum as [`record_checksum`].
///
/// # Cost
/// With the CPU's own CRC32C instruction: three cycles a word, and one cycle a word from 16 words on. Without it: some
/// hundred cycles a word.
#[inline]
pub fn checksum(seed: u32, words: &[u64]) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        return match words.len() < RECORD_LONG_WORDS {
            // SAFETY: - the CPU has SSE 4.2, as just detected.
            true => unsafe { sse42_short(seed, words) },
            // SAFETY: - as above.
            false => unsafe { sse42_long(seed, words) },
        };
    }
    record_checksum(seed, words)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "sse4.2")]
fn sse42_short(seed: u32, words: &[u64]) -> u32 {
    use std::arch::x86_64::_mm_crc32_u64;
    let (fours, rest) = words.as_chunks::<4>();
    let mut crc = u64::from(!seed);
    for four in fours {
        crc = four.iter().fold(crc, |crc, word| _mm_crc32_u64(crc, *word));
    }
    !(rest.iter().fold(crc, |crc, word| _mm_crc32_u64(crc, *word)) as u32)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "sse4.2")]
fn sse42_long(seed: u32, words: &[u64]) -> u32 {
    use std::arch::x86_64::_mm_crc32_u64;
    let start = u64::from(!seed);
    let (first, second) = words.split_at(words.len() / 2);
    let (one, two) = first.split_at(first.len() / 2);
    let (three, four) = second.split_at(second.len() / 2);
    // The quarters differ in length by at most one word; the first is one of the shortest.
    let mut crcs = [start; 4];
    for (((a, b), c), d) in one.iter().zip(two).zip(three).zip(four) {
        crcs[0] = _mm_crc32_u64(crcs[0], *a);
        crcs[1] = _mm_crc32_u64(crcs[1], *b);
        crcs[2] = _mm_crc32_u64(crcs[2], *c);
        crcs[3] = _mm_crc32_u64(crcs[3], *d);
    }
    for (crc, quarter) in crcs.iter_mut().zip([one, two, three, four]) {
        for word in &quarter[one.len()..] {
            *crc = _mm_crc32_u64(*crc, *word);
        }
    }
    let [a, b, c, d] = rotate_sums(crcs.map(|crc| !(crc as u32))).map(u64::from);
    let crc = _mm_crc32_u64(_mm_crc32_u64(u64::from(u32::MAX), a | b << 32), c | d << 32);
    !(crc as u32)
}

/// Bytes from which on the crate `crc32c` is as fast: it works on three parts of them at once.
const CRC_LONG: usize = 768;

/// Computes the CRC32C of `bytes` after other bytes, whose CRC32C is `crc`: 0 if there are none.
///
/// # Cost
/// With the CPU's own CRC32C instruction: three cycles for each 8 bytes, and one from 768 bytes on.
#[inline]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if bytes.len() < CRC_LONG && std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: - the CPU has SSE 4.2, as just detected.
        return unsafe { crc32c_sse42(crc, bytes) };
    }
    crc32c::crc32c_append(crc, bytes)
}

/// Bytes from which on multiplication without carries is faster than the instruction for CRC32C.
const CRC_FOLDED: usize = 512;

/// Computes the CRC32C of `bytes`.
///
/// # Cost
/// That of [`crc32c_append`] below 512 bytes. From there on 16 to 18 bytes a cycle on a CPU with AVX-512, and 8 on others.
/// Whole sectors of 512 bytes need fewer instructions before and after that.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if let ([first, others @ ..], []) = bytes.as_chunks()
        && folding::is_available()
    {
        // SAFETY: - the CPU has the features, as just detected.
        return unsafe { folding::crc32c(first, others) };
    }
    if bytes.len() < CRC_FOLDED { crc32c_append(0, bytes) } else { crc_fast::crc32_iscsi(bytes) }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "sse4.2")]
fn crc32c_sse42(crc: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};
    let (words, mut rest) = bytes.as_chunks::<8>();
    let mut long = u64::from(!crc);
    for word in words {
        long = _mm_crc32_u64(long, u64::from_le_bytes(*word));
    }
    let mut crc = long as u32;
    if let Some((half, after)) = rest.split_first_chunk::<4>() {
        (crc, rest) = (_mm_crc32_u32(crc, u32::from_le_bytes(*half)), after);
    }
    for byte in rest {
        crc = _mm_crc32_u8(crc, *byte);
    }
    !crc
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn bytes_have_the_same_crc_as_elsewhere() {
        let bytes: Vec<u8> = (0..1600_u32).map(|at| ((at * 167) >> 3) as u8).collect();
        for len in (0..100).chain(505..580).chain(760..780).chain([1024, 1536, 1590]) {
            for start in 0..9 {
                let part = &bytes[start..start + len];
                assert_eq!(crc32c(part), crc32c::crc32c(part), "{start} {len}");
                for crc in [0, 1, u32::MAX] {
                    assert_eq!(crc32c_append(crc, part), crc32c::crc32c_append(crc, part), "{start} {len}");
                }
            }
        }
    }

    #[test]
    fn hardware_checksum_matches_format() {
        let words: Vec<u64> = (0..300u64).map(|word| word.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
        for len in 0..words.len() {
            for seed in [0, 1, u32::MAX, 0xDEAD_BEEF] {
                assert_eq!(
                    checksum(seed, &words[..len]),
                    record_checksum(seed, &words[..len]),
                    "{len} words"
                );
            }
        }
    }
}
