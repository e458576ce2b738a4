//! The length of an instruction of x86-64, and its name if it makes stores durable: Intel's manual, volume 2, appendix A.

/// The most bytes of an instruction.
pub(crate) const INSTRUCTION_LEN_MAX: usize = 15;

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) len: usize,
    /// The name if the instruction flushes a line, or stores past the cache.
    pub(crate) flush: Option<&'static str>,
}

/// The bytes after an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Operands {
    /// A byte that names registers or memory, with what belongs to it.
    has_modrm: bool,
    /// Bytes of constants.
    constants: usize,
}

/// The prefixes of an opcode without VEX and its kind.
#[derive(Clone, Copy, Debug, Default)]
struct Prefixes {
    has_66: bool,
    has_67: bool,
    /// 0xf2 or 0xf3, whichever is last.
    repeat: Option<u8>,
    is_wide: bool,
}

/// The prefix that belongs to an opcode: none, 0x66, 0xf3 and 0xf2, as VEX numbers them.
type OpcodePrefix = u8;

impl Prefixes {
    fn of_opcode(self) -> OpcodePrefix {
        match self.repeat {
            Some(0xf3) => 2,
            Some(_) => 3,
            None => u8::from(self.has_66),
        }
    }
}

/// Returns the instruction at the start of `code`; `None` if none begins there.
pub(crate) fn decode(code: &[u8]) -> Option<Instruction> {
    let code = &code[..code.len().min(INSTRUCTION_LEN_MAX)];
    let mut prefixes = Prefixes::default();
    let mut at = 0;
    loop {
        match *code.get(at)? {
            0x66 => prefixes.has_66 = true,
            0x67 => prefixes.has_67 = true,
            byte @ (0xf2 | 0xf3) => prefixes.repeat = Some(byte),
            0xf0 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65 => {}
            byte @ 0x40..=0x4f => {
                prefixes.is_wide = byte & 8 != 0;
                at += 1;
                continue;
            }
            _ => break,
        }
        // A prefix of the registers counts just before the opcode.
        prefixes.is_wide = false;
        at += 1;
    }
    decode_opcode(code, at, prefixes)
}

/// Decodes what follows the prefixes.
fn decode_opcode(code: &[u8], at: usize, prefixes: Prefixes) -> Option<Instruction> {
    let byte = |distance: usize| code.get(at + distance).copied();
    match byte(0)? {
        0x0f => match byte(1)? {
            0x38 => {
                let name = || direct_store(byte(2)?, prefixes.of_opcode(), byte(3)?);
                finished(code, at + 3, Operands { has_modrm: true, constants: 0 }, name())
            }
            0x0f | 0x3a => {
                // The opcode of 0x0f 0x0f is its last byte.
                let opcode_len = if byte(1)? == 0x0f { 2 } else { 3 };
                finished(code, at + opcode_len, Operands { has_modrm: true, constants: 1 }, None)
            }
            // Control and debug registers: the operands are registers, whatever the byte says.
            0x20..=0x23 => byte(2).map(|_| Instruction { len: at + 3, flush: None }),
            opcode => {
                let mut operands = of_map_1(opcode)?;
                if opcode == 0x78 && prefixes.of_opcode() % 2 == 1 {
                    operands.constants = 2;
                }
                let name = || name_of(opcode, prefixes.of_opcode(), code.get(at + 2).copied()?, false);
                finished(code, at + 2, operands, name())
            }
        },
        0xc5 => extended(code, at + 2, 1, byte(1)? & 0x7b),
        0xc4 => extended(code, at + 3, byte(1)? & 0x1f, byte(2)? & 0x7b),
        0x62 => extended(code, at + 4, byte(1)? & 7, byte(2)? & 0x7b),
        0x8f if byte(1)? & 0x1f >= 8 => {
            let constants = match byte(1)? & 0x1f {
                8 => 1,
                9 => 0,
                10 => 4,
                _ => return None,
            };
            finished(code, at + 4, Operands { has_modrm: true, constants }, None)
        }
        opcode => finished(code, at + 1, of_map_0(opcode, byte(1), prefixes)?, None),
    }
}

/// Decodes an opcode at `at` with VEX or EVEX, of a map; `fields` are the bits of its third register and of the opcode's prefix.
fn extended(code: &[u8], at: usize, map: u8, fields: u8) -> Option<Instruction> {
    let opcode = *code.get(at)?;
    let operands = match map {
        1 if opcode == 0x77 => Operands { has_modrm: false, constants: 0 },
        1 => Operands {
            has_modrm: true,
            ..of_map_1(opcode).filter(|found| found.constants == 1).unwrap_or(NONE)
        },
        2 | 5 | 6 => Operands { has_modrm: true, constants: 0 },
        3 => Operands { has_modrm: true, constants: 1 },
        7 => Operands { has_modrm: true, constants: 4 },
        _ => return None,
    };
    // Those that we know have no third register.
    let name = || name_of(opcode, fields & 3, code.get(at + 1).copied()?, true);
    let is_known = map == 1 && fields & 0x78 == 0x78;
    finished(code, at + 1, operands, if is_known { name() } else { None })
}

