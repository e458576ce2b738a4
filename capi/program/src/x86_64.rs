//! x86-64's instructions by which programs make stores durable.
//!
//! The code is decoded, since a pattern of bytes alone is found by chance in large programs: inside of constants, and across two
//! instructions. An instruction counts if a decoder that begins at the first byte of the code meets it. Each has an opcode byte that few other
//! bytes look like, so decoding begins a little before such a byte, at each of as many places as an instruction has bytes at most: the decoder
//! from the first byte passes one of them. They soon meet. If they do not, decoding begins earlier.

use crate::x86_instruction::{INSTRUCTION_LEN_MAX, decode};

/// Bytes before an opcode byte at which decoding begins, one after the other; after them the whole code is decoded.
const DISTANCES: [usize; 3] = [48, 512, 8192];

/// Bytes that are decoded again at most where decoding from nearby places does not agree: code made for that would take for ever.
const DECODED_AGAIN_MAX: usize = 64 << 20;
/// The name of an instruction that can't be told.
const UNTOLD: &str = "code that can't be told apart from flushes";

/// Returns the first of these instructions in code, with its address.
pub(crate) fn first(code: &[u8], address: u64) -> Option<(&'static str, u64)> {
    let mut stream = Stream { code, reached: Vec::new(), decoded_again: 0 };
    let opcodes = (1..code.len()).filter(|at| may_be_opcode(code, *at));
    let found = { opcodes }.find_map(|at| stream.flush_over(at));
    found.map(|(name, at)| (name, address.wrapping_add(at as u64)))
}

/// Returns true if the byte at `at` may be the opcode of such an instruction: true for each that is one.
#[inline]
fn may_be_opcode(code: &[u8], at: usize) -> bool {
    // MOVNTPS and MOVNTPD, CLWB and its kind, MOVNTI, MOVNTQ and MOVNTDQ, MASKMOVQ and its kind, MOVDIR64B, MOVDIRI.
    let byte = code[at];
    if !matches!(byte, 0x2b | 0xae | 0xc3 | 0xe7 | 0xf7 | 0xf8 | 0xf9) {
        return false;
    }
    // MASKMOVQ and its kind have registers, the others an operand in memory, and CLWB and its kind two registers' numbers for more of the
    // opcode.
    let wanted = |operand: &&u8| (**operand >= 0xc0) == (byte == 0xf7);
    let Some(operand) = code.get(at + 1).filter(wanted) else { return false };
    let before = |distance: usize| at.checked_sub(distance).map_or(0, |at| code[at]);
    match byte {
        0xae => before(1) == 0x0f && operand >> 3 & 7 >= 6,
        0xc3 => before(1) == 0x0f,
        0xf8 | 0xf9 => before(1) == 0x38 && before(2) == 0x0f,
        // With a prefix of VEX or EVEX in place of 0x0f.
        _ => {
            before(1) == 0x0f
                || before(2) == 0xc5
                || before(3) == 0xc4 && before(2) & 0x1f == 1
                || before(4) == 0x62 && before(3) & 7 == 1
        }
    }
}

/// The instructions of some code.
struct Stream<'c> {
    code: &'c [u8],
    /// For each byte from the place where decoding begins, whether an instruction begins there.
    reached: Vec<bool>,
    /// Bytes that were decoded from the first one on, more than once.
    decoded_again: usize,
}

impl Stream<'_> {
    /// Returns the instruction that the byte at `at` belongs to, if it is one of ours: its name, and its first byte.
    fn flush_over(&mut self, at: usize) -> Option<(&'static str, usize)> {
        for distance in DISTANCES {
            let Some(first) = at.checked_sub(distance + INSTRUCTION_LEN_MAX) else { break };
            if let Ok(flush) = self.flush_from(first, INSTRUCTION_LEN_MAX, at) {
                return flush;
            }
        }
        self.decoded_again += at;
        if self.decoded_again > DECODED_AGAIN_MAX {
            // Doubt makes it careful.
            return Some((UNTOLD, at));
        }
        self.flush_from(0, 1, at).unwrap_or_default()
    }

    /// Decodes from each of the `starts` bytes from `first` on.
    ///
    /// # Errors
    /// Fails if the instructions that the byte at `at` then belongs to are not all the same, or not all none of ours.
    fn flush_from(
        &mut self,
        first: usize,
        starts: usize,
        at: usize,
    ) -> Result<Option<(&'static str, usize)>, Ambiguous> {
        self.reached.clear();
        self.reached.resize(at + 1 - first, false);
        self.reached[..starts.min(at + 1 - first)].fill(true);
        let mut found: Option<Option<(&'static str, usize)>> = None;
        for start in first..=at {
            if !self.reached[start - first] {
                continue;
            }
            let instruction = decode(&self.code[start..]);
            // The byte after one that begins no instruction may begin one.
            let end = start + instruction.map_or(1, |instruction| instruction.len);
            if end <= at {
                self.reached[end - first] = true;
                continue;
            }
            let name = instruction.and_then(|instruction| instruction.flush);
            let flush = name.map(|name| (name, start));
            if found.is_some_and(|found| found != flush) {
                return Err(Ambiguous);
            }
            found = Some(flush);
        }
        Ok(found.flatten())
    }
}

/// The byte belongs to one instruction or another, by where decoding begins.
struct Ambiguous;

#[cfg(test)]
mod test {
    use super::*;

