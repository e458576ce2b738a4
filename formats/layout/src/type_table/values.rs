//! Values of a type: a check of their bytes, and their text.

use super::TypeTable;
use super::shape::{NumberKind, Shape, TypeField, TypeId};
use std::fmt::Write;

/// Bytes after which the text of a value is cut.
const TEXT_LEN_MAX: usize = 64 << 10;

impl TypeTable {
    /// Returns true if the type is one of values, which cells hold: it has no cells and no pointers.
    pub fn is_value_type(&self, id: TypeId) -> bool {
        self.nested[id.index()].is_value
    }

    /// Returns true if some bytes are no value of the type, or of a part of it.
    pub fn has_invalid_values(&self, id: TypeId) -> bool {
        self.nested[id.index()].is_checked
    }

    /// Returns true if `bytes` begin with a value of the type, which is one that a cell can hold.
    pub fn is_value(&self, id: TypeId, bytes: &[u8]) -> bool {
        let ty = self.get(id);
        let all = |fields: &[TypeField]| {
            let of = |field: &TypeField| bytes.get(field.offset as usize..);
            let mut checked = fields.iter().filter(|field| self.has_invalid_values(field.id));
            checked.all(|field| of(field).is_some_and(|bytes| self.is_value(field.id, bytes)))
        };
        if (bytes.len() as u64) < ty.size {
            return false;
        }
        match &ty.shape {
            Shape::Bool => bytes[0] <= 1,
            Shape::Char => {
                bytes.first_chunk().is_some_and(|char| char::from_u32(u32::from_le_bytes(*char)).is_some())
            }
            Shape::Enum { variants, .. } => {
                let variant = variants.iter().find(|variant| variant.tag == bytes[0]);
                variant.is_some_and(|variant| all(&variant.fields))
            }
            Shape::Struct { fields, .. } => all(fields),
            Shape::Array { element, .. } if self.has_invalid_values(*element) => {
                let size = self.get(*element).size as usize;
                let all = &bytes[..ty.size as usize];
                all.chunks_exact(size.max(1)).all(|bytes| self.is_value(*element, bytes))
            }
            _ => true,
        }
    }

    /// Returns the value of the type with which `bytes` begin, as Rust writes it, cut after some 64 KiB; `None` if they are no
    /// value. The type is one that a cell can hold.
    pub fn value_text(&self, id: TypeId, bytes: &[u8]) -> Option<String> {
        let mut text = String::new();
        self.write_value(id, bytes, &mut text).then_some(text)
    }

    /// Writes a value. Returns false if the bytes are none.
    fn write_value(&self, id: TypeId, bytes: &[u8], text: &mut String) -> bool {
        let ty = self.get(id);
        if !self.is_value(id, bytes) {
            return false;
        }
        match &ty.shape {
            Shape::Number(kind) => *text += &number_text(*kind, bytes),
            Shape::Bool => *text += if bytes[0] == 1 { "true" } else { "false" },
            Shape::Char => {
                let char = bytes.first_chunk().and_then(|char| char::from_u32(u32::from_le_bytes(*char)));
                let _ = char.map(|char| write!(text, "{char:?}"));
            }
            Shape::Enum { variants, .. } => {
                let Some(variant) = variants.iter().find(|variant| variant.tag == bytes[0]) else {
                    return false;
                };
                *text += &variant.name;
                return self.write_fields(&variant.fields, bytes, text);
            }
            Shape::Struct { name, fields } => {
                let is_tuple = name.starts_with('(');
                *text += match (is_tuple, fields.is_empty()) {
                    (true, true) => "()",
                    (true, false) => "",
                    (false, _) => name,
                };
                let is_whole = self.write_fields(fields, bytes, text);
                if is_tuple && fields.len() == 1 && text.pop().is_some() {
                    *text += ",)";
                }
                return is_whole;
            }
            Shape::Array { element, len } if ty.size == 0 => {
                let _ = write!(text, "[{}; {len}]", self.name(*element));
            }
            Shape::Array { element, len } => {
                text.push('[');
                let size = self.get(*element).size as usize;
                for index in 0..*len as usize {
                    *text += if index == 0 { "" } else { ", " };
                    if text.len() > TEXT_LEN_MAX {
                        *text += "...";
                        break;
                    }
                    if !bytes.get(index * size..).is_some_and(|bytes| self.write_value(*element, bytes, text))
                    {
                        return false;
                    }
                }
                text.push(']');
            }
            _ => return false,
        }
        true
    }

    fn write_fields(&self, fields: &[TypeField], bytes: &[u8], text: &mut String) -> bool {
        let Some(first) = fields.first() else { return true };
        let is_tuple = first.name == "0";
        *text += if is_tuple { "(" } else { " { " };
        for (index, field) in fields.iter().enumerate() {
            *text += if index == 0 { "" } else { ", " };
            if text.len() > TEXT_LEN_MAX {
                *text += "...";
                break;
            }
            if !is_tuple {
                let _ = write!(text, "{}: ", field.name);
            }
            let bytes = bytes.get(field.offset as usize..);
            if !bytes.is_some_and(|bytes| self.write_value(field.id, bytes, text)) {
                return false;
            }
        }
        *text += if is_tuple { ")" } else { " }" };
        true
    }
}

/// Returns the number with which `bytes` begin.
fn number_text(kind: NumberKind, bytes: &[u8]) -> String {
    macro_rules! text {
        ($number:ty) => {
            bytes.first_chunk().map(|bytes| <$number>::from_le_bytes(*bytes).to_string()).unwrap_or_default()
        };
    }
    match kind {
        NumberKind::U8 => text!(u8),
        NumberKind::U16 => text!(u16),
        NumberKind::U32 => text!(u32),
        NumberKind::U64 => text!(u64),
        NumberKind::I8 => text!(i8),
        NumberKind::I16 => text!(i16),
        NumberKind::I32 => text!(i32),
        NumberKind::I64 => text!(i64),
        NumberKind::F32 => text!(f32),
        NumberKind::F64 => text!(f64),
    }
}