const NONE: Operands = Operands { has_modrm: false, constants: 0 };

/// Returns the instruction whose opcode ends before `at`.
fn finished(code: &[u8], at: usize, operands: Operands, flush: Option<&'static str>) -> Option<Instruction> {
    let mut len = at + operands.constants;
    if operands.has_modrm {
        let modrm = *code.get(at)?;
        let (mode, register) = (modrm >> 6, modrm & 7);
        let has_sib = mode != 3 && register == 4;
        let base = if has_sib { *code.get(at + 1)? & 7 } else { register };
        let displacement = match mode {
            0 if base == 5 => 4,
            1 => 1,
            2 => 4,
            _ => 0,
        };
        len += 1 + usize::from(has_sib) + displacement;
    }
    (len <= code.len()).then_some(Instruction { len, flush })
}

/// Returns what follows an opcode of one byte, whose next byte is `next`.
fn of_map_0(opcode: u8, next: Option<u8>, prefixes: Prefixes) -> Option<Operands> {
    let word = if prefixes.has_66 && !prefixes.is_wide { 2 } else { 4 };
    let of = |has_modrm, constants| Some(Operands { has_modrm, constants });
    match opcode {
        0x00..=0x3f => match opcode & 7 {
            0..=3 => of(true, 0),
            4 => of(false, 1),
            5 => of(false, word),
            _ => None,
        },
        0x68 | 0xa9 => of(false, word),
        0x69 | 0x81 | 0xc7 => of(true, word),
        0x6a | 0x70..=0x7f | 0xa8 | 0xb0..=0xb7 | 0xcd | 0xe0..=0xe7 | 0xeb => of(false, 1),
        0x6b | 0x80 | 0x83 | 0xc0 | 0xc1 | 0xc6 => of(true, 1),
        0x63 | 0x84..=0x8f | 0xd0..=0xd3 | 0xd8..=0xdf | 0xfe | 0xff => of(true, 0),
        0xa0..=0xa3 => of(false, if prefixes.has_67 { 4 } else { 8 }),
        0xb8..=0xbf => of(false, if prefixes.is_wide { 8 } else { word }),
        0xc2 | 0xca => of(false, 2),
        0xc8 => of(false, 3),
        0xe8 | 0xe9 => of(false, 4),
        0xf6 | 0xf7 => {
            let has_constant = next? >> 3 & 7 < 2;
            of(true, usize::from(has_constant) * if opcode == 0xf6 { 1 } else { word })
        }
        0x50..=0x5f | 0x6c..=0x6f | 0x90..=0x99 | 0x9b..=0x9f | 0xa4..=0xa7 | 0xaa..=0xaf => of(false, 0),
        0xc3 | 0xc9 | 0xcb | 0xcc | 0xcf | 0xd7 | 0xec..=0xef | 0xf1 | 0xf4 | 0xf5 | 0xf8..=0xfd => {
            of(false, 0)
        }
        _ => None,
    }
}

/// Returns what follows an opcode after 0x0f.
fn of_map_1(opcode: u8) -> Option<Operands> {
    let of = |has_modrm, constants| Some(Operands { has_modrm, constants });
    match opcode {
        0x04 | 0x0a | 0x0c | 0x24..=0x27 | 0x39 | 0x3b..=0x3f => None,
        0x05..=0x09 | 0x0b | 0x0e | 0x30..=0x37 | 0x77 | 0xa0..=0xa2 | 0xa8..=0xaa | 0xc8..=0xcf => {
            of(false, 0)
        }
        0x80..=0x8f => of(false, 4),
        0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc4..=0xc6 => of(true, 1),
        _ => of(true, 0),
    }
}

