//! Untrusted texts, such as names in labels, on a terminal.

/// Replaces control characters, which could begin a line or move the cursor.
pub fn one_line(text: &str) -> String {
    text.chars().map(|one| if one.is_control() { '\u{fffd}' } else { one }).collect()
}
