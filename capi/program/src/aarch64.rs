//! Arm64's instructions by which programs make stores durable: words with fixed bits.

/// Name, the bits that are fixed, and their values.
const INSTRUCTIONS: [(&str, u32, u32); 5] = [
    ("DC CVAC", 0xffff_ffe0, 0xd50b_7a20),
    ("DC CVAP", 0xffff_ffe0, 0xd50b_7c20),
    ("DC CVADP", 0xffff_ffe0, 0xd50b_7d20),
    ("DC CIVAC", 0xffff_ffe0, 0xd50b_7e20),
    // Any of the four that store a pair past the cache; bit 26 tells vector registers.
    ("STNP", 0x3bc0_0000, 0x2800_0000),
];

/// Returns the first of these instructions in code, with its address.
pub(crate) fn first(code: &[u8], address: u64) -> Option<(&'static str, u64)> {
    let (words, _) = code.as_chunks::<4>();
    words.iter().zip(0u64..).find_map(|(word, index)| {
        let word = u32::from_le_bytes(*word);
        let found = INSTRUCTIONS.iter().find(|(_, fixed, value)| word & fixed == *value)?;
        Some((found.0, address.wrapping_add(4 * index)))
    })
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn instructions_are_found() {
        for (word, wanted) in [
            (0xd50b_7a20_u32, Some("DC CVAC")), // dc cvac, x0
            (0xd50b_7c3f, Some("DC CVAP")),     // dc cvap, xzr
            (0xd50b_7d21, Some("DC CVADP")),    // dc cvadp, x1
            (0xd50b_7e22, Some("DC CIVAC")),    // dc civac, x2
            (0xa800_0440, Some("STNP")),        // stnp x0, x1, [x2]
            (0x2800_0440, Some("STNP")),        // stnp w0, w1, [x2]
            (0xac00_0440, Some("STNP")),        // stnp q0, q1, [x2]
            (0xa840_0440, None),                // ldnp x0, x1, [x2]
            (0xa900_0440, None),                // stp x0, x1, [x2]
            (0xa9bf_7bfd, None),                // stp x29, x30, [sp, #-16]!
            (0xd50b_7b20, None),                // dc cvau, x0
            (0xd50b_7420, None),                // dc zva, x0
            (0xd65f_03c0, None),                // ret
        ] {
            let code = [0xd503_201f_u32, word].map(u32::to_le_bytes).concat();
            assert_eq!(first(&code, 0x1000), wanted.map(|name| (name, 0x1004)), "{word:#x}");
        }
    }
}
