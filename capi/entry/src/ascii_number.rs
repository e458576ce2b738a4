//! Numbers at the start of environment variables, as the C library's atoll(3) reads them.

/// Returns the decimal number at the start of `text`, after white space; 0 if there is none. A number that is too large
/// becomes the largest.
pub fn leading_number(text: &[u8]) -> i64 {
    let text = text.trim_ascii_start();
    let (is_negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let value =
        digits.fold(0i64, |value, digit| value.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    if is_negative { -value } else { value }
}

/// Returns the hexadecimal number at the start of `text`, with or without `0x`; `None` if there is none, or if it is too
/// large.
pub fn leading_hexadecimal(text: &[u8]) -> Option<usize> {
    let text = text.trim_ascii_start();
    let digits = match text {
        [b'0', b'x' | b'X', rest @ ..] if rest.first().is_some_and(u8::is_ascii_hexdigit) => rest,
        _ => text,
    };
    let end = digits.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(digits.len());
    usize::from_str_radix(std::str::from_utf8(&digits[..end]).ok()?, 16).ok()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn decimal_prefixes_are_read_as_atoll_does() {
        for (text, value) in [
            ("", 0),
            ("x", 0),
            ("1", 1),
            (" \t+12x9", 12),
            ("-3", -3),
            ("--3", 0),
            ("007", 7),
            ("99999999999999999999", i64::MAX),
        ] {
            assert_eq!(leading_number(text.as_bytes()), value, "{text}");
        }
    }

    #[test]
    fn hexadecimal_prefixes_are_read_as_strtoull_does() {
        for (text, value) in [
            ("", None),
            ("g", None),
            ("10000000000", Some(1 << 40)),
            ("0x10Zz", Some(16)),
            ("0x", Some(0)),
            ("fffffffffffffffff", None),
        ] {
            assert_eq!(leading_hexadecimal(text.as_bytes()), value, "{text}");
        }
    }
}
