//! `lode kv put`, `get`, `delete` and `count`.

use crate::answer::Answer;
use crate::durability::DurabilityOption;
use crate::failure::Failure;
use crate::kv::{close_after, open_to_read, open_to_write, with_bytes};
use clap::Args;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Exit code for a key that is not in the pool.
const NOT_THERE: u8 = 1;

pub(crate) const PUT_FIELDS: &[(&str, &str)] = &[("replaced", "whether the key had a value before")];
pub(crate) const GET_FIELDS: &[(&str, &str)] = &[
    (
        "found",
        "whether the key is there; if not, the exit code is 1, and 3 where that can't be proved though it was to be",
    ),
    ("value", "its value; value_b64, in base64, where that is not UTF-8"),
];
pub(crate) const DELETE_FIELDS: &[(&str, &str)] =
    &[("deleted", "whether the key was there; if not, the exit code is 1")];
pub(crate) const COUNT_FIELDS: &[(&str, &str)] = &[("count", "the number of keys")];

pub(crate) const GET_ABOUT: &str = "\
Print the value of a key, as it is, and a newline.

A value that is printed is the one that was stored: its checksum proves it. Where it does not, or where the leaf that \
would have the key is damaged, the exit code is 3 and nothing is printed. That a key is not there (exit code 1) is not \
proved, unless --verify is given: damage that emptied a slot of the tree hides the keys behind it.";

pub(crate) const COUNT_ABOUT: &str = "\
Print the number of keys.

All nodes of the tree are read, and the keys to which they lead compared with those that the tree has counted. Where \
they differ the exit code is 3 and nothing is printed.";

#[derive(Args, Debug)]
pub(crate) struct Put {
    /// The pool's file or device
    pool: PathBuf,
    /// The key: up to 64 KiB, any bytes
    key: OsString,
    /// The value
    #[arg(allow_hyphen_values = true)]
    value: OsString,
}

#[derive(Args, Debug)]
pub(crate) struct Get {
    #[command(flatten)]
    key: Key,
    /// Prove that an absent key is absent: read the whole tree, and exit with 3 if it is damaged
    #[arg(long)]
    verify: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Key {
    /// The pool's file or device
    pool: PathBuf,
    /// The key
    key: OsString,
}

#[derive(Args, Debug)]
pub(crate) struct Whole {
    /// The pool's file or device
    pub(crate) pool: PathBuf,
}

pub(crate) fn put(put: &Put, durability: DurabilityOption) -> Result<Answer, Failure> {
    let what = "putting a key";
    let store = open_to_write(&put.pool, durability, what)?;
    let replaced = store.put(put.key.as_bytes(), put.value.as_bytes());
    let replaced = close_after(store, replaced).map_err(Failure::of_pool(what, &put.pool))?;
    Ok(Answer::silent().with("replaced", replaced))
}

pub(crate) fn get(Get { key, verify }: &Get) -> Result<Answer, Failure> {
    let what = "getting a key";
    let mut store = open_to_read(&key.pool, what)?;
    let bytes = key.key.as_bytes();
    let found = if *verify { store.get_proven(bytes) } else { store.get(bytes) };
    match found.map_err(Failure::of_pool(what, &key.pool))? {
        None => Ok(Answer::silent().with("found", false).exit_with(NOT_THERE)),
        Some(value) => {
            let answer = Answer::text([&value[..], b"\n"].concat()).with("found", true);
            Ok(with_bytes(answer, "value", &value))
        }
    }
}

pub(crate) fn delete(key: &Key, durability: DurabilityOption) -> Result<Answer, Failure> {
    let what = "deleting a key";
    let store = open_to_write(&key.pool, durability, what)?;
    let deleted = store.delete(key.key.as_bytes());
    let deleted = close_after(store, deleted).map_err(Failure::of_pool(what, &key.pool))?;
    let code = if deleted { 0 } else { NOT_THERE };
    Ok(Answer::silent().with("deleted", deleted).exit_with(code))
}

pub(crate) fn count(pool: &Path) -> Result<Answer, Failure> {
    let what = "counting keys";
    let mut store = open_to_read(pool, what)?;
    let count = store.count_proven().map_err(Failure::of_pool(what, pool))?;
    Ok(Answer::text(format!("{count}\n")).with("count", count))
}
