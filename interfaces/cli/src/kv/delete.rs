//! `lode kv delete`.

use crate::failure::Failure;
use crate::global_options::GlobalOptions;
use crate::interrupt::Interrupt;
use crate::kv::range::RangeArgs;
use crate::kv::{NOT_FOUND, close_after, open_to_write};
use crate::output::Output;
use crate::progress::Progress;
use clap::{ArgGroup, Args};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

pub(crate) const ABOUT: &str = "\
Remove a key, or all keys of a range.

A range is removed in transactions of 65536 keys or about 1 MiB of keys, in byte order. A command that is killed, or ended by a \
signal, leaves the rest of the range, and the same command goes on from there. At a damaged entry it stops: run `lode pool \
repair` first.";

pub(crate) const FIELDS: &[(&str, &str)] = &[(
    "deleted",
    "with KEY: whether the key existed; if not, the exit code is 1. With a range: the number of keys that were removed",
)];

const WHAT: &str = "deleting keys";

#[derive(Args, Debug)]
#[command(group(ArgGroup::new("keys").args(["key", "prefix", "from", "to"]).required(true).multiple(true)))]
pub(crate) struct Delete {
    /// The pool's file or device
    pool: PathBuf,
    /// The key
    #[arg(conflicts_with_all = ["prefix", "from", "to"])]
    key: Option<OsString>,
    #[command(flatten)]
    range: RangeArgs,
}

pub(crate) fn run(delete: &Delete, options: &GlobalOptions) -> Result<Output, Failure> {
    match &delete.key {
        Some(key) => delete_key(delete, key, options),
        None => delete_range(delete, options),
    }
}

fn delete_key(delete: &Delete, key: &OsStr, options: &GlobalOptions) -> Result<Output, Failure> {
    let store = open_to_write(&delete.pool, options.durability, WHAT)?;
    let deleted = store.delete(key.as_bytes());
    let deleted = close_after(store, deleted).map_err(Failure::of_pool(WHAT, &delete.pool))?;
    let code = if deleted { 0 } else { NOT_FOUND };
    Ok(Output::empty().with("deleted", deleted).with_exit_code(code))
}

fn delete_range(delete: &Delete, options: &GlobalOptions) -> Result<Output, Failure> {
    let interrupt = Interrupt::listen()?;
    let store = open_to_write(&delete.pool, options.durability, WHAT)?;
    let progress = Progress::counter("keys deleted");
    let deleted = store.delete_range(delete.range.bounds(), |removed| {
        progress.add(removed);
        !interrupt.is_set()
    });
    drop(progress);
    let deleted = close_after(store, deleted).map_err(Failure::of_pool(WHAT, &delete.pool))?;
    if interrupt.is_set() {
        let why = format!("interrupted after {deleted} keys; the same command goes on from there");
        return Err(Failure::interrupted(why));
    }
    Ok(Output::text(format!("{deleted} keys deleted\n")).with("deleted", deleted))
}
