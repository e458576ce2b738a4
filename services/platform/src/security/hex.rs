//! Bytes as hexadecimal digits.

/// Returns the digits of bytes, in lower case.
pub(super) fn encode(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

/// Returns the bytes of digits; `None` for an odd number of digits, and for anything but digits.
pub(super) fn decode(digits: &str) -> Option<Vec<u8>> {
    let values: Option<Vec<u8>> =
        digits.chars().map(|digit| digit.to_digit(16).map(|value| value as u8)).collect();
    let values = values.filter(|values| values.len().is_multiple_of(2))?;
    Some(values.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod test {
    use super::{decode, encode};

    #[test]
    fn digits_round_trip() {
        for bytes in [&[][..], &[0], &[0x0f, 0xf0, 0xff]] {
            assert_eq!(decode(&encode(bytes)).as_deref(), Some(bytes));
        }
        assert_eq!(decode("0"), None);
        assert_eq!(decode("0g"), None);
        assert_eq!(decode("é"), None);
    }
}
