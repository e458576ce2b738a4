//! Single flipped bits: which bit it was, by what it did to a CRC32C.
//!
//! A CRC is linear: a flipped bit changes it by an amount, its *syndrome*, that depends only on how many bits come
//! after it. So comparing the checksum that is stored with the one that the bytes have tells which single bit can
//! have made the difference, if one can. Where bytes are random, as in a record that a crash tore, one of `n`
//! bits seems to have flipped once in 2^32 / n times: so this is evidence for a report and for a repair that a
//! user asked for, and never a reason to believe a record at open.

/// The polynomial of CRC32C, reflected.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// The syndrome of the bit before the one whose syndrome is `syndrome`.
const fn earlier(syndrome: u32) -> u32 {
    (syndrome >> 1) ^ if syndrome & 1 == 1 { POLYNOMIAL } else { 0 }
}

/// What [`earlier`] was made from.
const fn later(syndrome: u32) -> u32 {
    // The polynomial's top bit is set, so that of a shifted value tells whether it was added.
    if syndrome >> 31 == 1 { (syndrome ^ POLYNOMIAL) << 1 | 1 } else { syndrome << 1 }
}

/// Which bit of `len` bytes has flipped, counted from their first one's lowest, if one flipped bit changes their
/// CRC32C by `difference`.
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

/// The change of a CRC32C, some bytes before the end, that changed the CRC32C of CRC32Cs by `difference`:
/// `bits_after` is the number of bits from the start of the changed one.
pub(crate) fn inner_difference(difference: u32, bits_after: usize) -> u32 {
    (0..bits_after).fold(difference, |syndrome, _| later(syndrome))
}

/// Which bit of `bytes` has flipped since their CRC32C was `crc`, counted from the first byte's lowest bit; `None`
/// if none or more than one has.
///
/// # Cost
/// The CRC, and a cycle or two for each bit.
pub fn flipped_bit_of(crc: u32, bytes: &[u8]) -> Option<usize> {
    flipped_bit(crc ^ crc32c::crc32c(bytes), bytes.len())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_flipped_bit_is_found() {
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
    fn later_undoes_earlier() {
        for syndrome in [1, POLYNOMIAL, 0xDEAD_BEEF, u32::MAX, 1 << 31] {
            assert_eq!(later(earlier(syndrome)), syndrome);
            assert_eq!(inner_difference(earlier(earlier(earlier(syndrome))), 3), syndrome);
        }
    }
}
