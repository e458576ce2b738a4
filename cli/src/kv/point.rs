//! `lode kv put`, `get`, `delete` and `count`.

use crate::answer::Answer;
use crate::durability::Durability;
use crate::failure::Failure;
use crate::kv::{close_after, open_to_read, open_to_write, with_bytes};
use clap::Args;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The exit code for a key that is not there.
const NOT_THERE: u8 = 1;

pub(crate) const PUT_FIELDS: &[(&str, &str)] = &[("replaced", "whether the key had a value before")];
pub(crate) const GET_FIELDS: &[(&str, &str)] = &[
    ("found", "whether the key is there; if not, the exit code is 1"),
    ("value", "its value; value_b64, in base64, where that is not UTF-8"),
];
pub(crate) const DELETE_FIELDS: &[(&str, &str)] =
    &[("deleted", "whether the key was there; if not, the exit code is 1")];
pub(crate) const COUNT_FIELDS: &[(&str, &str)] = &[("count", "the number of keys")];

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

pub(crate) fn put(put: &Put, durability: Durability) -> Result<Answer, Failure> {
    let what = "putting a key";
    let store = open_to_write(&put.pool, durability, what)?;
    let replaced = store.put(put.key.as_bytes(), put.value.as_bytes());
    let replaced = close_after(store, replaced).map_err(Failure::of_pool(what, &put.pool))?;
    Ok(Answer::silent().with("replaced", replaced))
}

pub(crate) fn get(key: &Key) -> Result<Answer, Failure> {
    let what = "getting a key";
    let store = open_to_read(&key.pool, what)?;
    match store.get(key.key.as_bytes()).map_err(Failure::of_pool(what, &key.pool))? {
        None => Ok(Answer::silent().with("found", false).exit_with(NOT_THERE)),
        Some(value) => {
            let answer = Answer::text([&value[..], b"\n"].concat()).with("found", true);
            Ok(with_bytes(answer, "value", &value))
        }
    }
}

pub(crate) fn delete(key: &Key, durability: Durability) -> Result<Answer, Failure> {
    let what = "deleting a key";
    let store = open_to_write(&key.pool, durability, what)?;
    let deleted = store.delete(key.key.as_bytes());
    let deleted = close_after(store, deleted).map_err(Failure::of_pool(what, &key.pool))?;
    let code = if deleted { 0 } else { NOT_THERE };
    Ok(Answer::silent().with("deleted", deleted).exit_with(code))
}

pub(crate) fn count(pool: &Path) -> Result<Answer, Failure> {
    let what = "counting keys";
    let store = open_to_read(pool, what)?;
    let count = store.count().map_err(Failure::of_pool(what, pool))?;
    Ok(Answer::text(format!("{count}\n")).with("count", count))
}
