//! The code that `#[derive(CellValue)]` generates. It has no unsafe code: the bits are pairs of those of the fields.
//!
//! Pairs are balanced trees, and so is the choice between variants: the compiler bounds the depth of types.

use crate::attributes::Persist;
use crate::members::{declared_name, members};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{Data, DataEnum, DeriveInput, Error, Expr, ExprLit, Fields, Generics, Lit, Member, Result, Type};

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let persist = Persist::of(&input.attrs)?;
    if let Some(brand) = &persist.brand {
        return Err(Error::new_spanned(brand, "the value of a cell has no brand: it has no pointers"));
    }
    if let Some(was) = &persist.was {
        return Err(Error::new_spanned(was, "a value is converted by the struct whose cell it is in"));
    }
    let heap = persist.exporter();
    let name = quote!(<Self as #heap::CellValue>::NAME);
    let value = match &input.data {
        Data::Struct(data) => {
            let fields = FieldsOf::new(&data.fields, &heap);
            let (names, pack, unpack) = (fields.names(), fields.pack(), fields.unpack());
            CellValue {
                number: fields.mixed(name),
                describe: {
                    let described = fields.described();
                    quote!(types.value_structure::<Self>(&declaration, &[#described]))
                },
                bits: fields.bits(),
                to_bits: quote! {
                    let Self { #names } = self;
                    #pack
                },
                from_bits: quote! {
                    #unpack
                    ::core::option::Option::Some(Self { #names })
                },
            }
        }
        Data::Enum(data) => of_enum(data, input, name, &heap)?,
        Data::Union(_) => {
            return Err(Error::new_spanned(
                &input.ident,
                "a union can't be read: its bytes have no one type",
            ));
        }
    };
    Ok(value.implementation(input, &persist, &heap))
}

/// The parts of an implementation.
struct CellValue {
    /// The type's number, without its size.
    number: TokenStream,
    /// The addition of the type, by its `declaration`, to `types`.
    describe: TokenStream,
    /// The type of the bits.
    bits: TokenStream,
    /// The bits of `self`.
    to_bits: TokenStream,
    /// The value of `bits`, in an option.
    from_bits: TokenStream,
}

impl CellValue {
    fn implementation(&self, input: &DeriveInput, persist: &Persist, heap: &TokenStream) -> TokenStream {
        let CellValue { number, describe, bits, to_bits, from_bits } = self;
        let bits_of_self = quote!(<Self as #heap::CellValue>::Bits);
        let sized = quote!(#heap::type_hash::with_size(#number, ::core::mem::size_of::<#bits_of_self>()));
        let number = persist.number(&sized, &input.generics, &quote!(#heap::CellValue), heap);
        let name = &input.ident;
        let declared = persist.declared(name);
        let hash = persist.name_hash(name, &input.generics, &quote!(#heap::CellValue), heap);
        let parameters_of = persist.parameters(&input.generics, &quote!(#heap::CellValue), heap);
        let generics = bounded(&input.generics, heap);
        let (parameters, _, conditions) = generics.split_for_impl();
        let (_, arguments, _) = input.generics.split_for_impl();
        // An array of bytes names no type of a field, which may be less visible than this one. The length of an array can't
        // depend on parameters.
        let (outer, to_bits, from_bits) = match input.generics.params.is_empty() {
            true => (
                quote!([u8; ::core::mem::size_of::<#bits>()]),
                quote! {
                    let bits: #bits = { #to_bits };
                    #heap::bits::cast(bits)
                },
                quote! {
                    let bits: #bits = #heap::bits::cast(bits);
                    #from_bits
                },
            ),
            false => (bits.clone(), to_bits.clone(), from_bits.clone()),
        };
        quote! {
            #[automatically_derived]
            impl #parameters #heap::CellValue for #name #arguments #conditions {
                type Bits = #outer;
                const NAME: u64 = #hash;
                const TYPE_NUMBER: u64 = #number;
                const TYPE_NAME: &'static str = #declared;

                #[inline]
                fn to_bits(self) -> #bits_of_self {
                    #to_bits
                }

                #[inline]
                fn from_bits(bits: #bits_of_self) -> ::core::option::Option<Self> {
                    #from_bits
                }

                fn describe(types: &mut #heap::types::Types) -> #heap::types::TypeId {
                    let declaration = #heap::types::Declaration {
                        name: #declared,
                        parameters: &#parameters_of,
                        number: <Self as #heap::CellValue>::TYPE_NUMBER,
                        size: ::core::mem::size_of::<#bits_of_self>(),
                        was: ::core::option::Option::None,
                    };
                    #describe
                }
            }
        }
    }
}

fn bounded(generics: &Generics, heap: &TokenStream) -> Generics {
    let mut generics = generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(syn::parse_quote!(#heap::CellValue));
    }
    generics
}

/// An enum is the number of its variant in a byte, and the bits of one of the variants that have fields, if there are any.
fn of_enum(data: &DataEnum, input: &DeriveInput, name: TokenStream, heap: &TokenStream) -> Result<CellValue> {
    if data.variants.is_empty() {
        return Err(Error::new_spanned(&input.ident, "an enum without variants has no value"));
    }
    let tags = tags(data)?;
    let variants: Vec<FieldsOf<'_>> =
        data.variants.iter().map(|variant| FieldsOf::new(&variant.fields, heap)).collect();
    let names: Vec<&Ident> = data.variants.iter().map(|variant| &variant.ident).collect();
    let mut number = name;
    for ((name, tag), fields) in names.iter().zip(&tags).zip(&variants) {
        let declared = name.unraw().to_string();
        number = fields.mixed(quote!(#heap::type_hash::with_field(#number, #declared, #tag as usize, 0)));
    }
    let described = names.iter().zip(&tags).zip(&variants).map(|((name, tag), fields)| {
        let (declared, fields) = (name.unraw().to_string(), fields.described());
        quote!(#heap::types::Variant { name: #declared, tag: #tag, fields: &[#fields] })
    });
    let describe = quote!(types.enumeration::<Self>(&declaration, &[#(#described),*]));
    let with_fields: Vec<&FieldsOf<'_>> =
        variants.iter().filter(|variant| !variant.fields.is_empty()).collect();
    if with_fields.is_empty() {
        return Ok(CellValue {
            number,
            describe,
            bits: quote!(u8),
            to_bits: quote!(match self { #(Self::#names { .. } => #tags,)* }),
            from_bits: quote!(::core::option::Option::Some(match bits {
                #(#tags => Self::#names {},)*
                _ => return ::core::option::Option::None,
            })),
        });
    }
    let choice = choice(&with_fields, heap);
    let mut number_with_fields = 0..with_fields.len();
    let arms = variants.iter().map(|fields| {
        if fields.fields.is_empty() {
            return (quote!(#heap::bits::zeroed()), quote!());
        }
        let index = number_with_fields.next().expect("one for each variant with fields");
        let packed = chosen(index, with_fields.len(), fields.pack(), heap);
        let (bits, unpack) = (taken(index, with_fields.len(), quote!(rest)), fields.unpack());
        (packed, quote!(let bits = #bits; #unpack))
    });
    let (packed, unpacked): (Vec<TokenStream>, Vec<TokenStream>) = arms.unzip();
    let fields: Vec<TokenStream> = variants.iter().map(FieldsOf::names).collect();
    Ok(CellValue {
        number,
        describe,
        bits: quote!(#heap::bits::Pair<u8, #choice>),
        to_bits: quote!(match self {
            #(Self::#names { #fields } => #heap::bits::Pair::new(#tags, #packed),)*
        }),
        from_bits: quote! {
            let (tag, rest) = bits.split();
            ::core::option::Option::Some(match tag {
                #(#tags => {
                    #unpacked
                    Self::#names { #fields }
                })*
                _ => return ::core::option::Option::None,
            })
        },
    })
}

/// Returns the type that has the bits of one of the variants.
fn choice(variants: &[&FieldsOf<'_>], heap: &TokenStream) -> TokenStream {
    if let [variant] = variants {
        return variant.bits();
    }
    let (first, second) = variants.split_at(variants.len() / 2);
    let (first, second) = (choice(first, heap), choice(second, heap));
    quote!(#heap::bits::Either<#first, #second>)
}

/// Returns the choice between `count` variants that has the bits `packed` of the variant with the number `index`.
fn chosen(index: usize, count: usize, packed: TokenStream, heap: &TokenStream) -> TokenStream {
    let half = count / 2;
    if count == 1 {
        packed
    } else if index < half {
        let first = chosen(index, half, packed, heap);
        quote!(#heap::bits::Either::first(#first))
    } else {
        let second = chosen(index - half, count - half, packed, heap);
        quote!(#heap::bits::Either::second(#second))
    }
}

/// Returns the bits of the variant with the number `index` in `choice`, one between `count` variants.
fn taken(index: usize, count: usize, choice: TokenStream) -> TokenStream {
    let half = count / 2;
    if count == 1 {
        choice
    } else if index < half {
        taken(index, half, quote!(#choice.as_first()))
    } else {
        taken(index - half, count - half, quote!(#choice.as_second()))
    }
}

/// Returns the number of each variant: its discriminant, or that of the one before it plus one.
fn tags(data: &DataEnum) -> Result<Vec<u8>> {
    let mut next = Some(0);
    let mut tags = Vec::new();
    for variant in &data.variants {
        let tag = match &variant.discriminant {
            Some((_, number)) => Some(literal(number)?),
            None => next,
        };
        let too_large = || Error::new_spanned(variant, "the number of a variant is at most 255");
        let tag = tag.ok_or_else(too_large)?;
        next = tag.checked_add(1);
        tags.push(tag);
    }
    Ok(tags)
}

fn literal(number: &Expr) -> Result<u8> {
    match number {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => number.base10_parse(),
        Expr::Lit(ExprLit { lit: Lit::Byte(number), .. }) => Ok(number.value()),
        // As macros pass expressions on.
        Expr::Group(group) => literal(&group.expr),
        Expr::Paren(paren) => literal(&paren.expr),
        _ => Err(Error::new_spanned(number, "the number of a variant is a literal from 0 to 255")),
    }
}

/// The fields of a struct or of a variant.
struct FieldsOf<'a> {
    fields: Vec<(Member, &'a Type)>,
    /// The path of what `lode-heap` exports.
    heap: &'a TokenStream,
}

impl<'a> FieldsOf<'a> {
    fn new(fields: &'a Fields, heap: &'a TokenStream) -> FieldsOf<'a> {
        FieldsOf { fields: members(fields), heap }
    }

    /// Returns the variable of a field.
    fn variable(index: usize) -> Ident {
        format_ident!("field{index}")
    }

    /// Returns each field with its variable, as a pattern or an expression has them.
    fn names(&self) -> TokenStream {
        let members = self.fields.iter().map(|(member, _)| member);
        let variables = (0..self.fields.len()).map(FieldsOf::variable);
        quote!(#(#members: #variables),*)
    }

    /// Returns the type of the bits.
    fn bits(&self) -> TokenStream {
        self.bits_of(0, self.fields.len())
    }

    fn bits_of(&self, first: usize, count: usize) -> TokenStream {
        let heap = self.heap;
        match count {
            0 => quote!([u8; 0]),
            1 => {
                let ty = self.fields[first].1;
                quote!(<#ty as #heap::CellValue>::Bits)
            }
            _ => {
                let half = count / 2;
                let (first, second) = (self.bits_of(first, half), self.bits_of(first + half, count - half));
                quote!(#heap::bits::Pair<#first, #second>)
            }
        }
    }

    /// Returns the bits of the variables.
    fn pack(&self) -> TokenStream {
        self.pack_of(0, self.fields.len())
    }

    fn pack_of(&self, first: usize, count: usize) -> TokenStream {
        let heap = self.heap;
        match count {
            0 => quote!([]),
            1 => {
                let field = FieldsOf::variable(first);
                quote!(#heap::CellValue::to_bits(#field))
            }
            _ => {
                let half = count / 2;
                let (first, second) = (self.pack_of(first, half), self.pack_of(first + half, count - half));
                quote!(#heap::bits::Pair::new(#first, #second))
            }
        }
    }

    /// Returns the statements that make the variables of `bits`.
    fn unpack(&self) -> TokenStream {
        self.unpack_of(0, self.fields.len(), &quote!(bits))
    }

    fn unpack_of(&self, first: usize, count: usize, bits: &TokenStream) -> TokenStream {
        let heap = self.heap;
        match count {
            0 => quote!(let [] = #bits;),
            1 => {
                let (field, ty) = (FieldsOf::variable(first), self.fields[first].1);
                quote!(let #field = <#ty as #heap::CellValue>::from_bits(#bits)?;)
            }
            _ => {
                let (half, second) = (count / 2, format_ident!("bits{first}_{count}"));
                let of_first = self.unpack_of(first, half, &quote!(bits));
                let of_second = self.unpack_of(first + half, count - half, &quote!(#second));
                quote! {
                    let (bits, #second) = #bits.split();
                    #of_first
                    #of_second
                }
            }
        }
    }

    /// Returns the name and the description of each field.
    fn described(&self) -> TokenStream {
        let heap = self.heap;
        let described = self.fields.iter().map(|(member, ty)| {
            let declared = declared_name(member);
            quote!((#declared, <#ty as #heap::CellValue>::describe as #heap::types::Describe))
        });
        quote!(#(#described),*)
    }

    /// Returns `hash` with the name and the type of each field mixed in.
    fn mixed(&self, hash: TokenStream) -> TokenStream {
        let heap = self.heap;
        self.fields.iter().enumerate().fold(hash, |hash, (index, (member, ty))| {
            let declared = declared_name(member);
            quote!(#heap::type_hash::with_field(#hash, #declared, #index, <#ty as #heap::CellValue>::TYPE_NUMBER))
        })
    }
}
