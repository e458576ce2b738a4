//! `#[derive(Persist)]` and `#[derive(CellValue)]`: the compile-time proof that a type may live in a pool.
//!
//! `Persist` is for a struct that is `repr(C)` or `repr(transparent)` and has only persistent fields and no destructor. The
//! macro itself refuses violations that it can see. For the others it emits constants that fail to evaluate. `CellValue` is
//! for a struct or enum of such values, which lie in cells. The macros do not depend on `lode-heap`: they only name its paths.

mod attributes;
mod brands;
mod cell_value;
mod exporter;
mod members;
mod persist;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `Persist` for a `#[repr(C)]` struct, so that it may live in a pool. Its type parameters must be persistent, too; one of
/// them may be the brand.
///
/// Attributes: `#[persist(brand = MyPool)]` names the pool of a type that holds pointers or cells.
/// `#[persist(type_number = 7)]` sets the type's number on the medium. Without it, the number is computed from the
/// type's name and layout. `#[persist(crate = "stones::store")]` is for a program that does not name `lode-heap` in its
/// manifest: the code that this generates uses the names that are exported there. `lodestone` is such a place.
#[proc_macro_derive(Persist, attributes(persist))]
pub fn derive_persist(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    persist::expand(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Implements `CellValue` for a struct or enum, so that cells and vectors hold its values. It is `Copy`, too. Its parameters
/// and fields must be `CellValue`.
///
/// The number of a variant is its discriminant, a literal from 0 to 255; without one it is that of the variant before it
/// plus one, from 0. Attributes: `type_number` and `crate`, as those of [`Persist`](macro@Persist).
#[proc_macro_derive(CellValue, attributes(persist))]
pub fn derive_cell_value(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    cell_value::expand(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}
