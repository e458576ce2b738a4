//! `lode log`: logs of records.

mod append;
mod check;
mod create;
mod reader;
mod tail;
mod walk;
mod writer;

use crate::failure::Failure;
use crate::fields;
use crate::global_options::GlobalOptions;
use crate::hint::{log_hint, pmem_log_hint};
use crate::output::Output;
use clap::{Args, Subcommand, ValueEnum};
use lode_log::pmdk::{PmemLogError, PmemLogPoolError};
use lode_log::{AppendLogError, LogPoolError};
use rustix::fs::OFlags;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The first bytes of every pool of PMDK.
const PMDK_SIGNATURE: &[u8] = b"PMEM";

/// The commands of `lode log`.
#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Create an empty log in a new file
    ///
    /// A power cut leaves all records up to some place, and those that were acknowledged. Each has checksums. A log pool of
    /// PMDK has bytes without checksums, for programs with libpmemlog.
    #[command(after_long_help = fields::help(create::FIELDS))]
    Create(create::Create),
    /// Append each line of a text as a record
    ///
    /// The lines that arrive together are appended together, and are durable before the next ones are read. In a log pool of
    /// PMDK a record is a line with its newline. The first signal ends the command after the lines that it has read; a part
    /// of a line is then left out.
    #[command(after_long_help = fields::help(append::FIELDS))]
    Append(append::Append),
    /// Print the records, one a line, also while another process appends
    ///
    /// Records that are not what was appended are reported and skipped, and the exit code is 3. A log pool of PMDK has no
    /// checksums that show it. A record that another process is appending may be printed before it is durable.
    #[command(after_long_help = fields::help(reader::FIELDS))]
    Walk(walk::Walk),
    /// Print the last records, and with --follow those that are appended later
    ///
    /// Damage is reported as by `lode log walk`. With --follow a signal, or a reader of the output that is gone, ends the
    /// command. A record that another process is appending may be printed before it is durable.
    #[command(after_long_help = fields::help(reader::FIELDS))]
    Tail(tail::Tail),
    /// Check a log for damage; write nothing
    ///
    /// A log that a killed program left is not damaged. All records are compared with their checksums. The bytes of a log pool
    /// of PMDK have none, and are only read.
    #[command(after_long_help = fields::help(check::FIELDS))]
    Check(LogArgs),
}

/// Arguments of a command for one log.
#[derive(Args, Debug)]
pub(crate) struct LogArgs {
    /// The log
    path: PathBuf,
}

/// The format of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// Records with checksums: one drain an append
    Log,
    /// A log pool of PMDK, for programs with libpmemlog
    Pmemlog,
}

impl LogFormat {
    /// Returns the format of the log at `path`, by its first bytes. A file that is no pool counts as `Log`.
    fn recognise(what: &str, path: &Path) -> Result<LogFormat, Failure> {
        let refused = |error| Failure::io(what, path, &error);
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(refused)?;
        let is_character_device = file.metadata().map_err(refused)?.file_type().is_char_device();
        // A device-DAX node can't be read; PMDK's log pools are files here.
        if is_character_device {
            return Ok(LogFormat::Log);
        }
        let mut first = Vec::new();
        file.take(PMDK_SIGNATURE.len() as u64).read_to_end(&mut first).map_err(refused)?;
        Ok(if first == PMDK_SIGNATURE { LogFormat::Pmemlog } else { LogFormat::Log })
    }

    /// Returns the name on the command line.
    fn name(self) -> &'static str {
        match self {
            LogFormat::Log => "log",
            LogFormat::Pmemlog => "pmemlog",
        }
    }
}

pub(crate) fn run(command: &LogCommand, options: &GlobalOptions) -> Result<Output, Failure> {
    match command {
        LogCommand::Create(create) => create::run(create, options.durability),
        LogCommand::Append(append) => append::run(append, options),
        LogCommand::Walk(walk) => walk::run(walk, options.json),
        LogCommand::Tail(tail) => tail::run(tail, options.json),
        LogCommand::Check(args) => check::run(&args.path),
    }
}

/// Returns a function that turns an error of a log into the failure of `what`.
fn failed(what: &'static str) -> impl Fn(LogPoolError) -> Failure {
    move |error| failure(what, error.is_damage(), format!("{error}{}", log_hint(&error)))
}

/// Returns a function that turns an error of a log pool of PMDK into the failure of `what`.
fn pmem_failed(what: &'static str) -> impl Fn(PmemLogPoolError) -> Failure {
    move |error| failure(what, error.is_damage(), format!("{error}{}", pmem_log_hint(&error)))
}

fn failure(what: &str, is_damage: bool, why: String) -> Failure {
    if is_damage { Failure::damage(what, why) } else { Failure::new(what, why) }
}

/// Adds the path to an error of a log.
fn log_error(path: &Path, error: AppendLogError) -> LogPoolError {
    LogPoolError::Log { path: path.to_owned(), error }
}

/// Adds the path to an error of a log pool of PMDK.
fn pmem_log_error(path: &Path, error: PmemLogError) -> PmemLogPoolError {
    PmemLogPoolError::Log { path: path.to_owned(), error }
}
