//! The code that `#[derive(Persist)]` generates.

use crate::attributes::{Persist, layout_is_fixed};
use crate::brands::brand_in;
use crate::members::{declared_name, members};
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use syn::{Data, DataStruct, DeriveInput, Error, Generics, Member, Result, Type};

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let data = structure(input)?;
    if !layout_is_fixed(&input.attrs)? {
        return Err(Error::new_spanned(
            &input.ident,
            "a persistent type is `#[repr(C)]`: else its layout changes with the compiler",
        ));
    }
    let mut persist = Persist::of(&input.attrs)?;
    let missing = missing_brand(&persist, data);
    if let Some((brand, _)) = &missing {
        // The type is that of its fields' pool from here on, so that this is its only error.
        persist.brand = Some(brand.clone());
    }
    let missing = missing.map(|(_, error)| error.to_compile_error());
    let heap = persist.exporter();
    let brand = persist.brand.as_ref().map_or_else(|| quote!(__AnyPool), ToTokens::to_token_stream);
    let generics = bounded(&input.generics, &persist, &heap, &brand);
    let (parameters, _, conditions) = generics.split_for_impl();
    let (_, arguments, _) = input.generics.split_for_impl();
    let name = &input.ident;
    let fields = Fields::of(data, &heap, &brand);
    let bound = quote!(#heap::Persist<#brand>);
    let declared = persist.name_hash(name, &input.generics, &bound, &heap);
    let type_number = persist.number(&fields.type_number(), &input.generics, &bound, &heap);
    let (owns, visits) = (fields.owns(), fields.visits());
    let (padded, copies) = (fields.padded(), fields.copies());
    let parts = fields.parts();
    let parameters_of = persist.parameters(&input.generics, &bound, &heap);
    let display = persist.declared(name);
    let (was, versions) = older(&persist, &bound, &brand, &heap);
    let destructor = format!("`{name}` has a destructor, which would never run in a pool");
    let check = quote!(assert!(!::core::mem::needs_drop::<Self>(), #destructor););
    // The number of a type with parameters is computed where the type is used.
    let now = input.generics.params.is_empty().then(|| check_now(name, &destructor));
    Ok(quote! {
        // SAFETY: - the layout is fixed: the macro checks it.
        //         - every bit pattern is a value, since every field is `Persist`: the use of its `OWNS` requires that.
        //         - there is padding if the fields have some, or are not as long as the whole; all fields are copied.
        //         - every field that owns an object is visited.
        #[automatically_derived]
        unsafe impl #parameters #heap::Persist<#brand> for #name #arguments #conditions {
            const NAME: u64 = #declared;
            const TYPE_NUMBER: u64 = {
                #check
                #type_number
            };
            const OWNS: bool = #owns;
            const PADDED: bool = #padded;
            fn visit_owned(&self, owners: &mut #heap::Owners<'_>) {
                #visits
            }
            fn copy_to(&mut self, into: &mut [u8]) {
                #copies
            }
            fn describe(types: &mut #heap::types::Types) -> #heap::types::TypeId {
                let declaration = #heap::types::Declaration {
                    name: #display,
                    parameters: &#parameters_of,
                    number: <Self as #bound>::TYPE_NUMBER,
                    size: ::core::mem::size_of::<Self>(),
                    was: #was,
                };
                types.structure::<Self>(&declaration, &[#parts])
            }
            #versions
        }
        #now
        #missing
    })
}

/// Returns the brand that the first field with one names, and the error that the type names none.
fn missing_brand(persist: &Persist, data: &DataStruct) -> Option<(Type, Error)> {
    if persist.brand.is_some() {
        return None;
    }
    let (brand, ty) = data.fields.iter().find_map(|field| Some((brand_in(&field.ty)?, &field.ty)))?;
    let named = brand.to_token_stream();
    let message =
        format!("a struct with pointers or cells names the brand of its pool: `#[persist(brand = {named})]`");
    Some((brand.clone(), Error::new_spanned(ty, message)))
}

/// Returns the check of a type without parameters, which needs no use of it.
fn check_now(name: &Ident, destructor: &str) -> TokenStream {
    quote!(
        const _: () = assert!(!::core::mem::needs_drop::<#name>(), #destructor);
    )
}

/// Returns the parameters of the implementation: those of the type, each of them persistent or the brand, and the brand if the
/// type names none.
fn bounded(generics: &Generics, persist: &Persist, heap: &TokenStream, brand: &TokenStream) -> Generics {
    let mut generics = generics.clone();
    for parameter in generics.type_params_mut() {
        let bound = match persist.is_brand(&parameter.ident) {
            true => syn::parse_quote!(#heap::Brand),
            false => syn::parse_quote!(#heap::Persist<#brand>),
        };
        parameter.bounds.push(bound);
    }
    if persist.brand.is_none() {
        generics.params.push(syn::parse_quote!(__AnyPool: #heap::Brand));
    }
    generics
}

fn structure(input: &DeriveInput) -> Result<&DataStruct> {
    let refuse = |what| Err(Error::new_spanned(&input.ident, what));
    match &input.data {
        Data::Struct(data) => Ok(data),
        Data::Enum(_) => refuse(
            "not every bit pattern is a variant of an enum: derive `CellValue` and `Copy` for it, and put it into a `PCell`",
        ),
        Data::Union(_) => refuse("a union can't be persistent: its bytes have no one type"),
    }
}

/// The fields of the struct: the name and the type of each.
struct Fields<'a> {
    fields: Vec<(Member, &'a Type)>,
    /// The path of what `lode-heap` exports.
    heap: &'a TokenStream,
    brand: &'a TokenStream,
}

impl<'a> Fields<'a> {
    fn of(data: &'a DataStruct, heap: &'a TokenStream, brand: &'a TokenStream) -> Fields<'a> {
        Fields { fields: members(&data.fields), heap, brand }
    }

    /// Returns the hash of the declared name, and of each field's name, offset and type.
    fn type_number(&self) -> TokenStream {
        let (heap, brand) = (self.heap, self.brand);
        let mut hash = quote!(<Self as #heap::Persist<#brand>>::NAME);
        for (field, ty) in &self.fields {
            let declared = declared_name(field);
            hash = quote!(#heap::type_hash::with_field(
                #hash,
                #declared,
                ::core::mem::offset_of!(Self, #field),
                <#ty as #heap::Persist<#brand>>::TYPE_NUMBER,
            ));
        }
        quote!(#heap::type_hash::with_size(#hash, ::core::mem::size_of::<Self>()))
    }

    fn parts(&self) -> TokenStream {
        let (heap, brand) = (self.heap, self.brand);
        let part = |(field, ty): &(Member, &Type)| {
            let declared = declared_name(field);
            quote! {
                #heap::types::Part {
                    name: #declared,
                    offset: ::core::mem::offset_of!(Self, #field),
                    describe: <#ty as #heap::Persist<#brand>>::describe,
                }
            }
        };
        let parts = self.fields.iter().map(part);
        quote!(#(#parts),*)
    }

    fn owns(&self) -> TokenStream {
        let (heap, brand) = (self.heap, self.brand);
        let fields = self.fields.iter().map(|(_, ty)| quote!(<#ty as #heap::Persist<#brand>>::OWNS));
        quote!(false #(|| #fields)*)
    }

    fn visits(&self) -> TokenStream {
        let (heap, brand) = (self.heap, self.brand);
        let visit = |(field, ty): &(Member, &Type)| quote!(<#ty as #heap::Persist<#brand>>::visit_owned(&self.#field, owners););
        let fields = self.fields.iter().map(visit);
        quote!(#(#fields)* let _ = owners;)
    }

    fn padded(&self) -> TokenStream {
        let (heap, brand) = (self.heap, self.brand);
        let sizes = self.fields.iter().map(|(_, ty)| quote!(::core::mem::size_of::<#ty>()));
        let fields = self.fields.iter().map(|(_, ty)| quote!(<#ty as #heap::Persist<#brand>>::PADDED));
        quote!(::core::mem::size_of::<Self>() != 0 #(+ #sizes)* #(|| #fields)*)
    }

    fn copies(&self) -> TokenStream {
        let (heap, brand) = (self.heap, self.brand);
        let copy = |(field, ty): &(Member, &Type)| {
            quote! {
                <#ty as #heap::Persist<#brand>>::copy_to(
                    &mut self.#field,
                    &mut into[::core::mem::offset_of!(Self, #field)..][..::core::mem::size_of::<#ty>()],
                );
            }
        };
        let fields = self.fields.iter().map(copy);
        quote!(#(#fields)* let _ = into;)
    }
}

/// Returns the description of the type that this one was, in an option, and the methods that make values of older ones.
fn older(
    persist: &Persist,
    bound: &TokenStream,
    brand: &TokenStream,
    heap: &TokenStream,
) -> (TokenStream, TokenStream) {
    let Some(was) = &persist.was else { return (quote!(::core::option::Option::None), quote!()) };
    let versions = quote! {
        fn version(age: u32) -> ::core::option::Option<#heap::migration::Version> {
            const {
                assert!(
                    <Self as #bound>::TYPE_NUMBER != <#was as #bound>::TYPE_NUMBER,
                    "the older type has the same number: name and fields are the same; give this one a `type_number`",
                );
            }
            match age {
                0 => ::core::option::Option::Some(#heap::migration::Version {
                    name: <Self as #bound>::NAME,
                    number: <Self as #bound>::TYPE_NUMBER,
                    size: ::core::mem::size_of::<Self>() as u64,
                }),
                _ => <#was as #bound>::version(age - 1),
            }
        }
        fn from_version(
            object: &mut #heap::migration::OldObject<'_>,
            offset: u64,
            age: u32,
        ) -> ::core::result::Result<Self, #heap::HeapError> {
            match age {
                0 => object.read::<Self, #brand>(offset),
                _ => {
                    let old = <#was as #bound>::from_version(object, offset, age - 1)?;
                    <Self as #heap::Migrate<#was>>::migrate(old)
                }
            }
        }
        fn visit_version(
            at: #heap::migration::PoolOffset,
            owners: &mut #heap::Owners<'_>,
            age: u32,
        ) -> ::core::result::Result<(), #heap::migration::Fault> {
            match age {
                0 => #heap::migration::walk::<Self, #brand>(at, owners),
                _ => <#was as #bound>::visit_version(at, owners, age - 1),
            }
        }
    };
    (quote!(::core::option::Option::Some(<#was as #bound>::describe)), versions)
}
