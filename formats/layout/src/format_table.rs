//! The table of a format, beside the layout that the compiler produces.
//!
//! Each format has one table, in a `.md` file beside its module, here and in `lode-nvdimm`. A test compares it with
//! the fields that the compiler laid out, by `offset_of!` and `size_of`.

/// A field of a format as the compiler lays it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name of the field in the code and in the table.
    pub name: &'static str,
    /// Offset of the field, in bytes from the start of the format.
    pub off: usize,
    /// Its length in bytes.
    pub len: usize,
}

/// A format: its table, and its fields as compiled.
#[derive(Clone, Copy, Debug)]
pub struct FormatTable {
    /// The name of the `.md` file without its ending.
    pub name: &'static str,
    /// The text of that file.
    pub text: &'static str,
    /// The length of the format in bytes.
    pub size: usize,
    /// Its fields, in the order of their offsets.
    pub fields: &'static [Field],
}

/// Returns the length of the field that `_project` picks.
pub const fn len_of<S, F>(_project: fn(&S) -> &F) -> usize {
    size_of::<F>()
}

/// Builds the [`FormatTable`](crate::format_table::FormatTable) `$name` of the struct `$struct` with the listed
/// fields.
#[macro_export]
macro_rules! format_table {
    ($name:literal, $struct:ty, [$($field:ident),+ $(,)?]) => {
        $crate::format_table::FormatTable {
            name: $name,
            text: include_str!(concat!($name, ".md")),
            size: size_of::<$struct>(),
            fields: &[$($crate::format_table::Field {
                name: stringify!($field),
                off: core::mem::offset_of!($struct, $field),
                len: $crate::format_table::len_of::<$struct, _>(|whole| &whole.$field),
            }),+],
        }
    };
}
