//! The table of a crate's `tests/cost.rs`, and the medium that it measures.

use lode_pmem::{Counted, Counts, Durability, Mapping, Medium};
use std::fmt::{Display, Write};
use std::path::Path;
use std::{env, fs};

/// Returns a counting medium of `len` bytes: memory, or at durability `commit` a file without a name in `folder`.
pub fn medium(len: u64, durability: Durability, folder: &str) -> Counted<Mapping> {
    let options = Mapping::options().durability(durability);
    if durability != Durability::Commit {
        return Counted::new(options.map_anonymous(len).unwrap());
    }
    let file = tempfile::tempfile_in(folder).unwrap();
    file.set_len(len).unwrap();
    Counted::new(options.map_file(file, "cost").unwrap())
}

/// A table of costs, with a line for each operation.
#[derive(Debug)]
pub struct Table {
    text: String,
}

impl Table {
    /// Returns a table that has only the names of its columns.
    pub fn empty() -> Table {
        let columns =
            ["drains", "waiting", "log writes", "copied lines", "bytes", "flushed lines", "stored bytes"];
        let mut table = Table { text: String::new() };
        table.line("operation", "durability", columns);
        table
    }

    fn line(&mut self, name: &str, durability: &str, cells: [impl Display; 7]) {
        write!(self.text, "{name:<24}{durability:<7}").unwrap();
        for cell in cells {
            write!(self.text, "{cell:>14}").unwrap();
        }
        self.text.push('\n');
    }

    /// Runs `operation` on `medium`, and adds its line.
    pub fn measure<R>(
        &mut self,
        medium: &Counted<Mapping>,
        name: &str,
        operation: impl FnOnce() -> R,
    ) -> (R, Counts) {
        let before = medium.counts();
        let result = operation();
        let counts = medium.counts() - before;
        self.add(name, medium.durability(), counts);
        (result, counts)
    }

    /// Adds the line of an operation.
    pub fn add(&mut self, name: &str, durability: Durability, counts: Counts) {
        let Counts {
            drains,
            drains_waiting,
            lines_flushed,
            lines_copied,
            bytes_stored,
            bytes_copied,
            log_writes,
        } = counts;
        let cells =
            [drains, drains_waiting, log_writes, lines_copied, bytes_copied, lines_flushed, bytes_stored];
        self.line(name, &durability.to_string(), cells);
    }

    /// Compares the table with the golden file of `package`, as [`compare`] does.
    pub fn compare(&self, package: &str, golden: &str) {
        compare(&self.text, package, golden);
    }
}

/// Writes the table `text` to the folder in which `cargo xtask cost` expects it. Then compares it with the golden file of
/// `package`.
pub fn compare(text: &str, package: &str, golden: &str) {
    if let Some(folder) = env::var_os("LODE_COST_OUT") {
        let path = Path::new(&folder).join(package).with_extension("golden");
        fs::write(path, text).unwrap();
    }
    assert!(text == golden, "`cargo xtask cost` shows what differs from:\n{text}");
}