    /// Decodes all code from its first byte on.
    fn first_of_all(code: &[u8]) -> Option<(&'static str, u64)> {
        let mut stream = Stream { code, reached: Vec::new(), decoded_again: 0 };
        let flush = (0..code.len()).find_map(|at| stream.flush_from(0, 1, at).unwrap_or_default());
        flush.map(|(name, at)| (name, at as u64))
    }

    /// The first encodings, those of our instructions.
    const FLUSHES: usize = 20;
    /// Encodings of the instructions, and of others that look like them.
    const ENCODINGS: [(&[u8], Option<&str>); 30] = [
        (&[0x66, 0x0f, 0xae, 0x30], Some("CLWB")),
        (&[0x0f, 0xf7, 0xca], Some("MASKMOVQ")),
        (&[0x66, 0x0f, 0xf7, 0xca], Some("MASKMOVDQU")),
        (&[0xc5, 0xf9, 0xf7, 0xca], Some("VMASKMOVDQU")),
        (&[0x66, 0x0f, 0x38, 0xf8, 0x07], Some("MOVDIR64B")),
        (&[0x48, 0x0f, 0x38, 0xf9, 0x07], Some("MOVDIRI")),
        (&[0x66, 0x41, 0x0f, 0xae, 0x37], Some("CLWB")),
        (&[0x66, 0x0f, 0xae, 0x38], Some("CLFLUSHOPT")),
        (&[0x0f, 0xae, 0x38], Some("CLFLUSH")),
        (&[0x41, 0x0f, 0xae, 0xbc, 0x24, 0, 1, 0, 0], Some("CLFLUSH")),
        (&[0x48, 0x0f, 0xc3, 0x07], Some("MOVNTI")),
        (&[0x66, 0x0f, 0xe7, 0x07], Some("MOVNTDQ")),
        (&[0x0f, 0x2b, 0x07], Some("MOVNTPS")),
        (&[0x66, 0x0f, 0x2b, 0x07], Some("MOVNTPD")),
        (&[0x0f, 0xe7, 0x07], Some("MOVNTQ")),
        (&[0xc5, 0xfd, 0xe7, 0x07], Some("VMOVNTDQ")),
        (&[0xc4, 0x41, 0x7d, 0xe7, 0x07], Some("VMOVNTDQ")),
        (&[0x62, 0xf1, 0x7d, 0x48, 0xe7, 0x07], Some("VMOVNTDQ")),
        (&[0xc5, 0xfc, 0x2b, 0x07], Some("VMOVNTPS")),
        (&[0x62, 0xf1, 0xfd, 0x48, 0x2b, 0x07], Some("VMOVNTPD")),
        // sfence, mfence, xsave, ldmxcsr, sub, movsd into a register, vpmovsx, mov with such a constant, ret.
        (&[0x0f, 0xae, 0xf8], None),
        (&[0x0f, 0xae, 0xf0], None),
        (&[0x0f, 0xae, 0x20], None),
        (&[0x0f, 0xae, 0x10], None),
        (&[0x2b, 0x07], None),
        (&[0xf2, 0x0f, 0x10, 0x07], None),
        (&[0x48, 0xb8, 0x66, 0x0f, 0xae, 0x30, 0x0f, 0xc3, 0x07, 0], None),
        (&[0xb8, 0x0f, 0xae, 0x38, 0x90], None),
        (&[0xc3], None),
        (&[0x66, 0x0f, 0x38, 0xf9, 0x07], None),
    ];

    #[test]
    fn each_instruction_is_found() {
        for (encoding, wanted) in ENCODINGS {
            for nops in [0, 1, 60, 70, 1000, 10_000] {
                let code = [&vec![0x90; nops][..], encoding, &[0x90; 20]].concat();
                let wanted = wanted.map(|name| (name, 0x1000 + nops as u64));
                assert_eq!(first(&code, 0x1000), wanted, "{encoding:x?} after {nops}");
            }
        }
    }

    /// Zeros are two bytes of an instruction each, so decoding from two neighbouring places never meets.
    #[test]
    fn code_that_can_not_be_told_is_given_up() {
        let part = [&[0; 8401][..], &[0x0f, 0x2b, 0x00, 0x90, 0x90, 0x90]].concat();
        let code = [&[0xc3][..], &part.repeat(400)].concat();
        assert!(first(&code, 0).is_some());
    }

    /// The parts that are decoded say what the whole says, also where the code is no code.
    #[test]
    fn parts_say_what_the_whole_says() {
        let mut random = 7_u64;
        let mut next = move |end: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % end
        };
        let (mut found, mut others) = (0, 0);
        for round in 0..800 {
            let mut code = Vec::new();
            for _ in 0..1 + next(400) {
                match next(8) {
                    0 => code.extend_from_slice(ENCODINGS[FLUSHES + next(ENCODINGS.len() - FLUSHES)].0),
                    1 => code.extend((0..next(12)).map(|_| next(256) as u8)),
                    2 => code.push([0x0f, 0x66, 0xc5, 0xc4, 0x62, 0x48, 0xb8, 0xe8][next(8)]),
                    _ => code.extend_from_slice([&[0x90][..], &[0x48, 0x89, 0xd8], &[0x85, 0xc0]][next(3)]),
                }
            }
            if next(2) == 0 {
                code.extend_from_slice(ENCODINGS[next(FLUSHES)].0);
            }
            let wanted = first_of_all(&code);
            assert_eq!(first(&code, 0), wanted, "round {round}: {code:x?}");
            *if wanted.is_some() { &mut found } else { &mut others } += 1;
        }
        assert!(found > 100 && others > 100, "{found} {others}");
    }
}
