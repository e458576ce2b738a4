//! What a command answers.

use crate::failure::Failure;
use serde_json::{Map, Value};
use std::io::{self, Write};
use std::process::ExitCode;

/// What a command answers: text for people, or fields for programs.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    text: Vec<u8>,
    fields: Map<String, Value>,
    code: u8,
}

impl Answer {
    /// Nothing to say, because everything was printed on the way, or there is nothing.
    pub(crate) fn silent() -> Answer {
        Answer::default()
    }

    /// An answer that people read as `text`.
    pub(crate) fn text(text: impl Into<Vec<u8>>) -> Answer {
        Answer { text: text.into(), ..Answer::default() }
    }

    /// The same with a field for programs.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Answer {
        self.fields.insert(name.to_owned(), value.into());
        self
    }

    /// The same with an exit code.
    pub(crate) fn exit_with(self, code: u8) -> Answer {
        Answer { code, ..self }
    }

    /// Prints it; returns the exit code.
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
