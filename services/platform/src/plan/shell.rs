//! Words of shell commands.

/// Quotes a word for a shell if it has characters that shells may interpret.
pub(crate) fn quote(text: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_./:+,@%".contains(character);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn special_words_are_quoted() {
        assert_eq!(quote("data-1"), "data-1");
        assert_eq!(quote("$(reboot) it's"), r"'$(reboot) it'\''s'");
        assert_eq!(quote(""), "''");
    }
}
