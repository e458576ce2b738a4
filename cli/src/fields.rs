//! The fields of JSON answers, for help and manual pages.

use crate::arguments::EXIT_CODES;
use std::fmt::Write as _;

/// The end of a command's help: what each field of its JSON answer says.
pub(crate) fn help(fields: &[(&str, &str)]) -> String {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::from("JSON fields:\n");
    for (name, what) in fields {
        // Writing to a string can't fail.
        let _ = writeln!(text, "  {name:width$}  {what}");
    }
    format!("{text}\n{EXIT_CODES}")
}
