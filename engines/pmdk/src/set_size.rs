//! Sizes: those in set files, a number and a unit, as PMDK reads them; and the least ones.

use lode_layout::{BLOCK, PmdkKind};

/// Least size of a part, in bytes: PMDK's, for each kind of pool.
pub(crate) const PART_SIZE_MIN: u64 = 2 << 20;

/// The units, and the bytes of each.
const UNITS: [(&[u8], u64); 17] = [
    (b"", 1),
    (b"B", 1),
    (b"K", 1 << 10),
    (b"M", 1 << 20),
    (b"G", 1 << 30),
    (b"T", 1 << 40),
    (b"P", 1 << 50),
    (b"KiB", 1 << 10),
    (b"MiB", 1 << 20),
    (b"GiB", 1 << 30),
    (b"TiB", 1 << 40),
    (b"PiB", 1 << 50),
    (b"kB", 1_000),
    (b"MB", 1_000_000),
    (b"GB", 1_000_000_000),
    (b"TB", 1_000_000_000_000),
    (b"PB", 1_000_000_000_000_000),
];

/// Returns the bytes that `text` stands for; `None` if it is no size, or more than 2^64 - 1 bytes. Units are
/// case-sensitive, and no space is before them. PMDK also takes a sign and wraps, which no set file can mean.
pub fn parse_size(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, unit) = text.split_at(digits);
    let number: u64 = str::from_utf8(digits).ok()?.parse().ok()?;
    let (_, bytes) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*bytes)
}

/// Returns the least size of a new pool, in bytes: PMDK's.
pub(crate) const fn size_min(kind: PmdkKind) -> u64 {
    match kind {
        PmdkKind::Objects => 8 << 20,
        PmdkKind::Blocks => (16 << 20) + 2 * BLOCK,
        PmdkKind::Log => 2 << 20,
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn sizes_have_the_units_of_both_standards() {
        for (text, bytes) in [
            ("0", 0),
            ("7B", 7),
            ("2K", 2048),
            ("2KiB", 2048),
            ("2kB", 2000),
            ("3M", 3 << 20),
            ("3MB", 3_000_000),
            ("100G", 100 << 30),
            ("1TiB", 1 << 40),
            ("1PB", 1_000_000_000_000_000),
            ("16383P", 16383 << 50),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_size(text.as_bytes()), Some(bytes), "{text}");
        }
    }

    #[test]
    fn other_words_are_no_sizes() {
        for text in [
            "",
            "M",
            "-1",
            "+1",
            "1 M",
            "1m",
            "1KB",
            "1kiB",
            "1MiBs",
            "0x10",
            "1.5G",
            "16384P",
            "18446744073709551616",
        ] {
            assert_eq!(parse_size(text.as_bytes()), None, "{text}");
        }
    }
}
