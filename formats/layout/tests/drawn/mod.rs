//! Comparisons of drawings with the compiler: offset, length and name of each field.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use lode_layout::drawing::{Drawing, Field};
use std::fs;
use std::path::Path;

/// Returns the rows `| off | len | field | ...` of a drawing, without its head and ruler.
fn rows(text: &str) -> Vec<(usize, usize, &str)> {
    text.lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
            let off = usize::from_str_radix(cells.next()?.strip_prefix("0x")?, 16).ok()?;
            Some((off, cells.next()?.parse().ok()?, cells.next()?.trim_matches('`')))
        })
        .collect()
}

/// Compares each drawing with the compiled fields.
pub(crate) fn match_the_compiled_fields(drawings: &[Drawing]) {
    for drawing in drawings {
        let compiled: Vec<_> =
            drawing.fields.iter().map(|Field { name, off, len }| (*off, *len, *name)).collect();
        assert_eq!(rows(drawing.text), compiled, "{}.md", drawing.name);
    }
}

/// Compares the end of each field with the start of the next.
pub(crate) fn cover_the_format_without_gaps(drawings: &[Drawing]) {
    for drawing in drawings {
        let end = drawing.fields.iter().fold(0, |end, field| {
            assert_eq!(field.off, end, "{}.md: {} leaves a gap", drawing.name, field.name);
            field.off + field.len
        });
        assert_eq!(end, drawing.size, "{}.md: the end is not drawn", drawing.name);
    }
}

/// Compares the list with the `.md` files in the crate's `src`.
pub(crate) fn are_listed(drawings: &[Drawing]) {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found: Vec<String> = fs::read_dir(src)
        .unwrap()
        .filter_map(|entry| Some(entry.unwrap().file_name().to_str()?.strip_suffix(".md")?.to_owned()))
        .collect();
    let mut listed: Vec<String> = drawings.iter().map(|drawing| drawing.name.to_owned()).collect();
    found.sort();
    listed.sort();
    assert_eq!(found, listed);
}
