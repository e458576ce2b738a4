//! Numbers of devices in arguments.

/// Returns the number of a device in its name, as `nmem1`, or alone, as `1`, `0x1` or `01`. ndctl reads a number that
/// stands alone by `strtoul` with base 0.
pub fn device_number(name: &str, prefix: &str) -> Option<u32> {
    if let Some(digits) = name.strip_prefix(prefix) {
        return digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?;
    }
    let (digits, base) = match name.strip_prefix("0x").or_else(|| name.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if name.starts_with('0') => (name, 8),
        None => (name, 10),
    };
    // from_str_radix takes a sign.
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, base).ok())?
}

#[cfg(test)]
mod test {
    use super::device_number;

    #[test]
    fn numbers_are_read_as_ndctl_does() {
        for (name, number) in [
            ("nmem0", Some(0)),
            ("nmem12", Some(12)),
            ("12", Some(12)),
            ("0x1", Some(1)),
            ("0X1f", Some(31)),
            ("010", Some(8)),
            ("0", Some(0)),
            ("09", None),
            ("0x", None),
            ("", None),
            ("nmem", None),
            ("nmem0x1", None),
            ("nmem+1", None),
            ("+1", None),
            ("1f", None),
            ("region1", None),
            ("4294967296", None),
        ] {
            assert_eq!(device_number(name, "nmem"), number, "{name}");
        }
    }
}
