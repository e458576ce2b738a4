//! The fields of a struct or of a variant.

use syn::ext::IdentExt;
use syn::{Fields, Member, Type};

/// Returns each field, by its name or its number, with its type.
pub(crate) fn members(fields: &Fields) -> Vec<(Member, &Type)> {
    fields.members().zip(fields.iter().map(|field| &field.ty)).collect()
}

/// Returns the name of a field as it is declared, or its number.
pub(crate) fn declared_name(member: &Member) -> String {
    match member {
        Member::Named(name) => name.unraw().to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    }
}
