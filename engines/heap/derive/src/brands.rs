//! The brand that the type of a field names.

use syn::{GenericArgument, PathArguments, Type};

/// The pointers and cells of `lode-heap`, and the number of parameters of each. The brand is the last one.
const BRANDED: [(&str, usize); 8] = [
    ("PBox", 2),
    ("PCell", 2),
    ("PDeque", 2),
    ("PHashMap", 3),
    ("PMap", 3),
    ("PMutex", 2),
    ("PString", 1),
    ("PVec", 2),
];

/// Returns the brand that a pointer or cell in a type names; `None` if it has none in it.
pub(crate) fn brand_in(ty: &Type) -> Option<&Type> {
    let path = match ty {
        Type::Array(array) => return brand_in(&array.elem),
        Type::Group(group) => return brand_in(&group.elem),
        Type::Paren(paren) => return brand_in(&paren.elem),
        Type::Path(path) => &path.path,
        _ => return None,
    };
    let last = path.segments.last()?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    let types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    let types: Vec<&Type> = types.collect();
    if BRANDED.iter().any(|(name, count)| last.ident == name && types.len() == *count) {
        return types.last().copied();
    }
    types.into_iter().find_map(brand_in)
}
