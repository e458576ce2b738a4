//! Type numbers: 64-bit hashes of a type's declared name and layout, the same in every build.

/// Initial value and multiplier of FNV-1a.
const START: u64 = 0xCBF2_9CE4_8422_2325;
const MULTIPLIER: u64 = 0x0000_0100_0000_01B3;

const fn with_bytes(hash: u64, bytes: &[u8]) -> u64 {
    let mut hash = hash;
    let mut index = 0;
    while index < bytes.len() {
        hash = (hash ^ bytes[index] as u64).wrapping_mul(MULTIPLIER);
        index += 1;
    }
    // The length counts too: ("ab", "c") and ("a", "bc") must differ.
    with_number(hash, bytes.len() as u64)
}

/// Returns `hash` with `number` mixed in.
pub const fn with_number(hash: u64, number: u64) -> u64 {
    let bytes = number.to_le_bytes();
    let mut hash = hash;
    let mut index = 0;
    while index < bytes.len() {
        hash = (hash ^ bytes[index] as u64).wrapping_mul(MULTIPLIER);
        index += 1;
    }
    hash
}

/// Returns the hash of a declared name.
pub const fn of_name(name: &str) -> u64 {
    with_bytes(START, name.as_bytes())
}

/// Returns `hash` with a field mixed in: its name, its offset in bytes, and the number of its type.
pub const fn with_field(hash: u64, name: &str, off: usize, type_number: u64) -> u64 {
    with_number(with_number(with_bytes(hash, name.as_bytes()), off as u64), type_number)
}

/// Returns `hash` with the size of the type mixed in, in bytes.
pub const fn with_size(hash: u64, size: usize) -> u64 {
    with_number(hash, size as u64)
}

#[cfg(test)]
mod test {
    use super::*;

    /// The numbers are on media, so they can't change.
    #[test]
    fn type_hashes_are_stable() {
        assert_eq!(of_name(""), 0xA8C7_F832_281A_39C5);
        assert_eq!(of_name("u64"), of_name("u64"));
        let point = with_field(of_name("Point"), "x", 0, of_name("u64"));
        assert_ne!(point, with_field(of_name("Point"), "y", 0, of_name("u64")));
        assert_ne!(point, with_field(of_name("Point"), "x", 8, of_name("u64")));
        assert_ne!(point, with_field(of_name("Point"), "x", 0, of_name("i64")));
        assert_ne!(with_bytes(with_bytes(START, b"ab"), b"c"), with_bytes(with_bytes(START, b"a"), b"bc"));
    }
}
