//! A Rust source: its syntax tree, and its lines, comments and tests, which the tree does not have.

use anyhow::{Context, Result, anyhow};
use proc_macro2::{Span, TokenStream, TokenTree};
use std::ops::RangeInclusive;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A Rust source file. Lines are counted from 1.
pub(super) struct Source {
    /// Path relative to the root of the workspace.
    pub(super) path: String,
    pub(super) file: syn::File,
    /// The lines with an identifier `unsafe`, also in macros.
    pub(super) unsafe_lines: Vec<usize>,
    lines: Vec<Line>,
    tests: Vec<RangeInclusive<usize>>,
}

/// The content of a line.
#[derive(Default)]
struct Line {
    code: bool,
    comment: String,
}

impl Source {
    /// Parses a source.
    pub(super) fn parse(path: &str, text: &str) -> Result<Source> {
        let tokens: TokenStream = text.parse().map_err(|error| anyhow!("{path}: {error}"))?;
        let mut scan = Scan { text, covered: vec![false; text.len()], unsafe_lines: Vec::new() };
        scan.stream(tokens.clone());
        let file = syn::parse2(tokens).with_context(|| path.to_owned())?;
        let mut tests = Tests { ranges: Vec::new() };
        tests.visit_file(&file);
        if is_test_file(path) {
            tests.ranges.push(0..=usize::MAX);
        }
        let lines = scan.lines();
        Ok(Source {
            path: path.to_owned(),
            file,
            unsafe_lines: scan.unsafe_lines,
            lines,
            tests: tests.ranges,
        })
    }

    /// Returns true if the line belongs to a test.
    pub(super) fn is_test(&self, line: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&line))
    }

    /// Counts the lines with code in the range, without tests.
    pub(super) fn code_lines(&self, range: RangeInclusive<usize>) -> usize {
        let first = *range.start();
        let lines = self.lines.iter().enumerate().skip(first - 1).take(range.end() + 1 - first);
        lines.filter(|(index, line)| line.code && !self.is_test(index + 1)).count()
    }

    /// Returns the number of the last line.
    pub(super) fn last_line(&self) -> usize {
        self.lines.len()
    }

    /// Returns true if a comment with `tag` stands on the line, or above it. The search ends at line `first`, at an
    /// empty line, and after more than `reach` lines of code.
    pub(super) fn is_tagged(&self, tag: &str, line: usize, first: usize, reach: usize) -> bool {
        let mut between = 0;
        for above in (first.max(1)..=line).rev() {
            let Some(Line { code, comment }) = self.lines.get(above - 1) else { return false };
            if comment.contains(tag) {
                return true;
            }
            between += usize::from(*code && above < line);
            if between > reach || (!code && comment.is_empty()) {
                return false;
            }
        }
        false
    }
}

/// Returns true for integration tests, benches and examples, which are files of their own. The group `tests` at the
/// root has crates, which count as any other.
fn is_test_file(path: &str) -> bool {
    let mut parts = path.split('/').skip(1);
    parts.any(|part| ["tests", "test", "tests.rs", "test.rs", "benches", "examples"].contains(&part))
}

/// The walk over the tokens that separates comments from code.
struct Scan<'a> {
    text: &'a str,
    /// For each byte, true if a token covers it.
    covered: Vec<bool>,
    unsafe_lines: Vec<usize>,
}

