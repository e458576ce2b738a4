//! The answer of a command.

use crate::failure::Failure;
use serde_json::{Map, Value};
use std::io::{self, Write};
use std::process::ExitCode;

/// The answer of a command: text for people, fields for programs, and the exit code.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    text: Vec<u8>,
    fields: Map<String, Value>,
    code: u8,
}

impl Answer {
    /// Returns an empty answer, for a command that has printed its output itself or has none.
    pub(crate) fn silent() -> Answer {
        Answer::default()
    }

    /// Returns an answer that is printed as `text` unless JSON is asked for.
    pub(crate) fn text(text: impl Into<Vec<u8>>) -> Answer {
        Answer { text: text.into(), ..Answer::default() }
    }

    /// Adds a field to the JSON output.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Answer {
        self.fields.insert(name.to_owned(), value.into());
        self
    }

    /// Sets the exit code.
    pub(crate) fn exit_with(self, code: u8) -> Answer {
        Answer { code, ..self }
    }

    /// Prints the answer; returns the exit code.
    pub(crate) fn print(self, json: bool) -> Result<ExitCode, Failure> {
        let mut out = io::stdout().lock();
        let printed = match json {
            true if self.fields.is_empty() => Ok(()),
            true => writeln!(out, "{}", Value::Object(self.fields)),
            false => out.write_all(&self.text),
        };
        printed.and_then(|()| out.flush()).map_err(Failure::output)?;
        Ok(ExitCode::from(self.code))
    }
}
