//! The list of mutants: `tools/xtask/mutants.toml`.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::fmt;
use std::fs;
use std::path::Path;

/// Path of the list, relative to the root of the workspace.
pub(crate) const LIST: &str = "tools/xtask/mutants.toml";

/// A line of the sources, and its replacement.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mutant {
    /// Unique name.
    pub(crate) name: String,
    /// Path of the source, relative to the root of the workspace.
    pub(crate) file: String,
    /// The function that holds the line, as `name` or `Type::name`; as `::name` for a free function if a method has
    /// that name, too.
    pub(crate) function: String,
    /// The line, without the white space around it.
    pub(crate) line: String,
    /// Number of the line among equal lines of the function, from 1.
    pub(crate) nth: Option<usize>,
    /// Replacement of the line.
    pub(crate) mutated: String,
    /// The command that fails on the mutant, as [`Killer`] reads it.
    pub(crate) kills: Option<String>,
    /// Reason why no command can fail on it.
    pub(crate) equivalent: Option<String>,
}

/// The program that distinguishes a mutant from sound code, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Killer {
    /// Exploration `crash ...`: arguments of the program `lode`.
    Crash(String),
    /// Model check `loom TEST`: a test in `tests/loom.rs` of `lode-heap`.
    Loom(String),
    /// Test `test PACKAGE/TEST [FILTER]`: an integration test, or the unit tests if `TEST` is `lib`.
    Test {
        /// The package.
        package: String,
        /// Name of the integration test, or `lib`.
        test: String,
        /// Filter for the test functions to run; all if empty.
        filter: String,
    },
}

impl Mutant {
    /// Returns the number of the mutant in the copy of the sources. It follows from the name alone, so another mutant
    /// in the list changes no other file of the copy.
    pub(crate) fn number(&self) -> u32 {
        // FNV-1a, as in `SWITCH`.
        let hash = self
            .name
            .bytes()
            .fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        hash.max(1)
    }

    /// Returns the killer; `None` for an equivalent mutant, or if the text of the list is not a valid killer.
    pub(crate) fn killer(&self) -> Option<Killer> {
        Killer::parse(self.kills.as_deref()?)
    }
}

impl Killer {
    /// Parses the text of `kills`.
    pub(crate) fn parse(text: &str) -> Option<Killer> {
        let (kind, rest) = text.split_once(' ')?;
        match kind {
            "crash" => Some(Killer::Crash(text.to_owned())),
            "loom" if !rest.contains(' ') => Some(Killer::Loom(rest.to_owned())),
            "test" => {
                let (place, filter) = rest.split_once(' ').unwrap_or((rest, ""));
                let (package, test) = place.split_once('/')?;
                let [package, test, filter] = [package, test, filter].map(str::to_owned);
                Some(Killer::Test { package, test, filter })
            }
            _ => None,
        }
    }
}

impl fmt::Display for Killer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Killer::Crash(text) => f.write_str(text),
            Killer::Loom(test) => write!(f, "loom {test}"),
            Killer::Test { package, test, filter } if filter.is_empty() => write!(f, "test {package}/{test}"),
            Killer::Test { package, test, filter } => write!(f, "test {package}/{test} {filter}"),
        }
    }
}

/// Reads the list.
///
/// # Errors
/// Fails if the file can't be read, or is not a list of mutants.
pub(crate) fn read(root: &Path) -> Result<Vec<Mutant>> {
    parse(&fs::read_to_string(root.join(LIST)).context(LIST)?)
}

/// Parses the text of the list.
///
/// # Errors
/// Fails if the text is not a list of mutants.
pub(crate) fn parse(text: &str) -> Result<Vec<Mutant>> {
    #[derive(Deserialize)]
    struct List {
        mutant: Vec<Mutant>,
    }
    let list: List = toml::from_str(text).context(LIST)?;
    Ok(list.mutant)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn killers_round_trip() {
        for text in [
            "crash log --machine x86-line --threads 3",
            "loom models::pins::one",
            "test lode-pool/power_cut",
            "test lode-pool/power_cut a_test --exact",
        ] {
            assert_eq!(Killer::parse(text).map(|killer| killer.to_string()).as_deref(), Some(text));
        }
        for text in ["crash", "loom", "loom one two", "test lode-pool", "cargo test", "", "Crash log"] {
            assert_eq!(Killer::parse(text), None, "{text}");
        }
    }
}
