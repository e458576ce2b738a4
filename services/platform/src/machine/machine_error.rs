//! Errors of machine files.

use thiserror::Error;

/// Error in a machine file, or an unknown machine name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The file does not parse.
    #[error("line {line}, column {column}: {message}{}", suggestion_text(suggestion))]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// Message of the parser.
        message: String,
        /// The word that was probably meant.
        suggestion: Option<String>,
    },
    /// A value is invalid.
    #[error("line {line}, column {column}: {what} can't be {found}: it is {want}")]
    Value {
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// The quantity.
        what: &'static str,
        /// The value.
        found: String,
        /// Description of valid values.
        want: &'static str,
    },
    /// No included machine has this name.
    #[error(
        "no machine {name} is included, and there is no file of this name{}",
        suggestion_or_known(suggestion, known)
    )]
    NotIncluded {
        /// The name.
        name: String,
        /// The name that was probably meant.
        suggestion: Option<String>,
        /// The names of the included machines.
        known: Vec<&'static str>,
    },
}

fn suggestion_text(word: &Option<String>) -> String {
    word.as_ref().map_or(String::new(), |word| format!("; was `{word}` meant?"))
}

fn suggestion_or_known(suggestion: &Option<String>, known: &[&str]) -> String {
    if suggestion.is_some() {
        suggestion_text(suggestion)
    } else {
        format!("; included are {}", known.join(", "))
    }
}
