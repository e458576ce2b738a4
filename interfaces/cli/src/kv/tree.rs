//! The options that choose a tree, and the form of keys on the command line.

use crate::failure::Failure;
use clap::Args;
use lode_kv::unescape;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// A paragraph about the trees of stores, for the help of each command that reads.
const ABOUT: &str = "\
A pool with the layout `store`, which a program makes with the library `lodestone`, has trees with names: --tree chooses one, \
and `lode pool stats` lists them with the types of their keys and values. These are read as the bytes that are stored. Those of \
keys sort as the keys do: integers are big-endian, signed ones with their sign bit flipped. Text and bytes are stored as they \
are; where another part of the key follows, two zero bytes are after them, and each zero byte in them is stored as 00 FF. \
Numbers that are values are little-endian. Commands change no store.";

/// Returns the text of a command that reads, with a paragraph about the trees of stores.
pub(crate) fn about(command: &str) -> String {
    format!("{command}\n\n{ABOUT}")
}

/// The tree that is read, and the form of its name and of keys.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TreeArgs {
    /// The tree to read, in a pool with the layout `store`
    #[arg(long, value_name = "NAME")]
    tree: Option<OsString>,
    /// Take NAME and keys as they are printed, with the escapes \t \n \\ \xHH; else byte for byte
    #[arg(long)]
    escaped: bool,
}

impl TreeArgs {
    /// Returns the name of the tree that was chosen.
    pub(crate) fn name(&self) -> Result<Option<Vec<u8>>, Failure> {
        self.tree.as_deref().map(|name| self.bytes(name)).transpose()
    }

    /// Returns the bytes of a name or a key.
    pub(crate) fn bytes(&self, text: &OsStr) -> Result<Vec<u8>, Failure> {
        if !self.escaped {
            return Ok(text.as_bytes().to_vec());
        }
        let refuse = |error| Failure::usage_error(format!("{}: {error}", text.display()));
        unescape(text.as_bytes()).map_err(refuse)
    }
}
