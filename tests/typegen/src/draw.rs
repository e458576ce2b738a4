//! Random types.

use crate::content::Content;
use crate::node::Node;
use crate::types::{
    Arguments, Field, Key, Len, NamedValue, Number, Part, Program, Struct, Use, Value, ValueField, Variant,
};
use fastrand::Rng;

/// Levels of types in types of values.
const VALUE_LEVELS: u32 = 2;
/// Levels of arrays and mutexes in a field.
const PART_LEVELS: u32 = 2;

/// Draws the types of a family.
#[derive(Debug)]
pub struct Draw {
    /// The source of all choices.
    pub random: Rng,
    /// The number of the next field or variant.
    next_id: u32,
}

impl Draw {
    /// Returns the choices of a seed.
    pub fn new(seed: u64) -> Draw {
        Draw { random: Rng::with_seed(seed), next_id: 0 }
    }

    /// Returns the types of a first program.
    pub fn program(&mut self) -> Program {
        let mut program = Program { is_guarded: self.random.u8(..3) == 0, ..Program::default() };
        for _ in 0..self.random.usize(2..5) {
            let named = self.named_value(&program);
            program.values.push(named);
        }
        let count = self.random.usize(3..7);
        program.structs = (0..count).map(|index| self.signature(index)).collect();
        for index in (0..count).rev() {
            program.structs[index].fields = self.fields(&program, index);
        }
        self.initials(&mut program);
        program
    }

    /// Draws the initial content of all fields of a program whose types are complete.
    pub fn initials(&mut self, program: &mut Program) {
        let types = program.clone();
        let mut content = Content::new(&types, &mut self.random);
        for field in
            program.values.iter_mut().flat_map(|named| &mut named.variants).flat_map(|of| &mut of.fields)
        {
            field.initial = content.value(&field.value);
        }
        for field in program.structs.iter_mut().flat_map(|structure| &mut structure.fields) {
            field.initial = content.part(&field.part, 0);
        }
    }

    /// Returns a number that no other field or variant of the family has.
    pub fn id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    /// Returns true once in `of` calls, on average.
    pub fn one_in(&mut self, of: u32) -> bool {
        self.random.u32(..of) == 0
    }

    /// Returns a type of values for those of the program that are complete.
    pub fn named_value(&mut self, program: &Program) -> NamedValue {
        let is_enum = self.random.u8(..3) > 0;
        let has_fields = !is_enum || self.random.u8(..3) > 0;
        let is_generic = has_fields && self.one_in(3);
        let count = if is_enum { self.random.usize(2..5) } else { 1 };
        let name = format!("Kind{}", program.values.len());
        let below = program.values.len();
        let mut variants: Vec<Variant> = (0..count)
            .map(|index| {
                let fields = match (is_enum, has_fields) {
                    (_, false) => 0,
                    (true, true) if index == 0 => 0,
                    (true, true) => self.random.usize(..3),
                    (false, true) => self.random.usize(1..4),
                };
                self.variant(program, below, fields)
            })
            .collect();
        if is_generic {
            let field = self.value_field(Value::Parameter);
            variants[count - 1].fields.push(field);
        }
        let mut named = NamedValue { stored_name: name.clone(), name, is_enum, is_generic, variants };
        self.number_variants(&mut named);
        named
    }

    /// Returns a variant with so many fields, in which are named types with indexes below a bound.
    pub fn variant(&mut self, program: &Program, below: usize, fields: usize) -> Variant {
        let id = self.id();
        let fields = (0..fields)
            .map(|_| {
                let value = self.value(below, program, VALUE_LEVELS);
                self.value_field(value)
            })
            .collect();
        Variant { id, name: format!("V{id}"), tag: 0, is_tuple: self.random.bool(), fields }
    }

    /// Gives variants their bytes: their numbers, or any for an enum without fields.
    pub fn number_variants(&mut self, named: &mut NamedValue) {
        let is_free = named.is_enum && !named.has_fields();
        let mut tag = 0;
        for variant in &mut named.variants {
            variant.tag = tag;
            tag += if is_free { self.random.u8(1..20) } else { 1 };
        }
    }

    /// Returns a new field of a value.
    pub fn value_field(&mut self, value: Value) -> ValueField {
        let id = self.id();
        ValueField { id, name: format!("f{id}"), value, initial: Node::List(Vec::new()) }
    }

    /// Returns a type of values, in which are named ones with indexes below a bound.
    pub fn value(&mut self, below: usize, program: &Program, levels: u32) -> Value {
        let inner = |this: &mut Draw| Box::new(this.value(below, program, levels - 1));
        match self.random.u8(..if levels == 0 { 6 } else { 14 }) {
            0..4 => Value::Number(Number::ALL[self.random.usize(..Number::ALL.len())]),
            4 => Value::Bool,
            5 => Value::Char,
            6 => Value::Option(inner(self)),
            7 => Value::Tuple((0..self.random.usize(..4)).map(|_| *inner(self)).collect()),
            8 => Value::Array(inner(self), self.random.usize(1..4)),
            _ if below == 0 => Value::Option(inner(self)),
            _ => {
                let index = self.random.usize(..below);
                let argument = program.values[index].is_generic.then(|| inner(self));
                Value::Named(index, argument)
            }
        }
    }

    /// Returns any type of values of the program.
    pub fn any_value(&mut self, program: &Program) -> Value {
        self.value(program.values.len(), program, VALUE_LEVELS)
    }

    fn key(&mut self, levels: u32) -> Key {
        match self.random.u8(..if levels == 0 { 5 } else { 6 }) {
            0 => Key::Value(Value::Number(Number::ALL[self.random.usize(..Number::INTEGERS)])),
            1 => Key::Value([Value::Bool, Value::Char][self.random.usize(..2)].clone()),
            2 => Key::Value(Value::Array(Box::new(Value::Number(Number::U8)), self.random.usize(1..4))),
            3 => Key::Text,
            4 => Key::Bytes,
            _ => Key::Tuple((0..self.random.usize(2..4)).map(|_| self.key(levels - 1)).collect()),
        }
    }

