//! The language of comments: a sentence names its subject.

use super::Finding;
use super::source::Source;

/// Openings of a sentence in which a clause takes the place of a named subject or a verb.
const OPENINGS: [&str; 6] = ["What", "Whether", "How", "Who", "Where", "Which"];
/// Subjects that name no thing. Split, so that the rule does not find them in this file.
const NAMELESS: [&str; 3] = [concat!("no", "body"), concat!("some", "body"), concat!("who", "ever")];
/// A part of a sentence that is no longer is a heading or a label.
const WORDS_MIN: usize = 3;

/// Finds doc comments with such openings, and comments with such subjects, outside of tests.
pub(super) fn check(source: &Source, text: &str) -> Vec<Finding> {
    if source.path.contains("/tests/") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut paragraph = Paragraph::default();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let line = line.trim_start();
        if source.is_test(number) || !line.starts_with("//") {
            findings.extend(std::mem::take(&mut paragraph).check(&source.path));
            continue;
        }
        if let Some(word) = nameless_in(line) {
            let advice = format!("name the thing that the sentence is about, in place of \"{word}\"");
            findings.push(Finding::new(&source.path, number, "language", advice));
        }
        match line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim) {
            Some(text) if !text.is_empty() => paragraph.add(number, text),
            _ => findings.extend(std::mem::take(&mut paragraph).check(&source.path)),
        }
    }
    findings.extend(paragraph.check(&source.path));
    findings
}

fn nameless_in(line: &str) -> Option<&'static str> {
    let lower = line.to_lowercase();
    let has = |word: &&&str| lower.split(|letter: char| !letter.is_alphanumeric()).any(|part| part == **word);
    NAMELESS.iter().find(has).copied()
}

/// Lines of a doc comment up to an empty one.
#[derive(Default)]
struct Paragraph {
    /// Each word, with the number of its line.
    words: Vec<(usize, String)>,
}

impl Paragraph {
    fn add(&mut self, line: usize, text: &str) {
        self.words.extend(text.split_whitespace().map(|word| (line, word.to_owned())));
    }

    fn check(self, path: &str) -> Vec<Finding> {
        let is_prose = self.words.first().is_some_and(|(_, word)| !word.starts_with(['#', '|', '`']));
        let parts = self.words.split_inclusive(|(_, word)| word.ends_with(['.', ':', ';']));
        let opening = |part: &[(usize, String)]| {
            let (line, first) = part.first().filter(|_| part.len() >= WORDS_MIN)?;
            let word = OPENINGS.iter().find(|word| first == *word)?;
            let advice = format!(
                "begin with a verb, or with the thing that the sentence is about, not with \"{word}\""
            );
            Some(Finding::new(path, *line, "language", advice))
        };
        parts.filter(|_| is_prose).filter_map(opening).collect()
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let source = Source::parse("a/src/lib.rs", text).unwrap();
        check(&source, text).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn banned_openings_and_subjects_are_found() {
        assert_eq!(lines("/// Returns the length.\nfn a() {}\n"), [0; 0]);
        assert_eq!(lines("/// Whether it is empty.\nfn a() {}\n"), [1]);
        assert_eq!(
            lines("/// Returns it. What\n/// follows is not read: where\n/// it ends.\nfn a() {}\n"),
            [1]
        );
        assert_eq!(lines("/// What it is.\n///\n/// Where it lies in the pool.\nfn a() {}\n"), [1, 3]);
        let nameless = format!("// For {}'s use.\nfn a() {{}}\n", NAMELESS[0]);
        assert_eq!(lines(&nameless), [1]);
    }

    #[test]
    fn headings_and_tests_are_exempt() {
        assert_eq!(lines("/// What next?\nfn a() {}\n"), [0; 0]);
        assert_eq!(lines("/// Where:\nfn a() {}\n"), [0; 0]);
        assert_eq!(
            lines("#[cfg(test)]\nmod test {\n    /// Whether it is empty.\n    fn a() {}\n}\n"),
            [0; 0]
        );
    }
}
