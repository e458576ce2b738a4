//! Words of shell commands.

/// Quotes a word for a shell if it has characters that shells may interpret.
pub(super) fn word(text: &str) -> String {
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
    fn words_are_quoted_where_shells_read_them_otherwise() {
        assert_eq!(word("data-1"), "data-1");
        assert_eq!(word("$(reboot) it's"), r"'$(reboot) it'\''s'");
        assert_eq!(word(""), "''");
    }
}
