//! The mode in which libpmemobj opens the pools of a program.

use super::libraries::Linked;
use lode_capi_program::{ForcedMode, LoadedFile, Reason, VARIABLE, reason_of};
use std::env;
use std::path::Path;

/// The mode, and the reason for it.
#[derive(Debug)]
pub(super) enum ObjectMode {
    /// None of the files flushes by itself.
    Fast,
    /// A file does, or can't be read.
    Careful(Reason),
    /// The environment says it.
    Forced(ForcedMode),
    /// The environment has a value that names no mode.
    Refused(String),
}

impl ObjectMode {
    /// Returns the mode of a program that is linked with libpmemobj; `None` for any other.
    pub(super) fn of(program: &Path, linked: &Linked) -> Option<ObjectMode> {
        if !linked.changed.iter().any(|change| change.name == "libpmemobj.so.1") {
            return None;
        }
        if let Some(value) = env::var_os(VARIABLE) {
            let mode = ForcedMode::of(&value);
            return Some(
                mode.map_or_else(|error| ObjectMode::Refused(error.to_string()), ObjectMode::Forced),
            );
        }
        let files = [program].into_iter().chain(linked.files.iter().map(AsRef::as_ref));
        let loaded =
            |path: &Path| LoadedFile { path: path.to_owned(), number: String::new(), is_deleted: false };
        let reason = { files }.find_map(|path| reason_of(&loaded(path)));
        Some(reason.map_or(ObjectMode::Fast, ObjectMode::Careful))
    }

    /// Returns the mode's name; `None` if the pools are not opened.
    pub(super) fn name(&self) -> Option<&'static str> {
        match self {
            ObjectMode::Fast | ObjectMode::Forced(ForcedMode::Fast) => Some("fast"),
            ObjectMode::Careful(_) | ObjectMode::Forced(ForcedMode::Careful) => Some("careful"),
            ObjectMode::Refused(_) => None,
        }
    }

    /// Returns the reason for the mode; `None` if no file asks for another one.
    pub(super) fn reason(&self) -> Option<String> {
        match self {
            ObjectMode::Fast => None,
            ObjectMode::Careful(reason) => Some(reason.to_string()),
            ObjectMode::Forced(_) => Some(format!("{VARIABLE} is set")),
            ObjectMode::Refused(error) => Some(error.clone()),
        }
    }

    /// Returns the line for people.
    pub(super) fn line(&self) -> String {
        let mode = self.name().unwrap_or("no pool is opened");
        let reason = self.reason().map_or_else(String::new, |reason| format!(", because {reason}"));
        let remedy = match self {
            ObjectMode::Careful(_) => format!("; {VARIABLE}=fast if it never flushes a pool"),
            _ => String::new(),
        };
        format!("libpmemobj: {mode}{reason}{remedy}\n")
    }
}
