//! `lode pool`: pools as a whole.

pub(crate) mod check;
mod copy;
mod create;
pub(crate) mod dump;
mod grow;
mod info;
mod migrate;
pub(crate) mod pmdk;
mod repair;
mod shrink;
mod stats;
mod typed_dump;
pub(crate) mod typed_trees;
pub(crate) mod types;

use crate::failure::Failure;
use crate::fields;
use crate::global_options::GlobalOptions;
use crate::output::Output;
use bytesize::ByteSize;
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};

/// The commands of `lode pool`.
#[derive(Debug, Subcommand)]
pub(crate) enum PoolCommand {
    /// Create a pool in a new file, or on a device
    #[command(after_long_help = fields::help(create::FIELDS))]
    Create(create::Create),
    /// Print the properties and the state of a pool, also of one that another process has open
    ///
    /// Pools of PMDK are known, too, each by its set file, its file or its device-DAX node: their headers, parts and features,
    /// and all that is wrong with them.
    #[command(after_long_help = of_both(pmdk::FIELDS, info::FIELDS))]
    Info(PoolArgs),
    /// Check a pool for damage; write nothing
    ///
    /// Of a pool of PMDK the headers, the links between its parts and replicas, the descriptor, and the content of blocks and
    /// logs are checked. Of libpmemobj, all of the heap and of its logs is checked as the next open leaves it: headers, bitmaps and
    /// objects against each other, and space that is lost. Nothing is written.
    #[command(after_long_help = fields::help(check::FIELDS))]
    Check(PoolArgs),
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
    ///
    /// A pool of typed data is repaired by the types that it names: pointers with a flipped bit are put right, what has an owner
    /// stays, and objects without one are freed. An object that is lost is named by its way from the root, as
    /// `Shop.items[17].name`, and its pointer is null then. Values, lengths and texts that are none stay as they are: only the
    /// program knows others. An unfinished migration goes on after the repair.
    ///
    /// A pool of libpmemobj is recovered, as its next open does it, and what is certain is repaired: footers, chunks that do not
    /// lead to their run, bits past its end, and lost space, which is given back. `lode pool check` names these findings before.
    #[command(after_long_help = of_both(pmdk::REPAIR_FIELDS, repair::FIELDS))]
    Repair(PoolArgs),
    /// Recover a pool of libpmemobj that a crash left, and leave it closed
    ///
    /// A pool that a program on Lodestone's libpmemobj had open in a crash is refused by PMDK until its log is recovered. The next open
    /// by Lodestone does that, and so does this command, after which PMDK opens the pool. A pool that a crash of PMDK left is recovered as
    /// PMDK's next open does it. The exit code is 0 when there was nothing to do, too. Pools of Lodestone need no such command: each
    /// open recovers them.
    #[command(after_long_help = fields::help(pmdk::RECOVER_FIELDS))]
    Recover(PoolArgs),
    /// Print how full a pool is, by kind and size of its objects, also of one that another process has open
    ///
    /// The trees of the layout store are listed, each with its name, as `lode kv` takes it with --tree and --escaped, its number
    /// of keys as it has counted them, and the types that the program gave it. White space at the ends of a name is escaped,
    /// too.
    #[command(after_long_help = of_both(pmdk::STATS_FIELDS, stats::FIELDS))]
    Stats(PoolArgs),
    /// Print the types of a pool of typed data: its structs and enums, with the offset of each field
    #[command(after_long_help = fields::help(types::FIELDS))]
    Types(PoolArgs),
    /// Print whether a migration of typed data is under way, and what is left of it
    ///
    /// Objects are converted by code of the program that has the new types: its call of migrate begins a migration, and goes on
    /// with one that was stopped. This command can't do that, and changes nothing. While a migration is under way, the pool
    /// holds the types from before it, too, and each object has the number of its own; no program uses the pool before the
    /// end, but all commands read it. With --status, the exit status is 4 while a migration is not finished, so a script can
    /// run the program until it is 0.
    #[command(after_long_help = fields::help(migrate::FIELDS))]
    Migrate(migrate::Migrate),
    /// Print the structures of a pool, or the values of one of typed data
    ///
    /// Of a pool of PMDK the header of each part and the descriptor are printed, and the path is that of the part.
    #[command(after_long_help = fields::help(dump::FIELDS))]
    Dump(dump::Dump),
    /// Grow a pool, or change the size up to which it grows by itself
    #[command(after_long_help = fields::help(grow::FIELDS))]
    Grow(grow::Grow),
    /// Shrink a closed pool to about what its content takes
    ///
    /// Objects near the end of the file are moved to free space before them, in the file itself: no other space is needed.
    /// Killed at any moment, the pool has all its content and its old or its new size; run it again to go on. Pools of the
    /// layouts kv and store shrink. Those of another layout do not, since only the program that made them knows all
    /// references to their objects; nor does a damaged pool.
    #[command(after_long_help = fields::help(shrink::FIELDS))]
    Shrink(PoolArgs),
    /// Copy a pool of keys and values to a new file, which takes little more space than they do
    ///
    /// Pools of the layouts kv and store are copied, the latter with all trees and their types. The copy has an identity of its
    /// own, grows by itself, and has no progress of a load. It gets its name when it is whole: a copy that is killed or fails
    /// leaves no file. All that is copied is verified; a pool with damage is not copied. `lode kv export` prints what is left
    /// of it. The size of the copy is reckoned from the space in use. Trees that were dropped count until the
    /// program has given their space back, which it does with its later commits; `lode pool shrink` makes the copy smaller.
    #[command(after_long_help = fields::help(copy::FIELDS))]
    Copy(copy::Copy),
}

