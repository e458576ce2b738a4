//! `#[derive(Persist)]`: the compile-time proof that a type may live in a pool.
//!
//! The derive accepts a struct if it is `repr(C)` or `repr(transparent)`, has no parameters, all its fields are
//! persistent, it has no padding and no destructor. What the macro can see it refuses itself; the rest it
//! writes as constants that fail to evaluate. It does not know `lode-heap`: it only names its paths.

mod attributes;
mod expand;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a `#[repr(C)]` struct one that may live in a pool.
///
/// Attributes: `#[persist(brand = MyPool)]` names the pool of a type that holds pointers or cells;
/// `#[persist(type_number = 7)]` gives the number by which the type is known on the medium, which otherwise
/// follows from its name and layout.
#[proc_macro_derive(Persist, attributes(persist))]
pub fn derive_persist(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::persist(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}
