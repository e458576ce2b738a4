#![allow(clippy::unwrap_used, reason = "a test may panic")]
//! The table of `tests/cost.rs`, here and in the crates above.

use lode_layout::Rung;
use lode_pmem::Counts;
use std::fmt::{Display, Write};
use std::path::Path;
use std::{env, fs};

/// The table as it grows.
pub(crate) struct Table {
    text: String,
}

impl Table {
    pub(crate) fn new() -> Table {
        let columns =
            ["drains", "waiting", "log writes", "copied lines", "bytes", "flushed lines", "stored bytes"];
        let mut table = Table { text: String::new() };
        table.line("operation", "rung", columns);
        table
    }

    fn line(&mut self, name: &str, rung: &str, cells: [impl Display; 7]) {
        write!(self.text, "{name:<24}{rung:<7}").unwrap();
        for cell in cells {
            write!(self.text, "{cell:>14}").unwrap();
        }
        self.text.push('\n');
    }

    /// Adds the line of an operation.
    pub(crate) fn add(&mut self, name: &str, rung: Rung, counts: Counts) {
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
        self.line(name, &rung.to_string(), cells);
    }

    /// Writes the table where `cargo xtask cost` looks for it, and compares it with the golden file of `package`.
    pub(crate) fn compare(&self, package: &str, golden: &str) {
        if let Some(folder) = env::var_os("LODE_COST_OUT") {
            let path = Path::new(&folder).join(package).with_extension("golden");
            fs::write(path, &self.text).unwrap();
        }
        assert!(self.text == golden, "`cargo xtask cost` shows what differs from:\n{}", self.text);
    }
}
