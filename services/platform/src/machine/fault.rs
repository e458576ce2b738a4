//! Faults of machine files.

use thiserror::Error;

/// Fault in a machine file, or an unknown machine name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MachineFault {
    /// The file does not parse.
    #[error("line {line}, column {column}: {says}{}", was_meant(meant))]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// Message of the parser.
        says: String,
        /// The word that was probably meant.
        meant: Option<String>,
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
        meant_or_known(meant, known)
    )]
    NotIncluded {
        /// The name.
        name: String,
        /// The name that was probably meant.
        meant: Option<String>,
        /// The names of the included machines.
        known: Vec<&'static str>,
    },
}

fn was_meant(word: &Option<String>) -> String {
    word.as_ref().map_or(String::new(), |word| format!("; was `{word}` meant?"))
}

fn meant_or_known(meant: &Option<String>, known: &[&str]) -> String {
    if meant.is_some() { was_meant(meant) } else { format!("; included are {}", known.join(", ")) }
}
