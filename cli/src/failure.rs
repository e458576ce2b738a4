//! Why a command could not be done.

use lode_heap::{Doubt, HeapError, OpenError};
use lode_index::IndexError;
use lode_index::kv::KvError;
use lode_pool::PoolError;
use serde_json::json;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// The exit code of what failed.
const FAILED: u8 = 1;
const USAGE: u8 = 2;
/// The exit code of what found damage, or of a repair that lost something.
pub(crate) const DAMAGED: u8 = 3;
/// 128 + SIGINT, as shells have it.
pub(crate) const INTERRUPTED: u8 = 130;
/// 128 + SIGPIPE.
const BROKEN_PIPE: u8 = 141;

/// Why a command could not be done: what, where, why, and what to do next.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// `what` could not be done, because of `why`, which also says where.
    pub(crate) fn new(what: impl fmt::Display, why: impl fmt::Display) -> Failure {
        Failure { message: format!("{what}: {why}"), code: FAILED }
    }

    /// `what` met damage: `why` says where it is, and what to do.
    pub(crate) fn damage(what: impl fmt::Display, why: impl fmt::Display) -> Failure {
        Failure { code: DAMAGED, ..Failure::new(what, why) }
    }

    /// An error of the kernel at `path`.
    pub(crate) fn io(what: &str, path: &Path, error: &io::Error) -> Failure {
        let step = match error.kind() {
            io::ErrorKind::NotFound => "; check the path",
            io::ErrorKind::PermissionDenied => "; ask for permission, or choose another place",
            io::ErrorKind::StorageFull => "; free space, or choose another place",
            _ => "",
        };
        Failure::new(what, format_args!("{}: {error}{step}", path.display()))
    }

    /// The arguments are wrong.
    pub(crate) fn usage(error: &clap::Error) -> Failure {
        let text = error.render().to_string();
        // What is wrong comes first, in one line or with a list below; then an empty line, and help.
        let lines: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
        let message = lines.join(" ");
        Failure { message: message.strip_prefix("error: ").unwrap_or(&message).to_owned(), code: USAGE }
    }

    /// The arguments are wrong in a way that only the library knows.
    pub(crate) fn bad_usage(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), code: USAGE }
    }

    /// Standard output can't be written.
    pub(crate) fn output(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure { message: String::new(), code: BROKEN_PIPE };
        }
        Failure::new("writing the output", error)
    }

    /// SIGINT ended it.
    pub(crate) fn interrupted(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), code: INTERRUPTED }
    }

    /// A command about the pool at `path` failed.
    pub(crate) fn of_pool(what: &'static str, path: &Path) -> impl FnOnce(KvError) -> Failure {
        move |error| {
            let code = if error.is_damage() { DAMAGED } else { FAILED };
            let failure = match error {
                KvError::Acknowledge(error) => return Failure::output(error),
                error if names_its_place(&error) => Failure::new(what, with_next_step(&error)),
                error => Failure::new(what, format_args!("{}: {}", path.display(), with_next_step(&error))),
            };
            Failure { code, ..failure }
        }
    }

    /// Prints it to standard error; returns the exit code.
    pub(crate) fn report(&self, json: bool) -> ExitCode {
        if !self.message.is_empty() {
            if json {
                eprintln!("{}", json!({ "error": self.message, "code": self.code }));
            } else {
                eprintln!("lode: {}", self.message);
            }
        }
        ExitCode::from(self.code)
    }
}

/// Whether the error says by itself which file it is about.
fn names_its_place(error: &KvError) -> bool {
    matches!(error, KvError::Pool(OpenError::Pool(PoolError::At { .. }) | OpenError::Heap { .. }))
}

/// The error, and what to do about it where it does not say so itself.
fn with_next_step(error: &KvError) -> String {
    let step = match heap_error(error) {
        Some(HeapError::InDoubt(Doubt::Home(_))) => "",
        Some(HeapError::InDoubt(_)) => {
            "; look for errors of the device in the kernel's log, then run it again"
        }
        Some(HeapError::Fault(_)) => "; run `lode pool check` to see what is affected",
        _ => "",
    };
    format!("{error}{step}")
}

/// What went wrong in the heap, if that is behind the error.
fn heap_error(error: &KvError) -> Option<HeapError> {
    // A transparent error hides what it holds: its source is the source of that.
    let mut cause: Option<&(dyn Error + 'static)> = Some(match error {
        KvError::Index(error) => error,
        KvError::Pool(error) => error,
        error => error,
    });
    while let Some(error) = cause {
        if let Some(IndexError::Heap(error)) = error.downcast_ref() {
            return Some(*error);
        }
        if let Some(IndexError::Fault(fault)) = error.downcast_ref() {
            return Some(HeapError::Fault(*fault));
        }
        if let Some(error) = error.downcast_ref() {
            return Some(*error);
        }
        cause = error.source();
    }
    None
}
