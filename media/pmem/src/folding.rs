//! CRC32C of whole sectors by multiplication without carries, with AVX-512.
//!
//! A remainder is linear: that of a message is the sum of those of its parts, each times x to the number of bits after it. So
//! eight lines are multiplied side by side, added, and reduced once. No product waits for another one within a sector.
//!
//! Source: Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ", Intel 2009.

use std::arch::x86_64::*;

/// Bytes that are folded at a time.
const SECTOR: usize = 512;
/// Bytes of a vector.
const VECTOR: usize = 64;
/// Bytes of a lane of a vector: two words, with a factor each.
const LANE: usize = 16;
/// The polynomial, least significant bit first.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// The factors of a vector: for the first and for the second word of each lane.
#[repr(align(64))]
struct Factors([u64; 8]);

/// Moves each lane by a sector.
static BY_SECTOR: Factors = Factors(factors([SECTOR; 4]));
/// Moves each lane of a sector, one vector after the other, to the last lane. That one stays.
static TO_END: [Factors; 8] = {
    let mut all = [const { Factors([0; 8]) }; 8];
    let mut index = 0;
    while index < all.len() {
        let after = SECTOR - (index + 1) * VECTOR;
        all[index] = Factors(factors([after + 3 * LANE, after + 2 * LANE, after + LANE, after]));
        index += 1;
    }
    all
};

/// Returns the factors that move each lane by its distance in bytes. A lane with distance 0 has none.
const fn factors(distances: [usize; 4]) -> [u64; 8] {
    let mut factors = [0; 8];
    let mut lane = 0;
    while lane < distances.len() {
        let bits = 8 * distances[lane] as u32;
        if bits > 0 {
            // A product of reversed words lacks a bit, and a factor has 32 of 64 bits.
            factors[2 * lane] = power(bits + 31) as u64;
            factors[2 * lane + 1] = power(bits - 33) as u64;
        }
        lane += 1;
    }
    factors
}

/// Returns the remainder of x to the `exponent`, least significant bit first.
const fn power(exponent: u32) -> u32 {
    let mut remainder = 1 << 31;
    let mut done = 0;
    while done < exponent {
        remainder = remainder >> 1 ^ if remainder & 1 == 1 { POLYNOMIAL } else { 0 };
        done += 1;
    }
    remainder
}

/// Returns true if the CPU has what [`crc32c()`] uses.
#[inline]
pub(crate) fn is_available() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512vl")
        && std::arch::is_x86_feature_detected!("vpclmulqdq")
        && std::arch::is_x86_feature_detected!("sse4.2")
}

/// Computes the CRC32C of sectors.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,vpclmulqdq,sse4.2")]
pub(crate) fn crc32c(first: &[u8; SECTOR], others: &[[u8; SECTOR]]) -> u32 {
    let start = _mm512_zextsi128_si512(_mm_cvtsi32_si128(-1));
    let mut vectors = load(first);
    vectors[0] = _mm512_xor_si512(vectors[0], start);
    let by_sector = load_factors(&BY_SECTOR);
    for sector in others {
        for (vector, next) in vectors.iter_mut().zip(load(sector)) {
            *vector = add(multiply(*vector, by_sector), next);
        }
    }
    let last = _mm512_extracti32x4_epi32::<3>(vectors[7]);
    let mut sum = [_mm512_setzero_si512(); 2];
    for (index, vector) in vectors.into_iter().enumerate() {
        let half = &mut sum[index % 2];
        *half = add(multiply(vector, load_factors(&TO_END[index])), *half);
    }
    let sum = _mm512_xor_si512(sum[0], sum[1]);
    let half = _mm256_xor_si256(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64::<1>(sum));
    let (one, two) = (_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half));
    let lane = _mm_ternarylogic_epi64::<XOR>(one, two, last);
    let crc = _mm_crc32_u64(0, _mm_cvtsi128_si64(lane).cast_unsigned());
    !(_mm_crc32_u64(crc, _mm_extract_epi64::<1>(lane).cast_unsigned()) as u32)
}

/// The truth table of the sum of three bits.
const XOR: i32 = 0x96;

#[inline]
#[target_feature(enable = "avx512f")]
fn load(sector: &[u8; SECTOR]) -> [__m512i; 8] {
    let mut vectors = [_mm512_setzero_si512(); 8];
    for (vector, bytes) in vectors.iter_mut().zip(sector.as_chunks::<VECTOR>().0) {
        // SAFETY: - the chunk has the bytes of a vector; the load needs no alignment.
        *vector = unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) };
    }
    vectors
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_factors(factors: &Factors) -> __m512i {
    // SAFETY: - the factors have the bytes and the alignment of a vector.
    unsafe { _mm512_load_si512(factors.0.as_ptr().cast()) }
}

/// Returns the products of the first words, and of the second words, of all lanes.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn multiply(vector: __m512i, factors: __m512i) -> [__m512i; 2] {
    let first = _mm512_clmulepi64_epi128::<0x00>(vector, factors);
    [first, _mm512_clmulepi64_epi128::<0x11>(vector, factors)]
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add(products: [__m512i; 2], other: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<XOR>(products[0], products[1], other)
}
