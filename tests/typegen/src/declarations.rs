//! The structs and enums that `lode pool types` prints, with the place of each field.

use crate::model::argument;
use crate::types::{Len, Part, Program, Value, ValueField, Variant};
use std::collections::BTreeMap;

/// Size of a word in bytes.
const WORD: usize = 8;

/// The structs and enums to which a root leads: the size of each, and its rows.
pub type Declarations = BTreeMap<String, (usize, Vec<String>)>;

impl Program {
    /// Returns the structs and enums to which the root leads, by their names on the medium, without tuples and options.
    pub fn declarations(&self) -> Declarations {
        let mut found = Declarations::new();
        self.declare(&self.root(), &mut found);
        found
    }

    fn declare(&self, part: &Part, found: &mut Declarations) {
        part.values().into_iter().for_each(|value| self.declare_value(value, found));
        match part {
            Part::Array(inner, _) | Part::Mutex(inner) | Part::Box(inner) | Part::Boxes(inner) => {
                self.declare(inner, found);
            }
            Part::Struct(index, arguments) => {
                let name = self.stored_name(part);
                if found.contains_key(&name) {
                    return;
                }
                let (mut rows, mut end) = (Vec::new(), 0_usize);
                let parts = self.fields(*index, arguments);
                for (field, part) in self.structs[*index].fields.iter().zip(&parts) {
                    let (size, align) = self.layout(part);
                    let offset = end.next_multiple_of(align);
                    rows.push(format!("{offset:>5}  {}: {}", field.name, self.stored_name(part)));
                    end = offset + size;
                }
                found.insert(name, (self.layout(part).0, rows));
                parts.iter().for_each(|part| self.declare(part, found));
            }
            _ => {}
        }
    }

    fn declare_value(&self, value: &Value, found: &mut Declarations) {
        match value {
            Value::Option(inner) | Value::Array(inner, _) => self.declare_value(inner, found),
            Value::Tuple(values) => values.iter().for_each(|value| self.declare_value(value, found)),
            Value::Named(index, _) => {
                let named = &self.values[*index];
                let mut rows = Vec::new();
                for variant in &named.variants {
                    if named.is_enum {
                        rows.push(format!("{:>5}  {} = {}", "", variant.name, variant.tag));
                    }
                    rows.extend(self.field_rows(value, variant, usize::from(named.is_enum)));
                }
                found.insert(self.stored_value_name(value), (self.size(value), rows));
                for field in named.variants.iter().flat_map(|variant| &variant.fields) {
                    self.declare_value(&field.value.with(argument(value)), found);
                }
            }
            Value::Number(_) | Value::Bool | Value::Char | Value::Parameter => {}
        }
    }

    /// Returns the rows of a variant's fields, which lie one directly after the other.
    fn field_rows(&self, value: &Value, variant: &Variant, start: usize) -> Vec<String> {
        let mut end = start;
        let row = |(at, field): (usize, &ValueField)| {
            let value = field.value.with(argument(value));
            let offset = end;
            end += self.size(&value);
            format!("{offset:>5}  {}: {}", variant.field_name(at), self.stored_value_name(&value))
        };
        variant.fields.iter().enumerate().map(row).collect()
    }

    /// Returns the size and the alignment of a type.
    fn layout(&self, part: &Part) -> (usize, usize) {
        match part {
            Part::Number(number) => (number.size(), number.size()),
            Part::Cell(value) => (self.size(value).max(1).next_multiple_of(WORD), WORD),
            Part::Box(_) | Part::Map(..) => (WORD, WORD),
            Part::Vec(_) | Part::Boxes(_) | Part::Text => (2 * WORD, WORD),
            Part::Deque(_) | Part::HashMap(..) => (4 * WORD, WORD),
            Part::Array(inner, Len::Fixed(len)) => {
                let (size, align) = self.layout(inner);
                (size * len, align)
            }
            Part::Mutex(inner) => self.layout(inner),
            Part::Struct(index, arguments) => {
                let (mut end, mut align_max) = (0_usize, 1);
                for part in self.fields(*index, arguments) {
                    let (size, align) = self.layout(&part);
                    end = end.next_multiple_of(align) + size;
                    align_max = align.max(align_max);
                }
                (end.next_multiple_of(align_max), align_max)
            }
            Part::Array(_, Len::Parameter) | Part::Parameter => unreachable!("it is replaced"),
        }
    }
}
