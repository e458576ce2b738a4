//! `lode kv`: keys and values in a pool of the layout `kv`, or in a tree of the layout `store`, which is only read.

mod delete;
mod load;
mod point;
mod range;
mod scan;
mod tree;

use crate::durability::DurabilityOption;
use crate::failure::Failure;
use crate::fields;
use crate::global_options::GlobalOptions;
use crate::kv::tree::TreeArgs;
use crate::output::Output;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Subcommand;
use lode_kv::{KvError, Store, StoreReader};
use lode_pool::{Access, OpenOptions};
use std::path::Path;

/// Exit code for a key that is not in the pool.
const NOT_FOUND: u8 = 1;

/// The commands of `lode kv`.
#[derive(Debug, Subcommand)]
pub(crate) enum KvCommand {
    /// Put every line of a text, in durable transactions
    #[command(long_about = load::ABOUT, after_long_help = fields::help(load::FIELDS))]
    Load(load::Load),
    /// Put a value under a key; both are taken byte for byte
    #[command(after_long_help = fields::help(point::PUT_FIELDS))]
    Put(point::Put),
    /// Print the value of a key, as it is, and a newline
    #[command(long_about = tree::about(point::GET_ABOUT), after_long_help = fields::help(point::GET_FIELDS))]
    Get(point::Get),
    /// Remove a key, or all keys of a range
    #[command(long_about = delete::ABOUT, after_long_help = fields::help(delete::FIELDS))]
    Delete(delete::Delete),
    /// Print the number of keys
    #[command(long_about = tree::about(point::COUNT_ABOUT), after_long_help = fields::help(point::COUNT_FIELDS))]
    Count(point::Count),
    /// Print all keys and values, in byte order of the keys
    #[command(long_about = tree::about(scan::EXPORT_ABOUT), after_long_help = fields::help(scan::FIELDS))]
    Export(scan::Export),
    /// Print the keys and values of a range, in byte order of the keys
    #[command(long_about = tree::about(scan::SCAN_ABOUT), after_long_help = fields::help(scan::FIELDS))]
    Scan(scan::Scan),
}

pub(crate) fn run(command: &KvCommand, options: &GlobalOptions) -> Result<Output, Failure> {
    match command {
        KvCommand::Load(load) => load::run(load, options),
        KvCommand::Put(put) => point::put(put, options.durability),
        KvCommand::Get(get) => point::get(get),
        KvCommand::Delete(delete) => delete::run(delete, options),
        KvCommand::Count(args) => point::count(args),
        KvCommand::Export(export) => scan::export(export, options.json),
        KvCommand::Scan(scan) => scan::scan(scan, options.json),
    }
}

/// Opens a store for reading and writing.
fn open_to_write(path: &Path, durability: DurabilityOption, what: &'static str) -> Result<Store, Failure> {
    let options = OpenOptions { durability: durability.forced(), ..OpenOptions::new(Access::ReadWrite) };
    Store::open(path, &options).map_err(Failure::of_pool(what, path))
}

/// Closes a store, also after an error in `done`: from here on no writer has the pool open. Returns the first error.
fn close_after<T>(store: Store, done: Result<T, KvError>) -> Result<T, KvError> {
    let closed = store.close();
    done.and_then(|done| closed.map(|()| done))
}

/// Opens what is to be read, in use by another process or not: a pool with one tree, or the chosen tree of a store.
fn open_to_read(path: &Path, tree: &TreeArgs, what: &'static str) -> Result<StoreReader, Failure> {
    let opened = match tree.name()? {
        None => StoreReader::open(path),
        Some(name) => StoreReader::open_tree(path, &name),
    };
    opened.map_err(Failure::of_pool(what, path))
}

/// Adds a field for bytes: `name` if they are UTF-8, otherwise `name_b64` with base64.
fn with_bytes(output: Output, name: &str, bytes: &[u8]) -> Output {
    match std::str::from_utf8(bytes) {
        Ok(text) => output.with(name, text),
        Err(_) => output.with(&format!("{name}_b64"), STANDARD.encode(bytes)),
    }
}
