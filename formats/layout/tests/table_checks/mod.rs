//! Comparisons of tables with the compiler: offset, length and name of each field.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use lode_layout::format_table::{Field, FormatTable};
use std::fs;
use std::path::Path;

/// Returns the rows `| off | len | field | ...` of a table, without its head and ruler.
fn rows(text: &str) -> Vec<(usize, usize, &str)> {
    text.lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
            let off = usize::from_str_radix(cells.next()?.strip_prefix("0x")?, 16).ok()?;
            Some((off, cells.next()?.parse().ok()?, cells.next()?.trim_matches('`')))
        })
        .collect()
}

/// Compares each table with the compiled fields.
pub(crate) fn compare_with_compiled_fields(tables: &[FormatTable]) {
    for table in tables {
        let compiled: Vec<_> =
            table.fields.iter().map(|Field { name, off, len }| (*off, *len, *name)).collect();
        assert_eq!(rows(table.text), compiled, "{}.md", table.name);
    }
}

/// Compares the end of each field with the start of the next.
pub(crate) fn check_gaps(tables: &[FormatTable]) {
    for table in tables {
        let end = table.fields.iter().fold(0, |end, field| {
            assert_eq!(field.off, end, "{}.md: {} leaves a gap", table.name, field.name);
            field.off + field.len
        });
        assert_eq!(end, table.size, "{}.md: the end is not in the table", table.name);
    }
}

/// Compares the list with the `.md` files in the crate's `src`.
pub(crate) fn check_listed(tables: &[FormatTable]) {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut folders = vec![src];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                found.push(path.file_stem().unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    let mut listed: Vec<String> = tables.iter().map(|table| table.name.to_owned()).collect();
    found.sort();
    listed.sort();
    assert_eq!(found, listed);
}
