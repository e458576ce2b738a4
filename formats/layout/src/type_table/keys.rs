//! Keys of a type: their text.

use super::TypeTable;
use super::shape::{NumberKind, PoolType, Shape, TypeId};
use crate::key::{Key, Place};
use std::fmt::{Debug, Write};

/// Bytes after which the text of a key is cut.
const TEXT_LEN_MAX: usize = 4 << 10;

impl TypeTable {
    /// Returns true if the type is one of keys, which maps have.
    pub fn is_key_type(&self, id: TypeId) -> bool {
        self.nested[id.index()].is_key
    }

    /// Returns true if a type of this shape is one of keys, if all in it are.
    pub(super) fn is_of_key(&self, shape: &Shape) -> bool {
        match shape {
            Shape::Number(kind) => !matches!(kind, NumberKind::F32 | NumberKind::F64),
            Shape::Bool | Shape::Char | Shape::Text | Shape::Bytes => true,
            Shape::Array { element, .. } => self.is_byte(*element),
            Shape::Struct { name, fields } => name.starts_with('(') && !fields.is_empty(),
            _ => false,
        }
    }

    fn is_byte(&self, id: TypeId) -> bool {
        self.get(id).shape == Shape::Number(NumberKind::U8)
    }

    /// Returns the key that `bytes` are, as Rust writes it, cut after some 4 KiB; `None` if they are no key of the type.
    pub fn key_text(&self, id: TypeId, bytes: &[u8]) -> Option<String> {
        let (mut text, mut rest) = (String::new(), bytes);
        let is_key = self.write_key(id, &mut rest, Place::Last, &mut text) && rest.is_empty();
        if text.len() > TEXT_LEN_MAX {
            let end = (0..=TEXT_LEN_MAX).rev().find(|end| text.is_char_boundary(*end));
            text.truncate(end.unwrap_or(0));
            text += "...";
        }
        is_key.then_some(text)
    }

    /// Writes the key with which `bytes` begin, and advances them past it. Returns false if they begin with none.
    fn write_key(&self, id: TypeId, bytes: &mut &[u8], place: Place, text: &mut String) -> bool {
        /// Writes a key of the type `K`.
        fn write<K: Key + Debug>(bytes: &mut &[u8], place: Place, text: &mut String) -> bool {
            K::decode_key(bytes, place).is_ok_and(|key| write!(text, "{key:?}").is_ok())
        }
        let PoolType { size, shape, .. } = self.get(id);
        match shape {
            Shape::Number(NumberKind::U8) => write::<u8>(bytes, place, text),
            Shape::Number(NumberKind::U16) => write::<u16>(bytes, place, text),
            Shape::Number(NumberKind::U32) => write::<u32>(bytes, place, text),
            Shape::Number(NumberKind::U64) => write::<u64>(bytes, place, text),
            Shape::Number(NumberKind::I8) => write::<i8>(bytes, place, text),
            Shape::Number(NumberKind::I16) => write::<i16>(bytes, place, text),
            Shape::Number(NumberKind::I32) => write::<i32>(bytes, place, text),
            Shape::Number(NumberKind::I64) => write::<i64>(bytes, place, text),
            Shape::Bool => write::<bool>(bytes, place, text),
            Shape::Char => write::<char>(bytes, place, text),
            Shape::Text => write::<String>(bytes, place, text),
            Shape::Bytes => {
                let key = Vec::<u8>::decode_key(bytes, place);
                key.is_ok_and(|key| write!(text, "b\"{}\"", key.escape_ascii()).is_ok())
            }
            Shape::Array { element, .. } if self.is_byte(*element) => {
                let array = usize::try_from(*size).ok().and_then(|len| bytes.split_at_checked(len));
                array.is_some_and(|(key, rest)| {
                    *bytes = rest;
                    write!(text, "{key:?}").is_ok()
                })
            }
            Shape::Struct { fields, .. } => {
                let Some((last, inner)) = fields.split_last() else { return false };
                text.push('(');
                for field in inner {
                    if !self.write_key(field.id, bytes, Place::Inner, text) {
                        return false;
                    }
                    *text += ", ";
                }
                let is_key = self.write_key(last.id, bytes, place, text);
                text.push(')');
                is_key
            }
            _ => false,
        }
    }
}