    /// Returns a struct without fields yet.
    pub fn signature(&mut self, index: usize) -> Struct {
        let parameter = match self.random.u8(..6) {
            0 if index > 0 => Some(Use::Inline),
            1 if index > 0 => Some(Use::Pointee),
            _ => None,
        };
        let name = if index == 0 { "Root".to_owned() } else { format!("Thing{index}") };
        let has_len = parameter.is_some() && self.random.bool();
        let has_brand = parameter.is_some() && self.random.bool();
        Struct { stored_name: name.clone(), name, parameter, has_len, has_brand, fields: Vec::new() }
    }

    /// Returns fields of a struct, whose own parameters are used.
    pub fn fields(&mut self, program: &Program, index: usize) -> Vec<Field> {
        let mut parts: Vec<Part> =
            (0..self.random.usize(1..5)).map(|_| self.field_part(program, index)).collect();
        if index == 0 {
            let first = self.random.usize(1..program.structs.len());
            parts.push(Part::Boxes(Box::new(self.structure(program, first))));
        }
        let Struct { parameter, has_len, .. } = program.structs[index];
        if let Some(parameter) = parameter {
            let of = match parameter {
                Use::Inline => Part::Parameter,
                Use::Pointee if self.random.bool() => Part::Box(Box::new(Part::Parameter)),
                Use::Pointee => Part::Boxes(Box::new(Part::Parameter)),
            };
            parts.push(if has_len { Part::Array(Box::new(of), Len::Parameter) } else { of });
            // It leads to itself, and has its brand.
            let arguments = Arguments { part: Some(Box::new(Part::Parameter)), len: has_len.then_some(1) };
            parts.push(Part::Box(Box::new(Part::Struct(index, arguments))));
        }
        self.random.shuffle(&mut parts);
        parts.into_iter().map(|part| self.field(part)).collect()
    }

    /// Returns a new field of a struct.
    pub fn field(&mut self, part: Part) -> Field {
        let id = self.id();
        Field { id, name: format!("f{id}"), part, initial: Node::List(Vec::new()) }
    }

    /// Returns a type of a field of the struct with an index.
    pub fn field_part(&mut self, program: &Program, index: usize) -> Part {
        loop {
            let part = self.part(program, index, PART_LEVELS);
            if program.structs[index].may_have(&part) {
                return part;
            }
        }
    }

    fn part(&mut self, program: &Program, index: usize, levels: u32) -> Part {
        match self.random.u8(..if levels == 0 { 16 } else { 21 }) {
            0 | 1 => Part::Number(Number::ALL[self.random.usize(..Number::ALL.len())]),
            2..5 => Part::Cell(self.any_value(program)),
            5 | 6 => Part::Vec(self.any_value(program)),
            7 => Part::Deque(self.any_value(program)),
            8 => Part::Text,
            9 => Part::HashMap(self.any_value(program), self.any_value(program)),
            10 => Part::Map(self.key(1), self.any_value(program)),
            11..14 => Part::Box(Box::new(self.target(program))),
            14 | 15 => Part::Boxes(Box::new(self.target(program))),
            16 => {
                let part = self.part(program, index, levels - 1);
                Part::Array(Box::new(part), Len::Fixed(self.random.usize(1..4)))
            }
            17 => Part::Mutex(Box::new(self.part(program, index, levels - 1))),
            _ if index + 1 < program.structs.len() => {
                let inner = self.random.usize(index + 1..program.structs.len());
                self.structure(program, inner)
            }
            _ => Part::Text,
        }
    }

    /// Returns a struct of the program with random arguments.
    fn structure(&mut self, program: &Program, index: usize) -> Part {
        let Struct { parameter, has_len, .. } = program.structs[index];
        let part = parameter.map(|parameter| match parameter {
            Use::Inline => self.constant_part(program),
            Use::Pointee => self.plain_target(program),
        });
        let len = has_len.then(|| self.random.usize(1..4));
        Part::Struct(index, Arguments { part: part.map(Box::new), len })
    }

    /// Returns a type to which a pointer may lead: objects of it can be converted, or it never changes.
    pub fn target(&mut self, program: &Program) -> Part {
        if self.one_in(5) {
            return self.constant_part(program);
        }
        let index = self.random.usize(1..program.structs.len());
        let part = self.structure(program, index);
        match self.random.u8(..8) {
            0 => Part::Array(Box::new(part), Len::Fixed(self.random.usize(1..4))),
            1 => Part::Mutex(Box::new(part)),
            _ => part,
        }
    }

    /// Returns a struct without parameters.
    fn plain_target(&mut self, program: &Program) -> Part {
        let plain = |index: &usize| program.structs[*index].parameter.is_none();
        let plain: Vec<usize> = (1..program.structs.len()).filter(plain).collect();
        match plain.is_empty() {
            true => Part::Text,
            false => Part::plain_struct(plain[self.random.usize(..plain.len())]),
        }
    }

    /// Returns a type that no version of the program changes.
    fn constant_part(&mut self, program: &Program) -> Part {
        match self.random.u8(..6) {
            0 => Part::Number(Number::ALL[self.random.usize(..Number::ALL.len())]),
            1 => Part::Cell(self.value(0, program, 1)),
            2 => Part::Text,
            3 => Part::Vec(self.value(0, program, 1)),
            4 => Part::Box(Box::new(self.plain_target(program))),
            _ => Part::Boxes(Box::new(self.plain_target(program))),
        }
    }
}
