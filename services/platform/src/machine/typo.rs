//! Suggestions for mistyped words.

/// Returns the known word nearest to a mistyped one; `None` if no word is near.
pub fn nearest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = typed.chars().count() / 3 + 1;
    let ranked = known.map(|word| (distance(typed, word), word));
    ranked
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// Returns the Levenshtein distance: insertions, deletions and substitutions between the words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (row, from) in a.chars().enumerate() {
        let mut left = row + 1;
        let mut line = vec![left];
        for (column, to) in b.iter().enumerate() {
            let changed = above[column] + usize::from(from != *to);
            left = changed.min(above[column + 1] + 1).min(left + 1);
            line.push(left);
        }
        above = line;
    }
    above[b.len()]
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_not() {
        let known = ["capacity", "locator", "handle"];
        assert_eq!(nearest("capcity", known.into_iter()), Some("capacity"));
        assert_eq!(nearest("hanlde", known.into_iter()), Some("handle"));
        assert_eq!(nearest("voltage", known.into_iter()), None);
        assert_eq!(nearest("", known.into_iter()), None);
        assert_eq!((distance("", "abc"), distance("abc", "abc"), distance("abc", "bcd")), (3, 0, 2));
    }
}
