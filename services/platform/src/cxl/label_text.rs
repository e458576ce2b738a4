//! Text of the file with a label area: hexadecimal digits, without the zeros at its end.

/// Returns the text of an area.
pub(crate) fn digits(area: &[u8]) -> String {
    let used = area.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    area[..used].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the area of `size` bytes that a text has; `None` if the text has other than hexadecimal digits, or more than
/// the area.
pub(crate) fn area(text: &str, size: u64) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    let pairs = text.trim_end().as_bytes().chunks(2);
    let bytes = pairs.map(|pair| Some(digit(&pair[0])? << 4 | digit(pair.get(1)?)?));
    let mut bytes: Vec<u8> = bytes.collect::<Option<_>>()?;
    if bytes.len() as u64 > size {
        return None;
    }
    bytes.resize(size as usize, 0);
    Some(bytes)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn areas_round_trip() {
        let bytes = [0, 0xab, 1, 0, 0, 0];
        assert_eq!(digits(&bytes), "00ab01");
        assert_eq!(area("00ab01\n", 6), Some(bytes.to_vec()));
        assert_eq!(area("", 2), Some(vec![0, 0]));
        for text in ["zz", "0", "00ab01", "+1"] {
            assert_eq!(area(text, 2), None, "{text}");
        }
    }
}
