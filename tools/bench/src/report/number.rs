//! Numbers as people read them.

/// Three digits that matter, thousands grouped.
pub(crate) fn show(value: f64) -> String {
    let places = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 0.1 || v == 0.0 => 2,
        _ => 4,
    };
    let text = format!("{value:.places$}");
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), None), |(w, f)| (w, Some(f)));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) && grouped != "-" {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    fraction.map_or(grouped.clone(), |fraction| format!("{grouped}.{fraction}"))
}

/// A number as [`show`] shows it, or N/A.
pub(crate) fn show_or_absent(value: Option<f64>) -> String {
    value.map_or_else(|| "N/A".to_owned(), show)
}

/// Rounded to four digits that matter, for files that programs read.
pub(crate) fn round(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10_f64.powf(3.0 - value.abs().log10().floor());
    (value * scale).round() / scale
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn show_rounds_to_three_digits() {
        let shown =
            [0.0, 0.0012, 0.866, 9.994, 10.04, 99.94, 100.4, 999.6, 1234.5, 12345.0, 1_234_567.0].map(show);
        let wanted = [
            "0.00",
            "0.0012",
            "0.87",
            "9.99",
            "10.0",
            "99.9",
            "100",
            "1,000",
            "1,234",
            "12,345",
            "1,234,567",
        ];
        assert_eq!(shown, wanted);
        assert_eq!(show(-123_456.0), "-123,456");
    }

    #[test]
    fn round_keeps_four_digits() {
        assert_eq!([0.0, 12345.6, 1.23456, 0.000_123_456].map(round), [0.0, 12350.0, 1.235, 0.000_123_5]);
    }
}