/// Returns the name of an instruction of ours, by its opcode after 0x0f or of the map that stands for it.
fn name_of(opcode: u8, prefix: OpcodePrefix, modrm: u8, is_extended: bool) -> Option<&'static str> {
    if modrm >= 0xc0 {
        return match (opcode, prefix, is_extended) {
            (0xf7, 0, false) => Some("MASKMOVQ"),
            (0xf7, 1, false) => Some("MASKMOVDQU"),
            (0xf7, 1, true) => Some("VMASKMOVDQU"),
            _ => None,
        };
    }
    Some(match (opcode, prefix, is_extended) {
        (0xae, 1, false) if modrm >> 3 & 7 == 6 => "CLWB",
        (0xae, 0, false) if modrm >> 3 & 7 == 7 => "CLFLUSH",
        (0xae, 1, false) if modrm >> 3 & 7 == 7 => "CLFLUSHOPT",
        (0xc3, 0, false) => "MOVNTI",
        (0xe7, 0, false) => "MOVNTQ",
        (0xe7, 1, false) => "MOVNTDQ",
        (0x2b, 0, false) => "MOVNTPS",
        (0x2b, 1, false) => "MOVNTPD",
        (0x2b, 2, false) => "MOVNTSS",
        (0x2b, 3, false) => "MOVNTSD",
        (0xe7, 1, true) => "VMOVNTDQ",
        (0x2b, 0, true) => "VMOVNTPS",
        (0x2b, 1, true) => "VMOVNTPD",
        _ => return None,
    })
}

/// Returns the name of an instruction of ours, by its opcode after 0x0f 0x38.
fn direct_store(opcode: u8, prefix: OpcodePrefix, modrm: u8) -> Option<&'static str> {
    match (opcode, prefix) {
        _ if modrm >= 0xc0 => None,
        (0xf8, 1) => Some("MOVDIR64B"),
        (0xf9, 0) => Some("MOVDIRI"),
        _ => None,
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions, Mnemonic};

    fn name_of_iced(mnemonic: Mnemonic) -> Option<String> {
        let name = format!("{mnemonic:?}").to_uppercase();
        let is_ours = name.starts_with("CLFLUSH")
            || name == "CLWB"
            || name.starts_with("MOVDIR")
            || ["MASKMOVQ", "MASKMOVDQU", "VMASKMOVDQU"].contains(&name.as_str())
            || name.trim_start_matches('V').starts_with("MOVNT");
        // A load.
        (is_ours && !name.ends_with("MOVNTDQA")).then_some(name)
    }

    /// Asserts that iced-x86, if it knows an instruction at the start of the code, says the same of it. Returns whether it does.
    fn is_known(code: &[u8]) -> bool {
        let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
        let wanted = decoder.decode();
        if wanted.is_invalid() {
            return false;
        }
        let found = decode(code).map(|found| (found.len, found.flush.map(str::to_owned)));
        assert_eq!(
            found,
            Some((wanted.len(), name_of_iced(wanted.mnemonic()))),
            "{code:x?}: {:?}",
            wanted.code()
        );
        true
    }

    /// Each opcode of each map, after some prefixes, with each byte that names its operands.
    #[test]
    fn lengths_are_those_of_another_decoder() {
        let mut known = 0;
        let starts: [&[u8]; 30] = [
            &[],
            &[0x66],
            &[0x67],
            &[0xf2],
            &[0xf3],
            &[0x48],
            &[0x66, 0x48],
            &[0x48, 0x66],
            &[0x66, 0xf2, 0x41],
            &[0xf0],
            &[0x0f],
            &[0x66, 0x0f],
            &[0xf2, 0x0f],
            &[0xf3, 0x0f],
            &[0x66, 0x48, 0x0f],
            &[0x0f, 0x38],
            &[0x66, 0x0f, 0x38],
            &[0x0f, 0x3a],
            &[0x66, 0x0f, 0x3a],
            &[0xc5, 0xf8],
            &[0xc5, 0xfd],
            &[0xc4, 0xe1, 0x7d],
            &[0xc4, 0xe1, 0xfb],
            &[0xc4, 0xe2, 0x79],
            &[0xc4, 0xe3, 0x79],
            &[0x62, 0xf1, 0x7d, 0x48],
            &[0x62, 0xf2, 0x7d, 0x48],
            &[0x62, 0xf3, 0x7d, 0x48],
            &[0x8f, 0xe8, 0x78],
            &[0x8f, 0xe9, 0x78],
        ];
        for start in starts {
            for (opcode, operands) in
                (0..=255).flat_map(|opcode| (0..=255).map(move |operands| (opcode, operands)))
            {
                let code = [start, &[opcode, operands, 0x25, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]].concat();
                known += usize::from(is_known(&code));
            }
        }
        assert!(known > 500_000, "{known}");
    }

    #[test]
    fn random_bytes_are_decoded_alike() {
        let mut random = 7_u64;
        let mut known = 0;
        for _ in 0..400_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let high = (random >> 32).to_le_bytes();
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let code = [&high[..4], &(random >> 32).to_le_bytes()[..4], &high[..4], &high[..3]].concat();
            known += usize::from(is_known(&code));
            for len in 0..code.len() {
                assert!(decode(&code[..len]).is_none_or(|found| (1..=len).contains(&found.len)));
            }
        }
        assert!(known > 200_000, "{known}");
    }
}
