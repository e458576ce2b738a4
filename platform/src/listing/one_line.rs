//! Texts of others, as names in labels, on a terminal.

/// The text without anything that would begin another line or move the cursor.
pub fn one_line(text: &str) -> String {
    text.chars().map(|one| if one.is_control() { '\u{fffd}' } else { one }).collect()
}