/// Returns the last sections of the help of a command that takes pools of PMDK, too.
fn of_both(of_pmdk: &[(&str, &str)], of_lode: &[(&str, &str)]) -> String {
    format!("{}\n{}", fields::items("JSON fields of a pool of PMDK", of_pmdk), fields::help(of_lode))
}

/// Arguments of a command for one pool.
#[derive(Args, Debug)]
pub(crate) struct PoolArgs {
    /// The pool's file or device
    pub(crate) path: PathBuf,
}

pub(crate) fn run(command: &PoolCommand, options: &GlobalOptions) -> Result<Output, Failure> {
    match command {
        PoolCommand::Create(create) => create::run(create, options.durability),
        PoolCommand::Info(args) => match pmdk::find("reading a pool", &args.path)? {
            Some(pool) => Ok(pmdk::info(&pool)),
            None => info::run(&args.path),
        },
        PoolCommand::Check(args) => match pmdk::find("checking a pool", &args.path)? {
            Some(pool) => pmdk::check(&pool),
            None => check::run(&args.path),
        },
        PoolCommand::Repair(args) => match pmdk::find("repairing a pool", &args.path)? {
            Some(pool) => pmdk::repair(&pool, options.durability),
            None => repair::run(&args.path, options.durability),
        },
        PoolCommand::Recover(args) => match pmdk::find("recovering a pool", &args.path)? {
            Some(pool) => pmdk::recover(&pool, options.durability),
            None => Err(Failure::new("recovering a pool", not_pmdk(&args.path))),
        },
        PoolCommand::Stats(args) => match pmdk::find("reading a pool", &args.path)? {
            Some(pool) => pmdk::stats(&pool),
            None => stats::run(&args.path),
        },
        PoolCommand::Types(args) => types::run(&args.path),
        PoolCommand::Migrate(migrate) => migrate::run(migrate),
        PoolCommand::Dump(dump) => dump::run(dump, options.json),
        PoolCommand::Copy(copy) => copy::run(copy, options.durability),
        PoolCommand::Shrink(args) => shrink::run(args, options.durability),
        PoolCommand::Grow(grow) => grow::run(grow, options.durability),
    }
}

/// Returns why a path can't be recovered by a command of its own.
fn not_pmdk(path: &Path) -> String {
    format!(
        "{}: no pool of PMDK; a pool of Lodestone is recovered by the next program that opens it",
        path.display()
    )
}

/// Formats a number of bytes in human-readable form.
fn size(bytes: u64) -> String {
    if bytes < 1024 { format!("{bytes} bytes") } else { format!("{} ({bytes} bytes)", ByteSize::b(bytes)) }
}
