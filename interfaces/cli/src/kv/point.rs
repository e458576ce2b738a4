//! `lode kv put`, `get` and `count`.

use crate::durability::DurabilityOption;
use crate::failure::Failure;
use crate::kv::tree::TreeArgs;
use crate::kv::{NOT_FOUND, close_after, open_to_read, open_to_write, with_bytes};
use crate::output::Output;
use clap::Args;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

pub(crate) const PUT_FIELDS: &[(&str, &str)] = &[("replaced", "whether the key had a value before")];
pub(crate) const GET_FIELDS: &[(&str, &str)] = &[
    ("found", "whether the key exists; if not, the exit code is 1, or 3 if --verify can't prove its absence"),
    ("value", "its value; value_b64, in base64, if it is not UTF-8"),
];
pub(crate) const COUNT_FIELDS: &[(&str, &str)] = &[("count", "the number of keys")];

pub(crate) const GET_ABOUT: &str = "\
Print the value of a key, as it is, and a newline.

The checksum proves that a printed value is the stored one. If it does not match, or if the leaf that would hold the \
key is damaged, the exit code is 3 and nothing is printed. The absence of a key (exit code 1) is proved only with \
--verify: damage that emptied a slot of the tree hides the keys below it.

If another process has the pool open, that process serves the value; --verify then reads all keys and values.";

pub(crate) const COUNT_ABOUT: &str = "\
Print the number of keys.

All nodes of the tree are read, and the number of keys that they reach is compared with the count of the tree. If they \
differ, the exit code is 3 and nothing is printed.

If another process has the pool open, that process serves the keys as they are at one commit, and all keys and values are \
read.";

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
    /// The pool's file or device
    pool: PathBuf,
    /// The key
    key: OsString,
    /// Prove that an absent key is absent: read the whole tree, and exit with 3 if it is damaged
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    tree: TreeArgs,
}

#[derive(Args, Debug)]
pub(crate) struct Count {
    /// The pool's file or device
    pool: PathBuf,
    #[command(flatten)]
    tree: TreeArgs,
}

pub(crate) fn put(put: &Put, durability: DurabilityOption) -> Result<Output, Failure> {
    let what = "putting a key";
    let store = open_to_write(&put.pool, durability, what)?;
    let replaced = store.put(put.key.as_bytes(), put.value.as_bytes());
    let replaced = close_after(store, replaced).map_err(Failure::of_pool(what, &put.pool))?;
    Ok(Output::empty().with("replaced", replaced))
}

pub(crate) fn get(Get { pool, key, verify, tree }: &Get) -> Result<Output, Failure> {
    let what = "getting a key";
    let key = tree.bytes(key)?;
    let store = open_to_read(pool, tree, what)?;
    let found = if *verify { store.get_proven(&key) } else { store.get(&key) };
    match found.map_err(Failure::of_pool(what, pool))? {
        None => Ok(Output::empty().with("found", false).with_exit_code(NOT_FOUND)),
        Some(value) => {
            let output = Output::text([&value[..], b"\n"].concat()).with("found", true);
            Ok(with_bytes(output, "value", &value))
        }
    }
}

pub(crate) fn count(Count { pool, tree }: &Count) -> Result<Output, Failure> {
    let what = "counting keys";
    let store = open_to_read(pool, tree, what)?;
    let count = store.count_proven().map_err(Failure::of_pool(what, pool))?;
    Ok(Output::text(format!("{count}\n")).with("count", count))
}
