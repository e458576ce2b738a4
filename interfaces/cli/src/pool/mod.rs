//! `lode pool`: pools as a whole.

pub(crate) mod check;
mod create;
mod dump;
mod grow;
mod info;
mod repair;
mod stats;

use crate::answer::Answer;
use crate::failure::Failure;
use crate::fields;
use crate::global_options::GlobalOptions;
use bytesize::ByteSize;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// The verbs of `lode pool`.
#[derive(Debug, Subcommand)]
pub(crate) enum PoolVerb {
    /// Create a pool in a new file, or on a device
    #[command(after_long_help = fields::help(create::FIELDS))]
    Create(create::Create),
    /// Print the properties and the state of a pool
    #[command(after_long_help = fields::help(info::FIELDS))]
    Info(One),
    /// Check a pool for damage; write nothing
    #[command(after_long_help = fields::help(check::FIELDS))]
    Check(One),
    /// Rebuild structures that can be derived, cut off other damage, and list the losses
    ///
    /// Repair also a pool that is refused because its memory modules lost data while it was open (their count of dirty
    /// shutdowns changed). Repair checks everything and keeps all sound data, and the pool can be opened again. Changes
    /// made after it was last opened may still be missing or old, which no check can detect, so the exit code is 3.
    /// Compare with a backup, or repeat the changes made since then. The progress of a load is forgotten, so that the
    /// load begins anew.
    ///
    /// Every loss that a checksum can detect is listed. Old data with a right checksum is not detected: if a part of an
    /// older copy of the pool was written over it, that part looks like the last data stored. Compare with a backup
    /// after that, too.
    #[command(after_long_help = fields::help(repair::FIELDS))]
    Repair(One),
    /// Print how full a pool is, by kind and size of its objects
    #[command(after_long_help = fields::help(stats::FIELDS))]
    Stats(One),
    /// Print the structures of a pool
    #[command(after_long_help = fields::help(dump::FIELDS))]
    Dump(One),
    /// Grow a pool
    #[command(after_long_help = fields::help(grow::FIELDS))]
    Grow(grow::Grow),
}

/// Arguments of a verb for one pool.
#[derive(Args, Debug)]
pub(crate) struct One {
    /// The pool's file or device
    pub(crate) path: PathBuf,
}

pub(crate) fn run(verb: &PoolVerb, options: &GlobalOptions) -> Result<Answer, Failure> {
    match verb {
        PoolVerb::Create(create) => create::run(create, options.durability),
        PoolVerb::Info(one) => info::run(&one.path),
        PoolVerb::Check(one) => check::run(&one.path),
        PoolVerb::Repair(one) => repair::run(&one.path, options.durability),
        PoolVerb::Stats(one) => stats::run(&one.path),
        PoolVerb::Dump(one) => dump::run(&one.path, options.json),
        PoolVerb::Grow(grow) => grow::run(grow, options.durability),
    }
}

/// Formats a number of bytes in human-readable form.
fn size(bytes: u64) -> String {
    if bytes < 1024 { format!("{bytes} bytes") } else { format!("{} ({bytes} bytes)", ByteSize::b(bytes)) }
}