impl Scan<'_> {
    fn stream(&mut self, stream: TokenStream) {
        for token in stream {
            match token {
                TokenTree::Group(group) => {
                    if self.cover(group.span_open()) {
                        self.stream(group.stream());
                        self.cover(group.span_close());
                    }
                }
                TokenTree::Ident(ident) => {
                    if ident == "unsafe" {
                        self.unsafe_lines.push(ident.span().start().line);
                    }
                    self.cover(ident.span());
                }
                other => {
                    self.cover(other.span());
                }
            }
        }
    }

    /// Returns false for a token of a documentation comment: its span begins where the comment does.
    fn cover(&mut self, span: Span) -> bool {
        // Most of the walk's time is spent in this call.
        let range = span.byte_range();
        let text = self.text.get(range.start..).unwrap_or_default();
        let is_code = !(text.starts_with("//") || text.starts_with("/*"));
        if is_code {
            self.covered[range].fill(true);
        }
        is_code
    }

    fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut line = Line::default();
        for (at, character) in self.text.char_indices() {
            if character == '\n' {
                lines.push(std::mem::take(&mut line));
            } else if self.covered[at] {
                line.code = true;
            } else if !character.is_whitespace() || !line.comment.is_empty() {
                line.comment.push(character);
            }
        }
        lines.push(line);
        lines
    }
}

/// The walk over the items that finds tests.
struct Tests {
    ranges: Vec<RangeInclusive<usize>>,
}

impl<'ast> Visit<'ast> for Tests {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Struct(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            syn::Item::Const(item) => &item.attrs,
            syn::Item::Static(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if attributes.iter().any(is_test_attribute) {
            self.ranges.push(lines_of(item.span()));
        } else {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if function.attrs.iter().any(is_test_attribute) {
            self.ranges.push(lines_of(function.span()));
        }
    }
}

/// Returns true if the attribute is `#[test]`, or a `cfg` that asks for tests.
fn is_test_attribute(attribute: &syn::Attribute) -> bool {
    if attribute.path().is_ident("test") {
        return true;
    }
    let syn::Meta::List(list) = &attribute.meta else { return false };
    attribute.path().is_ident("cfg") && has_ident(&list.tokens, "test") && !has_ident(&list.tokens, "not")
}

fn has_ident(tokens: &TokenStream, name: &str) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == name,
        TokenTree::Group(group) => has_ident(&group.stream(), name),
        _ => false,
    })
}

/// Returns the lines that a span covers.
pub(super) fn lines_of(span: Span) -> RangeInclusive<usize> {
    span.start().line..=span.end().line
}

#[cfg(test)]
mod test {
    use super::*;

    const TEXT: &str = "//! Head.\n\n/// Doc.\nfn one() {\n    // Why.\n    two(); // beside\n}\n\n#[cfg(test)]\nmod test {\n    fn three() {}\n}\n#[cfg(not(test))]\nfn four() {}\n";

    #[test]
    fn code_comments_and_tests_are_distinguished() {
        let source = Source::parse("a.rs", TEXT).unwrap();
        let code = [4, 6, 7, 9, 10, 11, 12, 13, 14];
        for line in 1..=source.last_line() {
            assert_eq!(source.lines[line - 1].code, code.contains(&line), "line {line}");
            assert_eq!(source.is_test(line), (9..=12).contains(&line), "line {line}");
        }
        assert_eq!(source.lines[5].comment.trim(), "// beside");
        assert_eq!(source.code_lines(1..=source.last_line()), 5);
        assert!(Source::parse("heap/tests/crash.rs", TEXT).unwrap().is_test(4));
        assert!(!Source::parse("tests/attack/src/kill.rs", TEXT).unwrap().is_test(4));
    }

    #[test]
    fn tag_ends_at_empty_line() {
        let source =
            Source::parse("a.rs", "fn f() {\n    // TAG: a\n    a();\n    b();\n\n    c();\n}\n").unwrap();
        let tagged = |line, first, reach| source.is_tagged("TAG:", line, first, reach);
        assert!(tagged(3, 1, 9) && tagged(4, 1, 9));
        assert!(!tagged(6, 1, 9), "an empty line is between");
        assert!(!tagged(4, 3, 9), "the tag is above the first line");
        assert!(!tagged(4, 1, 0), "a line of code is between");
    }

    #[test]
    fn finds_unsafe_in_macros() {
        let source = Source::parse("a.rs", "macro_rules! m {\n    () => { unsafe { f() } };\n}\n").unwrap();
        assert_eq!(source.unsafe_lines, [2]);
    }
}
