//! The rules by which the content of one version becomes that of the next.

use crate::node::Node;
use crate::types::{Family, Len, Number, Part, Program, Value, Variant};

/// A step from a version to the next.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The versions.
    pub family: &'a Family,
    /// Index of the older version.
    pub from: usize,
}

/// The origin of the content of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartRule<'a> {
    /// All of the old field, and the objects that it owns.
    Same,
    /// The old number, as `as` converts it.
    Cast(Number),
    /// The old number, in a cell.
    IntoCell,
    /// The number in the old cell.
    OutOfCell,
    /// The value in the old cell, which becomes another one.
    Cell(&'a Value, &'a Value),
    /// The old elements, whose bytes are values of the new type.
    Recast,
    /// The elements of the old array; more elements are initial ones.
    Array([(&'a Part, usize); 2]),
    /// The content of the old mutex.
    Mutexes(&'a Part, &'a Part),
    /// The old field, in a mutex.
    Locked(&'a Part),
    /// The content of the old mutex, without one.
    Unlocked(&'a Part),
    /// The old struct, which becomes that of the new version.
    Struct,
    /// The initial content. The old field is freed with all that it owns.
    Initial,
}

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueRule<'a> {
    /// The old value.
    Same,
    /// The old number, `bool` or `char`, as `as` converts it.
    Cast(Number),
    /// The old optional value.
    Option(&'a Value, &'a Value),
    /// The old value, in an option.
    Some(&'a Value),
    /// The old value in the option, or else the initial one.
    Unwrapped(&'a Value),
    /// The values of the old tuple; more values are initial ones.
    Tuple(&'a [Value], &'a [Value]),
    /// The values of the old array; more values are initial ones.
    Array([(&'a Value, usize); 2]),
    /// The variant or struct with this index, field by field.
    Named(usize),
    /// The initial value.
    Initial,
}

impl<'a> Step<'a> {
    /// Returns the older program.
    pub fn before(&self) -> &'a Program {
        &self.family.versions[self.from]
    }

    /// Returns the newer program.
    pub fn after(&self) -> &'a Program {
        &self.family.versions[self.from + 1]
    }

    fn versions(&self) -> [usize; 2] {
        [self.from, self.from + 1]
    }

    /// Returns the origin of a field's content.
    pub fn part_rule<'p>(&self, old: &'p Part, new: &'p Part) -> PartRule<'p> {
        match (old, new) {
            _ if old == new && self.family.same_part(old, self.versions()) => PartRule::Same,
            (Part::Number(_), Part::Number(number)) => PartRule::Cast(*number),
            (Part::Number(a), Part::Cell(Value::Number(b))) if a == b => PartRule::IntoCell,
            (Part::Cell(Value::Number(a)), Part::Number(b)) if a == b => PartRule::OutOfCell,
            (Part::Cell(a), Part::Cell(b)) => PartRule::Cell(a, b),
            (Part::Vec(a), Part::Vec(b)) | (Part::Deque(a), Part::Deque(b)) if self.recasts(a, b) => {
                PartRule::Recast
            }
            (Part::HashMap(a, b), Part::HashMap(c, d)) if self.recasts(a, c) && self.recasts(b, d) => {
                PartRule::Recast
            }
            (Part::Map(a, b), Part::Map(c, d)) if a == c && self.recasts(b, d) => PartRule::Recast,
            (Part::Array(a, Len::Fixed(n)), Part::Array(b, Len::Fixed(m))) => {
                PartRule::Array([(a, *n), (b, *m)])
            }
            (Part::Mutex(a), Part::Mutex(b)) => PartRule::Mutexes(a, b),
            (_, Part::Mutex(new)) => PartRule::Locked(new),
            (Part::Mutex(old), _) => PartRule::Unlocked(old),
            (Part::Struct(..), Part::Struct(..)) if old == new => PartRule::Struct,
            _ => PartRule::Initial,
        }
    }

    /// Returns the origin of a value.
    pub fn value_rule<'v>(&self, old: &'v Value, new: &'v Value) -> ValueRule<'v> {
        match (old, new) {
            _ if old == new && self.family.same_value(old, self.versions()) => ValueRule::Same,
            (Value::Number(_) | Value::Bool | Value::Char, Value::Number(number)) => ValueRule::Cast(*number),
            (Value::Option(a), Value::Option(b)) => ValueRule::Option(a, b),
            (_, Value::Option(new)) => ValueRule::Some(new),
            (Value::Option(old), _) => ValueRule::Unwrapped(old),
            (Value::Tuple(a), Value::Tuple(b)) => ValueRule::Tuple(a, b),
            (Value::Array(a, n), Value::Array(b, m)) => ValueRule::Array([(a, *n), (b, *m)]),
            (Value::Named(a, _), Value::Named(b, _)) if a == b => ValueRule::Named(*a),
            _ => ValueRule::Initial,
        }
    }

    /// Returns the index of the variant that a variant of a named value becomes; `None` if it is gone, and the first one takes its
    /// place.
    pub fn variant(&self, index: usize, old: &Variant) -> Option<usize> {
        self.after().values[index].variants.iter().position(|new| new.id == old.id)
    }

    /// Returns true if the bytes of each old value are a value of the new type.
    pub fn recasts(&self, old: &Value, new: &Value) -> bool {
        let is_same_size = self.before().size(old) == self.after().size(new);
        is_same_size
            && match (old, new) {
                _ if old == new && self.family.same_value(old, self.versions()) => true,
                (Value::Number(a), Value::Number(b)) => a.is_integer() && b.is_integer(),
                (Value::Bool, Value::Number(number)) => number.is_integer(),
                (Value::Char, Value::Number(number)) => number.is_integer(),
                (Value::Option(a), Value::Option(b)) => self.recasts(a, b),
                (Value::Array(a, n), Value::Array(b, m)) => n == m && self.recasts(a, b),
                (Value::Tuple(a), Value::Tuple(b)) => {
                    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.recasts(a, b))
                }
                (Value::Named(a, c), Value::Named(b, d)) if a == b => {
                    let arguments = [c.as_deref(), d.as_deref()];
                    let old = &self.before().values[*a].variants;
                    old.iter().all(|variant| self.recasts_variant(*a, variant, arguments))
                }
                _ => false,
            }
    }

    fn recasts_variant(&self, index: usize, old: &Variant, [a, b]: [Option<&Value>; 2]) -> bool {
        let Some(new) = self.variant(index, old).map(|at| &self.after().values[index].variants[at]) else {
            return false;
        };
        let mut fields = old.fields.iter().zip(&new.fields);
        old.tag == new.tag
            && old.fields.len() == new.fields.len()
            && fields
                .all(|(old, new)| old.id == new.id && self.recasts(&old.value.with(a), &new.value.with(b)))
    }
}

impl Program {
    /// Returns the bytes that a value takes on the medium.
    pub fn size(&self, value: &Value) -> usize {
        match value {
            Value::Number(number) => number.size(),
            Value::Bool => 1,
            Value::Char => 4,
            Value::Option(value) => 1 + self.size(value),
            Value::Tuple(values) => values.iter().map(|value| self.size(value)).sum(),
            Value::Array(value, len) => self.size(value) * len,
            Value::Named(index, argument) => {
                let named = &self.values[*index];
                let fields = |variant: &Variant| -> usize {
                    let fields = variant.fields.iter();
                    fields.map(|field| self.size(&field.value.with(argument.as_deref()))).sum()
                };
                usize::from(named.is_enum) + named.variants.iter().map(fields).max().unwrap_or(0)
            }
            Value::Parameter => 0,
        }
    }

    /// Returns the value that stands for one that no other says.
    pub fn zero(&self, value: &Value) -> Node {
        match value {
            Value::Number(_) => Node::leaf(0),
            Value::Bool => Node::leaf(false),
            Value::Char => Node::leaf('a'),
            Value::Option(_) | Value::Parameter => Node::List(Vec::new()),
            Value::Tuple(values) => Node::List(values.iter().map(|value| self.zero(value)).collect()),
            Value::Array(value, len) => Node::List(vec![self.zero(value); *len]),
            Value::Named(index, argument) => {
                let named = &self.values[*index];
                let first = &named.variants[0];
                let fields = first.fields.iter();
                let fields: Vec<Node> =
                    fields.map(|field| self.zero(&field.value.with(argument.as_deref()))).collect();
                if named.is_enum { Node::variant(&first.name, fields) } else { Node::List(fields) }
            }
        }
    }
}
