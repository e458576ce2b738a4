//! `docs/tool-options.md` says of each verb and option of ndctl, daxctl and cxl whether lode takes it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::lode;
use std::collections::BTreeMap;

const TABLE: &str = include_str!("../../../../docs/tool-options.md");
/// The mark of what lode takes.
const TAKEN: &str = "●";

/// Returns true if `word` stands in the text as a word of its own.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |char: char| char.is_ascii_alphanumeric() || char == '-' || char == '_';
    text.split(|char| !is_part(char)).any(|found| found == word)
}

#[test]
fn rows_agree_with_help() {
    let mut helps: BTreeMap<(&str, &str), Option<String>> = BTreeMap::new();
    let (mut taken, mut all) = (0, 0);
    for row in TABLE.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, tool, verb, options, state, _] = cells[..] else { panic!("{row}") };
        let help = helps.entry((tool, verb)).or_insert_with(|| {
            let result = lode([tool, verb, "--help"]);
            (result.code == Some(0)).then_some(result.out)
        });
        let words: Vec<&str> = options.split(", ").map(|word| word.trim_matches('`')).collect();
        let is_there = help
            .as_ref()
            .is_some_and(|help| options.is_empty() || words.iter().all(|word| has_word(help, word)));
        assert_eq!(is_there, state == TAKEN, "{row}");
        assert!(state == TAKEN || state.split(' ').count() > 3, "a reason: {row}");
        taken += usize::from(state == TAKEN);
        all += 1;
    }
    assert!(all > 300 && taken * 100 >= all * 95, "{taken} of {all}");
}
