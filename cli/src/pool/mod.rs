//! `lode pool`: pools as a whole.

pub(crate) mod check;
mod create;
mod dump;
mod grow;
mod info;
mod repair;
mod stats;

use crate::answer::Answer;
use crate::arguments::Common;
use crate::failure::Failure;
use crate::fields;
use bytesize::ByteSize;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// The verbs of `lode pool`.
#[derive(Debug, Subcommand)]
pub(crate) enum PoolVerb {
    /// Make a pool in a new file, or on a device
    #[command(after_long_help = fields::help(create::FIELDS))]
    Create(create::Create),
    /// Say what a pool is, and what state it is in
    #[command(after_long_help = fields::help(info::FIELDS))]
    Info(One),
    /// Look for damage; write nothing
    #[command(after_long_help = fields::help(check::FIELDS))]
    Check(One),
    /// Rebuild what can be derived, cut off the rest, and list what is lost
    ///
    /// This is the way on, too, when a pool is refused because its memory modules lost data while it was open (their
    /// count of dirty shutdowns moved). Everything is checked, what is whole stays, and the pool can be opened again;
    /// but what was stored after it was last opened may be missing or old, and no check can tell. So the exit code is
    /// 3: compare with a backup, or do again what was done since then; a load is forgotten, so that it begins anew.
    ///
    /// What is not listed as lost is lost only if no checksum can tell: what is whole but old, as where a part of an older
    /// copy of the pool was put over it, looks as if it had been stored last. Compare with a backup after that, too.
    #[command(after_long_help = fields::help(repair::FIELDS))]
    Repair(One),
    /// Say how full a pool is, and with what
    #[command(after_long_help = fields::help(stats::FIELDS))]
    Stats(One),
    /// Print the structures of a pool
    #[command(after_long_help = fields::help(dump::FIELDS))]
    Dump(One),
    /// Make a pool larger
    #[command(after_long_help = fields::help(grow::FIELDS))]
    Grow(grow::Grow),
}

/// One pool.
#[derive(Args, Debug)]
pub(crate) struct One {
    /// The pool's file or device
    pub(crate) path: PathBuf,
}

pub(crate) fn run(verb: &PoolVerb, common: &Common) -> Result<Answer, Failure> {
    match verb {
        PoolVerb::Create(create) => create::run(create, common.durability),
        PoolVerb::Info(one) => info::run(&one.path),
        PoolVerb::Check(one) => check::run(&one.path),
        PoolVerb::Repair(one) => repair::run(&one.path, common.durability),
        PoolVerb::Stats(one) => stats::run(&one.path),
        PoolVerb::Dump(one) => dump::run(&one.path, common.json),
        PoolVerb::Grow(grow) => grow::run(grow, common.durability),
    }
}

/// Bytes, as people read them.
fn size(bytes: u64) -> String {
    if bytes < 1024 { format!("{bytes} bytes") } else { format!("{} ({bytes} bytes)", ByteSize::b(bytes)) }
}
