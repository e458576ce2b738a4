//! Names as plain characters.

/// Replaces characters of a name that begin a line, move the cursor or change the text direction.
pub(super) fn plain(text: &str) -> String {
    let hostile = |one: char| {
        one.is_control()
            || matches!(one, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    text.chars().map(|one| if hostile(one) { '\u{fffd}' } else { one }).collect()
}
