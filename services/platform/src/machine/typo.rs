//! Suggestions for mistyped words.

use strsim::damerau_levenshtein;

/// Returns the known word nearest to a mistyped one; `None` if no word is near.
pub fn nearest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = typed.chars().count() / 3 + 1;
    let ranked = known.map(|word| (damerau_levenshtein(typed, word), word));
    ranked
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn near_words_are_suggested() {
        let known = ["capacity", "locator", "handle"];
        assert_eq!(nearest("capcity", known.into_iter()), Some("capacity"));
        assert_eq!(nearest("hanlde", known.into_iter()), Some("handle"));
        assert_eq!(nearest("voltage", known.into_iter()), None);
        assert_eq!(nearest("", known.into_iter()), None);
    }
}
