//! The code that the derive generates.

use crate::attributes::{Persist, layout_is_fixed};
use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{Data, DataStruct, DeriveInput, Error, Result, Type};

pub(crate) fn persist(input: &DeriveInput) -> Result<TokenStream> {
    let data = structure(input)?;
    if !layout_is_fixed(&input.attrs)? {
        return Err(Error::new_spanned(
            &input.ident,
            "a persistent type is `#[repr(C)]`: else its layout changes with the compiler",
        ));
    }
    if let Some(parameter) = input.generics.params.first() {
        return Err(Error::new_spanned(parameter, "a persistent type has no parameters"));
    }
    let persist = Persist::of(&input.attrs)?;
    let heap = persist.exporter.as_ref().map_or_else(|| quote!(::lode_heap), |path| quote!(#path));
    let (parameters, brand) = match &persist.brand {
        Some(brand) => (quote!(), quote!(#brand)),
        None => (quote!(<__B: #heap::Brand>), quote!(__B)),
    };
    let name = &input.ident;
    let declared = name.to_string();
    let fields = Fields::of(data, &heap, &brand);
    let type_number = match &persist.type_number {
        Some(number) => quote!(#number),
        None => fields.type_number(name),
    };
    let (owns, visits) = (fields.owns(), fields.visits());
    let layout = fields.layout(name);
    Ok(quote! {
        // SAFETY: - the layout is fixed and has no padding: the macro and the constant below check it.
        //         - every bit pattern is a value, since every field is `Persist`: the use of its `OWNS` requires that.
        //         - every field that owns an object is visited.
        #[automatically_derived]
        unsafe impl #parameters #heap::Persist<#brand> for #name {
            const NAME: u64 = #heap::type_hash::of_name(#declared);
            const TYPE_NUMBER: u64 = #type_number;
            const OWNS: bool = #owns;
            fn visit_owned(&self, owners: &mut #heap::Owners<'_>) {
                #visits
            }
        }
        const _: () = {
            #layout
        };
    })
}

fn structure(input: &DeriveInput) -> Result<&DataStruct> {
    let refuse = |what| Err(Error::new_spanned(&input.ident, what));
    match &input.data {
        Data::Struct(data) => Ok(data),
        Data::Enum(_) => refuse("an enum can't be persistent: not every bit pattern is one of its variants"),
        Data::Union(_) => refuse("a union can't be persistent: its bytes have no one type"),
    }
}

/// The fields of the struct: the name and the type of each.
struct Fields<'a> {
    fields: Vec<(TokenStream, &'a Type)>,
    /// The path of what `lode-heap` exports.
    heap: &'a TokenStream,
    brand: &'a TokenStream,
}

impl<'a> Fields<'a> {
    fn of(data: &'a DataStruct, heap: &'a TokenStream, brand: &'a TokenStream) -> Fields<'a> {
        let name = |(index, field): (usize, &'a syn::Field)| {
            let index = syn::Index::from(index);
            (field.ident.as_ref().map_or_else(|| quote!(#index), |name| quote!(#name)), &field.ty)
        };
        Fields { fields: data.fields.iter().enumerate().map(name).collect(), heap, brand }
    }

    /// Returns the hash of the declared name, and of each field's name, offset and type.
    fn type_number(&self, name: &Ident) -> TokenStream {
        let (heap, brand) = (self.heap, self.brand);
        let mut hash = quote!(<#name as #heap::Persist<#brand>>::NAME);
        for (field, ty) in &self.fields {
            let declared = field.to_string();
            hash = quote!(#heap::type_hash::with_field(
                #hash,
                #declared,
                ::core::mem::offset_of!(#name, #field),
                <#ty as #heap::Persist<#brand>>::TYPE_NUMBER,
            ));
        }
        quote!(#heap::type_hash::with_size(#hash, ::core::mem::size_of::<#name>()))
    }

    fn owns(&self) -> TokenStream {
        let (heap, brand) = (self.heap, self.brand);
        let fields = self.fields.iter().map(|(_, ty)| quote!(<#ty as #heap::Persist<#brand>>::OWNS));
        quote!(false #(|| #fields)*)
    }

    fn visits(&self) -> TokenStream {
        let (heap, brand) = (self.heap, self.brand);
        let visit = |(field, ty): &(TokenStream, &Type)| quote!(<#ty as #heap::Persist<#brand>>::visit_owned(&self.#field, owners););
        let fields = self.fields.iter().map(visit);
        quote!(#(#fields)* let _ = owners;)
    }

    fn layout(&self, name: &Ident) -> TokenStream {
        let sizes = self.fields.iter().map(|(_, ty)| quote!(::core::mem::size_of::<#ty>()));
        let padding = format!("`{name}` has padding: reorder its fields, or add some that fill the gaps");
        let destructor = format!("`{name}` has a destructor, which would never run in a pool");
        quote! {
            assert!(::core::mem::size_of::<#name>() == 0 #(+ #sizes)*, #padding);
            assert!(!::core::mem::needs_drop::<#name>(), #destructor);
        }
    }
}
