//! Single flipped bits: finds the bit from the change of a CRC32C.
//!
//! A CRC is linear: a flipped bit changes it by a *syndrome*, which depends only on the number of bits after it. So the
//! difference between the stored and the computed checksum identifies the single bit that can have caused it, if there
//! is one. Random bytes, as in a record that a crash tore, match one of `n` bits by chance once in 2^32 / n times. The
//! result is therefore evidence for a report, or for a repair that a user requested. It is never a reason to accept a
//! record at open.

/// The polynomial of CRC32C, reflected.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// Returns the syndrome of the bit before the one whose syndrome is `syndrome`.
const fn earlier(syndrome: u32) -> u32 {
    (syndrome >> 1) ^ if syndrome & 1 == 1 { POLYNOMIAL } else { 0 }
}

/// Inverts [`earlier`].
const fn later(syndrome: u32) -> u32 {
    // The polynomial's top bit is set, so the top bit of a shifted value shows that the polynomial was added.
    if syndrome >> 31 == 1 { (syndrome ^ POLYNOMIAL) << 1 | 1 } else { syndrome << 1 }
}

/// Returns the flipped bit of `len` bytes, counted from the lowest bit of the first byte. Returns `None` if no single
/// flipped bit changes their CRC32C by `difference`.
pub(crate) fn flipped_bit(difference: u32, len: usize) -> Option<usize> {
    let mut syndrome = POLYNOMIAL;
    for bit in (0..len * 8).rev() {
        if syndrome == difference {
            return Some(bit);
        }
        syndrome = earlier(syndrome);
    }
    None
}

/// Returns the change of an inner CRC32C that changed the CRC32C of CRC32Cs by `difference`. `bits_after` is the number
/// of bits from the start of the changed inner one to the end.
pub(crate) fn inner_difference(difference: u32, bits_after: usize) -> u32 {
    (0..bits_after).fold(difference, |syndrome, _| later(syndrome))
}

/// Returns the bit of `bytes` that flipped since their CRC32C was `crc`, counted from the first byte's lowest bit.
/// Returns `None` if no bit or more than one has flipped.
///
/// # Cost
/// One CRC, and a cycle or two for each bit.
pub fn flipped_bit_of(crc: u32, bytes: &[u8]) -> Option<usize> {
    flipped_bit(crc ^ crc32c::crc32c(bytes), bytes.len())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn flipped_bit_is_located() {
        let lengths: &[usize] = if cfg!(miri) { &[1, 7] } else { &[1, 7, 64, 1000] };
        for len in lengths.iter().copied() {
            let bytes: Vec<u8> = (0..len).map(|byte: usize| (byte * 37) as u8).collect();
            let crc = crc32c::crc32c(&bytes);
            assert_eq!(flipped_bit_of(crc, &bytes), None);
            for bit in 0..len * 8 {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(flipped_bit_of(crc, &damaged), Some(bit));
                damaged[(bit / 8 + 1) % len] ^= 2;
                assert_ne!(flipped_bit_of(crc, &damaged), Some(bit));
            }
        }
    }

    #[test]
    fn later_inverts_earlier() {
        for syndrome in [1, POLYNOMIAL, 0xDEAD_BEEF, u32::MAX, 1 << 31] {
            assert_eq!(later(earlier(syndrome)), syndrome);
            assert_eq!(inner_difference(earlier(earlier(earlier(syndrome))), 3), syndrome);
        }
    }
}
