//! The output of a command.

use crate::failure::Failure;
use serde_json::{Map, Value};
use std::io::{self, Write};
use std::process::ExitCode;

/// The output of a command: text for people, fields for programs, and the exit code.
#[derive(Debug, Default)]
pub(crate) struct Output {
    text: Vec<u8>,
    fields: Map<String, Value>,
    code: u8,
}

impl Output {
    /// Returns an empty output, for a command that has printed its text itself or has none.
    pub(crate) fn empty() -> Output {
        Output::default()
    }

    /// Returns an output that is printed as `text` unless `--json` is given.
    pub(crate) fn text(text: impl Into<Vec<u8>>) -> Output {
        Output { text: text.into(), ..Output::default() }
    }

    /// Replaces the text.
    pub(crate) fn with_text(self, text: impl Into<Vec<u8>>) -> Output {
        Output { text: text.into(), ..self }
    }

    /// Adds text at the end.
    pub(crate) fn followed_by(mut self, text: &str) -> Output {
        self.text.extend(text.bytes());
        self
    }

    /// Adds a field to the JSON output.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Output {
        self.fields.insert(name.to_owned(), value.into());
        self
    }

    /// Sets the exit code.
    pub(crate) fn with_exit_code(self, code: u8) -> Output {
        Output { code, ..self }
    }

    /// Prints the output; returns the exit code.
    pub(crate) fn print(self, json: bool) -> Result<ExitCode, Failure> {
        let mut out = io::stdout().lock();
        let printed = match json {
            true if self.fields.is_empty() => Ok(()),
            true => writeln!(out, "{}", Value::Object(self.fields)),
            false => out.write_all(&self.text),
        };
        printed.and_then(|()| out.flush()).map_err(Failure::stdout)?;
        Ok(ExitCode::from(self.code))
    }
}
