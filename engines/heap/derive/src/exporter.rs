//! The crate by which a program knows what `lode-heap` exports.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;

/// Returns the path of `lode-heap` if the program depends on it, or else that of the same things in `lodestone`.
pub(crate) fn found() -> TokenStream {
    let name_of = |package: &str, library: &str| match crate_name(package) {
        // A crate that was not renamed in Cargo.toml has the name of its library.
        Ok(FoundCrate::Name(name)) if name != package.replace('-', "_") => Some(name),
        Ok(_) => Some(library.to_owned()),
        Err(_) => None,
    };
    let path = |name: String| Ident::new(&name, Span::call_site());
    if let Some(heap) = name_of("lode-heap", "lode_heap").map(path) {
        return quote!(::#heap);
    }
    let store = name_of("lodestone-store", "lodestone").map(path);
    store.map_or_else(|| quote!(::lode_heap), |store| quote!(::#store::typed))
}
