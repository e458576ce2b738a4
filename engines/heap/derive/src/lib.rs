//! `#[derive(Persist)]`: the compile-time proof that a type may live in a pool.
//!
//! The derive accepts a struct that is `repr(C)` or `repr(transparent)` and has only persistent fields. The struct has
//! no parameters, no padding and no destructor. The macro itself refuses violations that it can see. For the others it
//! emits constants that fail to evaluate. It does not depend on `lode-heap`: it only names its
//! paths.

mod attributes;
mod expand;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `Persist` for a `#[repr(C)]` struct, so that it may live in a pool.
///
/// Attributes: `#[persist(brand = MyPool)]` names the pool of a type that holds pointers or cells.
/// `#[persist(type_number = 7)]` sets the type's number on the medium. Without it, the number is computed from the
/// type's name and layout. `#[persist(crate = "stones::store")]` is for a program that does not name `lode-heap` in its
/// manifest: the code that this generates uses the names that are exported there. `lodestone` is such a place.
#[proc_macro_derive(Persist, attributes(persist))]
pub fn derive_persist(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::persist(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}
