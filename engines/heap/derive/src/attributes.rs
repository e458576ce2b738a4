//! The attributes that the derive reads: `repr` and `persist`.

use syn::{Attribute, Error, LitInt, LitStr, Path, Result, Type};

/// The content of `#[persist(...)]`.
#[derive(Default)]
pub(crate) struct Persist {
    pub(crate) brand: Option<Type>,
    pub(crate) type_number: Option<LitInt>,
    /// The path by which the type's crate knows what `lode-heap` exports.
    pub(crate) exporter: Option<Path>,
}

impl Persist {
    pub(crate) fn of(attributes: &[Attribute]) -> Result<Persist> {
        let mut persist = Persist::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("persist")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("brand") {
                    persist.brand = Some(meta.value()?.parse()?);
                } else if meta.path.is_ident("type_number") {
                    let number: LitInt = meta.value()?.parse()?;
                    number.base10_parse::<u64>()?;
                    persist.type_number = Some(number);
                } else if meta.path.is_ident("crate") {
                    persist.exporter = Some(meta.value()?.parse::<LitStr>()?.parse()?);
                } else {
                    return Err(meta
                        .error("`persist` knows `brand = Type`, `type_number = 1` and `crate = \"path\"`"));
                }
                Ok(())
            })?;
        }
        Ok(persist)
    }
}

/// Returns true if the attributes fix the layout: `repr(C)` or `repr(transparent)`, and not packed.
pub(crate) fn layout_is_fixed(attributes: &[Attribute]) -> Result<bool> {
    let mut fixed = false;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("packed") {
                return Err(Error::new_spanned(&meta.path, "a packed type can't lend its fields"));
            }
            fixed |= meta.path.is_ident("C") || meta.path.is_ident("transparent");
            if meta.input.peek(syn::token::Paren) {
                // The number in `align(64)`.
                let content;
                syn::parenthesized!(content in meta.input);
                content.parse::<LitInt>()?;
            }
            Ok(())
        })?;
    }
    Ok(fixed)
}
