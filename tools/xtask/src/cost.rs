//! Golden files of what operations cost: `tests/cost.golden` of any crate with a `tests/cost.rs`.
//!
//! The test measures its table, and writes it to `$LODE_COST_OUT/<package>.golden` if that variable is set. It then
//! fails if the table differs from its golden file. So `cargo test` needs no code from here; this module prints the
//! difference, and replaces the golden file if asked.

use crate::flavor::Flavor;
use crate::log::Log;
use crate::workspace::{Package, Workspace};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// Measures all tables and compares them with their golden files, or replaces these. Returns true if all are right.
pub(crate) fn run(workspace: &Workspace, accept: bool) -> Result<bool> {
    let folder = workspace.target.join("cost");
    fs::create_dir_all(&folder)?;
    let mut good = true;
    for package in workspace.with_test("cost") {
        let written = folder.join(format!("{}.golden", package.name));
        // Remove the result of an earlier run, which must not pass for one of this run.
        if written.exists() {
            fs::remove_file(&written)?;
        }
        let words = format!("test --locked --package {} --test cost", package.name);
        let cargo = Flavor::Checked.cargo(workspace, &words).set("LODE_COST_OUT", &folder);
        let outcome = cargo.run(Log::default())?;
        let same = compare(workspace, package, &written, accept)?;
        good &= same && (outcome.success || accept);
    }
    Ok(good)
}

/// Compares the golden file of `package` with the new table, and replaces it on `accept`. Returns true if they agree at
/// the end.
fn compare(workspace: &Workspace, package: &Package, written: &Path, accept: bool) -> Result<bool> {
    let golden = workspace.root.join(&package.folder).join("tests/cost.golden");
    let actual = fs::read_to_string(written)
        .with_context(|| format!("tests/cost.rs of {} did not write {}", package.name, written.display()))?;
    let expected = if golden.exists() { fs::read_to_string(&golden)? } else { String::new() };
    if actual == expected {
        return Ok(true);
    }
    println!("{}:", golden.display());
    print!("{}", difference(&expected, &actual));
    if accept {
        fs::write(&golden, actual)?;
        println!("accepted: give the reason in the commit message");
    } else {
        println!(
            "if that is meant, run `cargo xtask cost --accept` and give the reason in the commit message"
        );
    }
    Ok(accept)
}

/// Returns the lines that only one of the two has. Each line names its operation, so the order of the lines has no
/// meaning.
fn difference(expected: &str, actual: &str) -> String {
    let only = |mark: char, these: &str, those: &str| -> String {
        let lines = these.lines().filter(|line| !those.lines().any(|other| other == *line));
        lines.map(|line| format!("  {mark} {line}\n")).collect()
    };
    let changed = only('-', expected, actual) + &only('+', actual, expected);
    if changed.is_empty() { "  the same lines in another order\n".into() } else { changed }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn difference_shows_changed_lines() {
        let shown = difference("insert 1 3 192\nlookup 0 0 0\n", "insert 2 4 256\nlookup 0 0 0\n");
        assert_eq!(shown, "  - insert 1 3 192\n  + insert 2 4 256\n");
        assert_eq!(difference("a\nb\n", "b\na\n"), "  the same lines in another order\n");
    }
}
