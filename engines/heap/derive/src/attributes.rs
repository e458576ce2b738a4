//! The attributes that the derive reads: `repr` and `persist`.

use crate::exporter;
use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::{Attribute, Error, GenericParam, Generics, LitInt, LitStr, Path, Result, Type};

/// The content of `#[persist(...)]`.
#[derive(Default)]
pub(crate) struct Persist {
    pub(crate) brand: Option<Type>,
    pub(crate) type_number: Option<LitInt>,
    /// The name on the medium, if it is not that of the type.
    pub(crate) name: Option<LitStr>,
    /// The type that it was before it changed.
    pub(crate) was: Option<Type>,
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
                } else if meta.path.is_ident("name") {
                    persist.name = Some(meta.value()?.parse()?);
                } else if meta.path.is_ident("was") {
                    persist.was = Some(meta.value()?.parse()?);
                } else if meta.path.is_ident("crate") {
                    persist.exporter = Some(meta.value()?.parse::<LitStr>()?.parse()?);
                } else {
                    return Err(meta.error(
                        "`persist` knows `brand = Type`, `was = OldType`, `name = \"Name\"`, `type_number = 1` and `crate = \"path\"`",
                    ));
                }
                Ok(())
            })?;
        }
        Ok(persist)
    }

    /// Returns the path of what `lode-heap` exports.
    pub(crate) fn exporter(&self) -> TokenStream {
        self.exporter.as_ref().map_or_else(exporter::found, |path| quote!(#path))
    }

    /// Returns the name of the type on the medium.
    pub(crate) fn declared(&self, name: &Ident) -> String {
        self.name.as_ref().map_or_else(|| name.unraw().to_string(), LitStr::value)
    }

    /// Returns the hash of the declared name, and of the names of the type's parameters, each of which is a `bound`.
    pub(crate) fn name_hash(
        &self,
        name: &Ident,
        generics: &Generics,
        bound: &TokenStream,
        heap: &TokenStream,
    ) -> TokenStream {
        let declared = self.declared(name);
        self.with_parameters(
            quote!(#heap::type_hash::of_name(#declared)),
            generics,
            &|ty| quote!(<#ty as #bound>::NAME),
            heap,
        )
    }

    /// Returns the number that the attribute gives, with those of the type's parameters mixed in, or else `computed`.
    pub(crate) fn number(
        &self,
        computed: &TokenStream,
        generics: &Generics,
        bound: &TokenStream,
        heap: &TokenStream,
    ) -> TokenStream {
        let Some(number) = &self.type_number else { return computed.clone() };
        self.with_parameters(quote!(#number), generics, &|ty| quote!(<#ty as #bound>::TYPE_NUMBER), heap)
    }

    /// Returns the parameters of the type, but for its brand, as its description has them.
    pub(crate) fn parameters(
        &self,
        generics: &Generics,
        bound: &TokenStream,
        heap: &TokenStream,
    ) -> TokenStream {
        let parameter = |parameter: &GenericParam| match parameter {
            GenericParam::Type(ty) if self.is_brand(&ty.ident) => None,
            GenericParam::Type(ty) => {
                let ty = &ty.ident;
                Some(quote!(#heap::types::Parameter::Type(<#ty as #bound>::describe)))
            }
            GenericParam::Const(constant) => {
                let constant = &constant.ident;
                Some(quote!(#heap::types::Parameter::Value(#constant as u64)))
            }
            GenericParam::Lifetime(_) => None,
        };
        let parameters = generics.params.iter().filter_map(parameter);
        quote!([#(#parameters),*])
    }

    /// Returns `hash` with the number of each parameter mixed in. A parameter that is the brand has none.
    fn with_parameters(
        &self,
        hash: TokenStream,
        generics: &Generics,
        number: &dyn Fn(&Ident) -> TokenStream,
        heap: &TokenStream,
    ) -> TokenStream {
        let types = generics.type_params().map(|parameter| &parameter.ident);
        let of_types = types.filter(|ty| !self.is_brand(ty)).map(number);
        let of_values = generics.const_params().map(|parameter| {
            let parameter = &parameter.ident;
            quote!(#parameter as u64)
        });
        of_types
            .chain(of_values)
            .fold(hash, |hash, number| quote!(#heap::type_hash::with_number(#hash, #number)))
    }

    /// Returns true if the type's brand is its parameter `ident`.
    pub(crate) fn is_brand(&self, ident: &Ident) -> bool {
        matches!(&self.brand, Some(Type::Path(path)) if path.path.is_ident(ident))
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
