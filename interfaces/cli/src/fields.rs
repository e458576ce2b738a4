//! The fields of JSON output, for help and manual pages.

use crate::failure::EXIT_CODES;

/// Largest width of a line of help, in columns.
const WIDTH: usize = 98;

/// Returns the last sections of a command's help: the fields of its JSON output, and the exit codes.
pub(crate) fn help(fields: &[(&str, &str)]) -> String {
    format!("{}\n{EXIT_CODES}", items("JSON fields", fields))
}

/// Returns a section of help: a head, and a line for each name with its meaning.
pub(crate) fn items(head: &str, items: &[(&str, &str)]) -> String {
    let width = items.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = format!("{head}:\n");
    for (name, what) in items {
        let mut line = format!("  {name:width$} ");
        for word in what.split(' ') {
            if line.chars().count() + 1 + word.chars().count() > WIDTH {
                text += &format!("{line}\n");
                line = " ".repeat(width + 3);
            }
            line += &format!(" {word}");
        }
        text += &format!("{line}\n");
    }
    text
}
