//! The output of a stage: its lines, each with the stage's name in front if stages run side by side.

use std::io::{self, Write};

/// The output of one stage.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Log {
    /// Name of the stage, if other stages print at the same time.
    pub(crate) stage: Option<&'static str>,
}

impl Log {
    /// Prints a line in one piece, also while other stages print.
    pub(crate) fn line(&self, line: &str) {
        let line = match self.stage {
            Some(stage) => format!("{stage:<8} | {line}\n"),
            None => format!("{line}\n"),
        };
        // A closed pipe must not end the tests.
        let _ = io::stdout().lock().write_all(line.as_bytes());
    }

    /// Prints each line of a text.
    pub(crate) fn text(&self, text: &str) {
        text.lines().for_each(|line| self.line(line));
    }
}
