//! The fields of JSON answers, for help and manual pages.

use crate::arguments::EXIT_CODES;

/// Columns that a line of help takes at most.
const WIDTH: usize = 98;

/// The end of a command's help: what each field of its JSON answer says.
pub(crate) fn help(fields: &[(&str, &str)]) -> String {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::from("JSON fields:\n");
    for (name, what) in fields {
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
    format!("{text}\n{EXIT_CODES}")
}
