//! The programs of all families: `typegen FAMILY PROGRAM ACTION POOL [CONVERSIONS]`.
//!
//! The program is the number of a version, or `types`: the types of the second version, which says of none what it was.
//!
//! | action | effect |
//! |---|---|
//! | `make` | makes a pool with the content that it reads from its input |
//! | `read` | prints the content, or the error of the root, and stores nothing |
//! | `open` | opens the pool for writing, and prints the errors of the root and of a migration |
//! | `migrate` | migrates, and prints the number of objects that were converted; aborts at the conversion with this number |
//! | `migrate-at-once` | the same, in one transaction |
#![forbid(unsafe_code)]

mod content;
mod kill;
mod stored;

use content::Content;
use lode_typegen::node::Node;
use lodestone::typed::{
    Access, Brand, CellValue, CreateOptions, Durability, HeapError, LayoutName, Migrate, OpenOptions, PBox,
    PCell, PDeque, PHashMap, PMap, PMutex, PString, PVec, Persist, TypedPool,
};
use std::io;
use std::path::Path;
use stored::{Generated, Reading, Stored, Tx};

#[allow(
    clippy::all,
    dead_code,
    unused,
    reason = "they are written by a program, and not every type has every kind of field"
)]
mod programs {
    use super::*;
    include!(concat!(env!("OUT_DIR"), "/programs.rs"));
}

/// The action of a program, and its arguments.
#[derive(Clone, Copy)]
struct Call<'a> {
    action: &'a str,
    path: &'a Path,
    /// The number of the conversion at which it aborts.
    abort_at: Option<u64>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [family, program, action, path, rest @ ..] = arguments.as_slice() else {
        panic!("typegen FAMILY PROGRAM ACTION POOL [CONVERSIONS]");
    };
    let family: u64 = family.parse().expect("the number of a family");
    let found = programs::PROGRAMS.iter().find(|(number, name, _)| (*number, *name) == (family, program));
    let (_, _, run) = found.expect("a program");
    let abort_at = rest.first().map(|number| number.parse().expect("a number of conversions"));
    run(Call { action, path: Path::new(path), abort_at });
}

/// Opens a pool.
fn open(path: &Path, access: Access) -> TypedPool<Generated> {
    let options = OpenOptions { durability: Some(Durability::None), ..OpenOptions::new(access) };
    TypedPool::open(path, &options).expect("opened")
}

/// Runs a program whose root is a `T`.
fn program<T: Stored>(call: Call<'_>) {
    match call.action {
        "make" => make::<T>(call.path),
        "read" => read::<T>(call.path),
        "migrate" | "migrate-at-once" => {
            kill::abort_at(call.abort_at);
            let mut pool = open(call.path, Access::ReadWrite);
            let done = match call.action {
                "migrate" => pool.migrate::<T>(|_| ()),
                _ => pool.migrate_at_once::<T>(),
            };
            println!("{}", done.expect("migrated").converted);
            pool.close().expect("closed");
        }
        _ => refused::<T>(call),
    }
}

/// Runs a program that has types, and no code that uses them.
fn refused<T: Persist<Generated>>(call: Call<'_>) {
    match call.action {
        "read" => {
            let error = open(call.path, Access::ReadOnly).root::<T>().map(drop).expect_err("refused");
            println!("{}", name_of(&error));
        }
        "open" => {
            let mut pool = open(call.path, Access::ReadWrite);
            let root = pool.root::<T>().map(drop).expect_err("refused");
            let migration = pool.migrate::<T>(|_| ()).expect_err("refused");
            println!("{}\n{}", name_of(&root), name_of(&migration));
            pool.close().expect("closed");
        }
        other => panic!("no action {other}"),
    }
}

fn make<T: Stored>(path: &Path) {
    let text = io::read_to_string(io::stdin()).expect("an input");
    let node = Node::parse(&text).expect("a node");
    let layout = LayoutName::new("generated").expect("a name");
    let options = CreateOptions { durability: Some(Durability::None), ..CreateOptions::new(4 << 20, layout) };
    let pool = TypedPool::<Generated>::create(path, &options).expect("created");
    let root = pool.root_or_init(|_| Ok(T::initial(&node))).expect("a root");
    pool.run(|tx| root.fill(tx, &node)).expect("filled");
    pool.close().expect("closed");
}

fn read<T: Stored>(path: &Path) {
    let pool = open(path, Access::ReadOnly);
    match pool.root::<T>() {
        Ok(root) => {
            let guard = pool.guard();
            println!("{}", root.expect("a root").read_node(&guard).expect("read"));
        }
        Err(error) => println!("{}", name_of(&error)),
    };
}

/// Returns the name of an error that is expected, and of the type of the pool that differs.
fn name_of(error: &HeapError) -> String {
    match error {
        HeapError::OtherTypes(difference) => format!("OtherTypes {}", difference.names[0]),
        HeapError::NotMigrated => "NotMigrated".to_owned(),
        error => panic!("{error}"),
    }
}
