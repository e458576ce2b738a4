//! Random types of pools, and programs that store, reopen and migrate them.
//!
//! ```text
//!   seed -> types of three versions -> build script: a program for each version, in one binary
//!                |                                         |
//!             content  -> model: content of the next version == what the next program reads
//! ```
//!
//! A [`Family`](types::Family) has the types of a program and of two later versions. [`Source`](source::Source) writes the programs
//! as a user would: types with derives, older types with `was`, conversions. [`Step`](step::Step) has the rules of a change; the
//! conversions are written by them, and the model applies them to content without any code of the product.
//! [`Listing`](listing::Listing) has the lines that `lode pool dump --typed` has to print, and [`declarations`] the types of
//! `lode pool types`.
//!
//! The crate does not choose what a program does with its pool: `tests/random_types_migrate.rs` does.
#![forbid(unsafe_code)]

pub mod change;
pub mod content;
pub mod declarations;
pub mod draw;
pub mod listing;
pub mod model;
pub mod node;
pub mod source;
pub mod step;
pub mod types;
