//! Byte counts for users and for commands.

/// The units, descending.
const UNITS: [(u64, &str); 4] = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];

/// Formats bytes for users: at most two decimal places, cut off.
pub fn brief(bytes: u64) -> String {
    let Some((unit, word)) = UNITS.into_iter().find(|(unit, _)| bytes >= *unit) else {
        return format!("{bytes} B");
    };
    let hundredths = u128::from(bytes % unit) * 100 / u128::from(unit);
    let part = match hundredths {
        0 => String::new(),
        tenths if tenths % 10 == 0 => format!(".{}", tenths / 10),
        hundredths => format!(".{hundredths:02}"),
    };
    format!("{}{part} {word}", bytes / unit)
}

/// Formats bytes for listings and pictures: at most two decimal places, rounded to the nearest as ndctl does.
pub(crate) fn rounded(bytes: u64) -> String {
    let hundredths = |unit: u64| (u128::from(bytes) * 200 / u128::from(unit)).div_ceil(2);
    // A number that is rounded to 1024 has the next unit.
    let found =
        UNITS.into_iter().find(|(unit, _)| bytes >= *unit || hundredths(*unit) >= 100 && bytes > 1023);
    let Some((unit, word)) = found else { return format!("{bytes} B") };
    let (whole, part) = (hundredths(unit) / 100, hundredths(unit) % 100);
    match part {
        0 => format!("{whole} {word}"),
        tenths if tenths % 10 == 0 => format!("{whole}.{} {word}", tenths / 10),
        part => format!("{whole}.{part:02} {word}"),
    }
}

/// Formats bytes for a command, without rounding.
pub(crate) fn exact(bytes: u64) -> String {
    match UNITS.into_iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((unit, word)) => format!("{}{word}", bytes / unit),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn brief_and_exact_amounts() {
        let both = |bytes| (brief(bytes), exact(bytes));
        let texts = |brief: &str, exact: &str| (brief.to_owned(), exact.to_owned());
        assert_eq!(both(0), texts("0 B", "0"));
        assert_eq!(both(1023), texts("1023 B", "1023"));
        assert_eq!(both(1512 << 30), texts("1.47 TiB", "1512GiB"));
        assert_eq!(both(1 << 40), texts("1 TiB", "1TiB"));
        assert_eq!(both((1 << 30) + (1 << 29)), texts("1.5 GiB", "1536MiB"));
        assert_eq!(both((3 << 20) + 1), texts("3 MiB", "3145729"));
        assert_eq!(rounded(1023), "1023 B");
        assert_eq!(rounded((600 << 30) / 64 * 63), "590.63 GiB");
        assert_eq!((rounded(1512 << 30), rounded(3 << 29)), ("1.48 TiB".to_owned(), "1.5 GiB".to_owned()));
        assert_eq!(
            (rounded((1 << 40) - 1), rounded((1 << 30) - 1)),
            ("1 TiB".to_owned(), "1 GiB".to_owned())
        );
        assert_eq!(rounded((1 << 20) + 1), "1 MiB");
        assert_eq!(rounded(u64::MAX), "16777216 TiB");
        assert_eq!(both(u64::MAX), texts("16777215.99 TiB", "18446744073709551615"));
    }
}
