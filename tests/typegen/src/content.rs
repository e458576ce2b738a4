//! Random content of types.

use crate::node::Node;
use crate::types::{Key, Len, Number, Part, Program, Value};
use fastrand::Rng;

/// Pointers on the way from the root to an object.
const POINTERS_MAX: u32 = 80;

/// Draws content for the types of a program.
#[derive(Debug)]
pub struct Content<'a> {
    /// The program.
    pub program: &'a Program,
    /// The source of all choices.
    pub random: &'a mut Rng,
    /// Pointers on the way to the object whose content is drawn.
    pointers: u32,
}

impl<'a> Content<'a> {
    /// Returns no content yet.
    pub fn new(program: &'a Program, random: &'a mut Rng) -> Content<'a> {
        Content { program, random, pointers: 0 }
    }

    /// Returns a value of the type.
    pub fn value(&mut self, value: &Value) -> Node {
        match value {
            Value::Number(number) => self.number(*number),
            Value::Bool => Node::leaf(self.random.bool()),
            Value::Char => Node::leaf(self.char()),
            Value::Option(inner) => {
                let is_some = self.random.bool();
                Node::List(is_some.then(|| self.value(inner)).into_iter().collect())
            }
            Value::Tuple(values) => Node::List(values.iter().map(|value| self.value(value)).collect()),
            Value::Array(inner, len) => Node::List((0..*len).map(|_| self.value(inner)).collect()),
            Value::Named(index, argument) => {
                let named = &self.program.values[*index];
                let variant = &named.variants[self.random.usize(..named.variants.len())];
                let mut fields = Vec::new();
                for field in &variant.fields {
                    fields.push(self.value(&field.value.with(argument.as_deref())));
                }
                if named.is_enum { Node::variant(&variant.name, fields) } else { Node::List(fields) }
            }
            Value::Parameter => Node::List(Vec::new()),
        }
    }

    fn number(&mut self, number: Number) -> Node {
        let bits = match self.random.u8(..4) {
            0 => 0,
            1 => u64::MAX >> self.random.u32(..64),
            2 => self.random.u64(..100),
            _ => self.random.u64(..),
        };
        match number {
            Number::U8 => Node::leaf(bits as u8),
            Number::U16 => Node::leaf(bits as u16),
            Number::U32 => Node::leaf(bits as u32),
            Number::U64 => Node::leaf(bits),
            Number::I8 => Node::leaf(bits as i8),
            Number::I16 => Node::leaf(bits as i16),
            Number::I32 => Node::leaf(bits as i32),
            Number::I64 => Node::leaf(bits as i64),
            Number::F32 => Node::leaf(f32::from(bits as i16) / 8.0),
            Number::F64 => Node::leaf(bits as i32 as f64 / 8.0),
        }
    }

    fn char(&mut self) -> char {
        match self.random.u8(..3) {
            0 => self.random.char('a'..='z'),
            1 => ['"', '\'', '\\', '\n', ' ', '\0', '{', '\u{301}'][self.random.usize(..8)],
            _ => self.random.char(..),
        }
    }

    fn text(&mut self) -> Node {
        let len = self.random.usize(..12);
        Node::leaf((0..len).map(|_| self.char()).collect::<String>())
    }

    fn key(&mut self, key: &Key) -> Node {
        match key {
            Key::Value(value) => self.value(value),
            Key::Text => self.text(),
            Key::Bytes => {
                let len = self.random.usize(..6);
                Node::List((0..len).map(|_| self.number(Number::U8)).collect())
            }
            Key::Tuple(keys) => Node::List(keys.iter().map(|key| self.key(key)).collect()),
        }
    }

    /// Returns values of the type.
    fn values(&mut self, value: &Value) -> Node {
        let len = self.random.usize(1..9);
        Node::List((0..len).map(|_| self.value(value)).collect())
    }

    /// Returns entries with different keys, each a pair of what the functions return.
    fn entries(&mut self, key: impl Fn(&mut Self) -> Node, value: impl Fn(&mut Self) -> Node) -> Node {
        let mut entries: Vec<Node> = Vec::new();
        for _ in 0..self.random.usize(1..7) {
            let key = key(self);
            if entries.iter().all(|entry| entry.list()[0] != key) {
                let value = value(self);
                entries.push(Node::List(vec![key, value]));
            }
        }
        Node::sorted(entries)
    }

    /// Returns content of the type without parameters, with about so many objects beside the one in which it lies. Without any,
    /// its pointers lead nowhere.
    pub fn part(&mut self, part: &Part, objects: usize) -> Node {
        let none = Node::List(Vec::new());
        match part {
            Part::Number(number) => self.number(*number),
            Part::Cell(value) => self.value(value),
            Part::Text if objects == 0 => Node::leaf(""),
            Part::Text => self.text(),
            Part::Array(part, len) => {
                let Len::Fixed(len) = *len else { return none };
                self.parts(&vec![(**part).clone(); len], objects)
            }
            Part::Mutex(part) => self.part(part, objects),
            Part::Struct(index, arguments) => self.parts(&self.program.fields(*index, arguments), objects),
            Part::Parameter => none,
            _ if objects == 0 || self.pointers == POINTERS_MAX || self.random.usize(..8 + objects) < 2 => {
                none
            }
            Part::Vec(value) | Part::Deque(value) => self.values(value),
            Part::HashMap(key, value) => self.entries(|this| this.value(key), |this| this.value(value)),
            Part::Map(key, value) => self.entries(|this| this.key(key), |this| this.value(value)),
            Part::Box(part) => self.targets(&[(**part).clone()], objects - 1),
            Part::Boxes(part) => {
                let len = self.random.usize(1..7 + objects / 4).min(objects);
                self.targets(&vec![(**part).clone(); len], objects - len)
            }
        }
    }

    /// Returns the list of content of objects.
    fn targets(&mut self, parts: &[Part], objects: usize) -> Node {
        self.pointers += 1;
        let nodes = self.parts(parts, objects);
        self.pointers -= 1;
        nodes
    }

    /// Returns the list of content of all these types, among which the objects are divided.
    fn parts(&mut self, parts: &[Part], objects: usize) -> Node {
        let has_pointer = |part: &Part| {
            !matches!(part, Part::Number(_) | Part::Cell(_)) && !is_array_without_pointers(part)
        };
        let mut sharing = parts.iter().filter(|part| has_pointer(part)).count();
        let mut left = objects;
        let mut nodes = Vec::new();
        for part in parts {
            let share = match has_pointer(part) {
                false => 0,
                true if sharing <= 1 => left,
                true => {
                    sharing -= 1;
                    // The first one gets little or nearly all, so that there are long lists.
                    let even = left / (sharing + 1);
                    [even, even / 2, left * 3 / 4][self.random.usize(..3)].max(usize::from(left > 0))
                }
            };
            left -= share.min(left);
            nodes.push(self.part(part, share));
        }
        Node::List(nodes)
    }
}

fn is_array_without_pointers(part: &Part) -> bool {
    matches!(part, Part::Array(inner, _) if matches!(**inner, Part::Number(_) | Part::Cell(_)))
}
