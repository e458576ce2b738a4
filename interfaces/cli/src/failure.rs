//! Failures of commands, and their exit codes.

use crate::hint::store_hint;
use lode_heap::OpenError;
use lode_kv::KvError;
use lode_pool::PoolError;
use serde_json::json;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// Exit code of a command that failed.
const FAILED: u8 = 1;
const USAGE: u8 = 2;
/// Exit code of a command that found damage, or of a repair that lost data.
pub(crate) const DAMAGED: u8 = 3;
/// Exit code of a status of a migration that is not finished.
pub(crate) const UNFINISHED: u8 = 4;
/// 128 + SIGINT, as in shells.
pub(crate) const INTERRUPTED: u8 = 130;
/// Separator of the messages of several failures.
const NEXT: &str = "\nlode: ";
/// 128 + SIGPIPE.
const BROKEN_PIPE: u8 = 141;

/// The exit codes, at the end of every manual page.
pub(crate) const EXIT_CODES: &str = "\
Exit status:
  0    done, completely and without damage
  1    failed, or the key is absent
  2    bad usage
  3    the pool or volume is damaged, or the repair lost data
  4    a migration of the pool is not finished
  130  interrupted (SIGINT); what was begun is finished, nothing is left half done
  141  the reader of the output is gone (SIGPIPE)";

/// A failed command. The message names the failed step, the place, the reason and the next step.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    code: u8,
    /// The output of an emulated tool, for standard output.
    output: String,
}

impl Failure {
    /// Returns the failure of several things of one command, each in a line; `None` if none failed.
    pub(crate) fn join(failures: Vec<Failure>) -> Option<Failure> {
        let mut all = failures.into_iter();
        let mut first = all.next()?;
        for failure in all {
            first.message += &format!("{NEXT}{}", failure.message);
            first.code = first.code.max(failure.code);
        }
        Some(first)
    }

    /// Adds output of the failed command, for standard output.
    pub(crate) fn after(self, output: String) -> Failure {
        Failure { output, ..self }
    }

    /// Adds a sentence to the message.
    pub(crate) fn with_note(mut self, note: &str) -> Failure {
        self.message += &format!("; {note}");
        self
    }

    /// Returns true if the command met damage.
    pub(crate) fn is_damage(&self) -> bool {
        self.code == DAMAGED
    }

    /// Returns the failure of `what`. `why` gives the reason and the place.
    pub(crate) fn new(what: impl fmt::Display, why: impl fmt::Display) -> Failure {
        Failure { message: format!("{what}: {why}"), code: FAILED, output: String::new() }
    }

    /// Returns the failure of `what` at damage. `why` gives the place of the damage and the next step.
    pub(crate) fn damage(what: impl fmt::Display, why: impl fmt::Display) -> Failure {
        Failure { code: DAMAGED, ..Failure::new(what, why) }
    }

    /// Returns the failure of `what` after an error of the kernel at `path`.
    pub(crate) fn io(what: &str, path: &Path, error: &io::Error) -> Failure {
        let step = match error.kind() {
            io::ErrorKind::NotFound => "; check the path",
            io::ErrorKind::PermissionDenied => "; ask for permission, or choose another place",
            io::ErrorKind::StorageFull => "; free space, or choose another place",
            _ => "",
        };
        Failure::new(what, format_args!("{}: {error}{step}", path.display()))
    }

    /// Returns the failure for arguments that clap rejects.
    pub(crate) fn from_clap(error: &clap::Error) -> Failure {
        let text = error.render().to_string();
        // clap prints the error first, in one line or with a list below it. Tips and help follow, each after an empty line.
        let paragraphs =
            text.split("\n\n").map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
        let told = paragraphs.enumerate().filter(|(index, text)| *index == 0 || text.starts_with("tip: "));
        let message = told.map(|(_, text)| text).collect::<Vec<_>>().join("; ");
        Failure::usage_error(message.strip_prefix("error: ").unwrap_or(&message))
    }

    /// Returns the failure for wrong arguments that clap accepts.
    pub(crate) fn usage_error(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), code: USAGE, output: String::new() }
    }

    /// Returns the failure of an emulated tool, which prints `output` and exits with `code`.
    pub(crate) fn of_tool(output: String, code: u8, message: String) -> Failure {
        Failure { message, code, output }
    }

    /// Returns the failure to write standard output; silent if the reader has closed it.
    pub(crate) fn stdout(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure { message: String::new(), code: BROKEN_PIPE, output: String::new() };
        }
        Failure::new("writing the output", error)
    }

    /// Returns the failure of a command that a signal ended.
    pub(crate) fn interrupted(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), code: INTERRUPTED, output: String::new() }
    }

    /// Returns a function that turns an error of the pool at `path` into the failure of `what`.
    pub(crate) fn of_pool(what: &'static str, path: &Path) -> impl FnOnce(KvError) -> Failure {
        move |error| {
            let code = if error.is_damage() { DAMAGED } else { FAILED };
            let failure = match error {
                KvError::Acknowledge(error) => return Failure::stdout(error),
                error if names_the_file(&error) => {
                    Failure::new(what, format_args!("{error}{}", store_hint(&error)))
                }
                error => {
                    Failure::new(what, format_args!("{}: {error}{}", path.display(), store_hint(&error)))
                }
            };
            Failure { code, ..failure }
        }
    }

    /// Prints the message to standard error, after the output of an emulated tool; returns the exit code.
    pub(crate) fn report(&self, json: bool) -> ExitCode {
        if !json && !self.output.is_empty() {
            let mut out = io::stdout().lock();
            // The exit code tells of the failure even if standard output is closed.
            let _ = out.write_all(self.output.as_bytes()).and_then(|()| out.flush());
        }
        if !self.message.is_empty() {
            if json {
                for message in self.message.split(NEXT) {
                    eprintln!("{}", json!({ "error": message, "code": self.code }));
                }
            } else {
                eprintln!("lode: {}", self.message);
            }
        }
        ExitCode::from(self.code)
    }
}

/// Returns true if the error's own message names the file.
fn names_the_file(error: &KvError) -> bool {
    matches!(
        error,
        KvError::Follow(_) | KvError::Pool(OpenError::Pool(PoolError::At { .. }) | OpenError::Heap { .. })
    )
}
