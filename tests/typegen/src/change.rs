//! Random changes of a program's types.

use crate::draw::Draw;
use crate::types::{Family, Len, NamedValue, Number, Part, Program, Struct, Value, Variant};

/// Versions of a program in a family.
const VERSIONS: usize = 3;
/// Longest tuple that a change makes.
const TUPLE_LEN_MAX: usize = 6;

impl Family {
    /// Returns the family of a seed.
    pub fn new(seed: u64) -> Family {
        let mut draw = Draw::new(seed);
        let mut family = Family { versions: vec![draw.program()] };
        while family.versions.len() < VERSIONS {
            let next = draw.changed(&family.versions[family.versions.len() - 1]);
            family.versions.push(next);
            if !family.is_changed() || family.goes_back() {
                family.versions.pop();
            }
        }
        family
    }

    /// Returns true if the last version differs from the one before it in a struct that both roots reach.
    fn is_changed(&self) -> bool {
        let last = self.versions.len() - 1;
        let (reached, _) = self.versions[last].reached();
        let (before, _) = self.versions[last - 1].reached();
        let mut both = reached.iter().filter(|index| before.contains(index));
        both.any(|index| !self.same_struct(*index, [last - 1, last]))
    }

    /// Returns true if a struct that had changed is again as it was: its objects of both ages are of one type.
    fn goes_back(&self) -> bool {
        let last = self.versions.len() - 1;
        let goes_back = |index: usize| {
            let same = |version: usize| self.same_struct(index, [version, last]);
            !same(last - 1) && (0..last - 1).any(same)
        };
        (0..self.versions[last].structs.len()).any(goes_back)
    }
}

impl Draw {
    /// Returns a program with some types changed.
    fn changed(&mut self, before: &Program) -> Program {
        let mut program = before.clone();
        for _ in 0..self.random.usize(2..7) {
            self.change(&mut program);
        }
        self.initials(&mut program);
        program
    }

    fn change(&mut self, program: &mut Program) {
        let (structs, values) = program.reached();
        let index = structs[self.random.usize(..structs.len())];
        match self.random.u8(..10) {
            0 => {
                let named = self.named_value(program);
                let argument = named.is_generic.then(|| Box::new(Value::Char));
                program.values.push(named);
                self.add_field(program, index, Part::Cell(Value::Named(program.values.len() - 1, argument)));
            }
            1 => {
                let new = program.structs.len();
                let mut signature = self.signature(new);
                (signature.parameter, signature.has_len, signature.has_brand) = (None, false, false);
                program.structs.push(signature);
                program.structs[new].fields = self.fields(program, new);
                self.add_field(program, index, Part::Boxes(Box::new(Part::plain_struct(new))));
            }
            2..5 if !values.is_empty() => {
                let index = values[self.random.usize(..values.len())];
                let mut named = program.values[index].clone();
                self.change_value(program, index, &mut named);
                program.values[index] = named;
            }
            _ => {
                let mut changed = program.structs[index].clone();
                self.change_struct(program, index, &mut changed);
                if changed.uses_parameters() && !changed.fields.is_empty() {
                    program.structs[index] = changed;
                }
            }
        }
    }

    /// Adds a field to a struct, if it may have it.
    fn add_field(&mut self, program: &mut Program, index: usize, part: Part) {
        if program.structs[index].may_have(&part) {
            let field = self.field(part);
            let fields = &mut program.structs[index].fields;
            let at = self.random.usize(..=fields.len());
            fields.insert(at, field);
        }
    }

    fn change_struct(&mut self, program: &Program, index: usize, changed: &mut Struct) {
        let at = self.random.usize(..changed.fields.len());
        match self.random.u8(..12) {
            0..3 => {
                let part = self.field_part(program, index);
                let field = self.field(part);
                changed.fields.insert(at, field);
            }
            3 => drop(changed.fields.remove(at)),
            4 if index > 0 => drop(changed.fields.remove(at)),
            5 => {
                let field = changed.fields.remove(at);
                changed.fields.insert(self.random.usize(..=changed.fields.len()), field);
            }
            6 => changed.fields[at].name = format!("g{}", self.id()),
            7 => changed.name = format!("Renamed{}", self.id()),
            // No pointer names the root.
            8 if index == 0 => {
                changed.name = format!("Root{}", self.id());
                changed.stored_name.clone_from(&changed.name);
            }
            _ => {
                let part = changed.fields[at].part.clone();
                let new = self.other_part(program, index, &part);
                let names_other_parameters = part.has_parameter() || new.has_parameter();
                if new != part && !names_other_parameters && changed.may_have(&new) {
                    changed.fields[at].part = new;
                }
            }
        }
    }

    /// Returns another type, often one whose content is made of that of the one before.
    fn other_part(&mut self, program: &Program, index: usize, part: &Part) -> Part {
        let other_value =
            |this: &mut Draw, value: &Value| this.other_value(program, program.values.len(), value);
        if self.one_in(6) {
            return self.field_part(program, index);
        }
        match part {
            Part::Number(number) if self.random.bool() => Part::Cell(Value::Number(*number)),
            Part::Number(_) => Part::Number(Number::ALL[self.random.usize(..Number::ALL.len())]),
            Part::Cell(Value::Number(number)) if self.random.bool() => Part::Number(*number),
            Part::Cell(value) => Part::Cell(other_value(self, value)),
            Part::Vec(value) => Part::Vec(other_value(self, value)),
            Part::Deque(value) => Part::Deque(other_value(self, value)),
            Part::HashMap(key, value) if self.random.bool() => {
                Part::HashMap(other_value(self, key), value.clone())
            }
            Part::HashMap(key, value) => Part::HashMap(key.clone(), other_value(self, value)),
            Part::Map(key, value) => Part::Map(key.clone(), other_value(self, value)),
            Part::Array(inner, _) if self.random.bool() => {
                Part::Array(inner.clone(), Len::Fixed(self.random.usize(1..5)))
            }
            Part::Array(inner, len) => Part::Array(Box::new(self.other_part(program, index, inner)), *len),
            Part::Mutex(inner) if self.random.bool() => (**inner).clone(),
            Part::Mutex(inner) => Part::Mutex(Box::new(self.other_part(program, index, inner))),
            Part::Box(target) if self.random.bool() => Part::Boxes(target.clone()),
            Part::Box(_) => Part::Box(Box::new(self.target(program))),
            Part::Struct(..) => Part::Mutex(Box::new(part.clone())),
            _ => self.field_part(program, index),
        }
    }

    /// Returns another type of values, often one whose values are made of those of the one before.
    fn other_value(&mut self, program: &Program, below: usize, value: &Value) -> Value {
        let inner = |this: &mut Draw, value: &Value| Box::new(this.other_value(program, below, value));
        match (value, self.random.u8(..6)) {
            (_, 0) => Value::Option(Box::new(value.clone())),
            (_, 1) => self.value(below, program, 1),
            (Value::Number(number), 2..5) => {
                let same_size = |other: &&Number| other.size() == number.size() && *other != number;
                let same_size: Vec<&Number> = Number::ALL.iter().filter(same_size).collect();
                Value::Number(*same_size[self.random.usize(..same_size.len())])
            }
            (Value::Bool, 2) => Value::Number(Number::U8),
            (Value::Char, 2) => Value::Number(Number::U32),
            (Value::Number(_) | Value::Bool | Value::Char, _) => {
                Value::Number(Number::ALL[self.random.usize(..Number::ALL.len())])
            }
            (Value::Option(value), 2) => (**value).clone(),
            (Value::Option(value), _) => Value::Option(inner(self, value)),
            (Value::Tuple(values), 2) if values.len() < TUPLE_LEN_MAX => {
                let more = self.value(below, program, 1);
                Value::Tuple(values.iter().cloned().chain([more]).collect())
            }
            (Value::Tuple(values), 3) if values.len() > 1 => Value::Tuple(values[1..].to_vec()),
            (Value::Tuple(values), _) if !values.is_empty() => {
                let mut values = values.clone();
                let at = self.random.usize(..values.len());
                values[at] = self.other_value(program, below, &values[at]);
                Value::Tuple(values)
            }
            (Value::Array(value, _), 2 | 3) => Value::Array(value.clone(), self.random.usize(1..5)),
            (Value::Array(value, len), _) => Value::Array(inner(self, value), *len),
            (Value::Named(index, Some(argument)), _) => Value::Named(*index, Some(inner(self, argument))),
            (Value::Tuple(_) | Value::Named(_, None) | Value::Parameter, _) => value.clone(),
        }
    }

    fn change_value(&mut self, program: &Program, index: usize, named: &mut NamedValue) {
        let count = named.variants.len();
        let at = self.random.usize(..count);
        match self.random.u8(..8) {
            0..3 if named.is_enum => {
                let fields = if named.has_fields() { self.random.usize(..3) } else { 0 };
                let mut variant = self.variant(program, index, fields);
                let is_taken = |tag: u8| named.variants.iter().any(|variant| variant.tag == tag);
                variant.tag = (0..=u8::MAX).find(|tag| !is_taken(*tag)).unwrap_or_default();
                let at = if self.random.bool() { count } else { at };
                named.variants.insert(at, variant);
            }
            3 if named.is_enum && !named.is_generic && count > 1 => drop(named.variants.remove(at)),
            4 => named.name = format!("Renamed{}", self.id()),
            _ => self.change_fields(program, index, named.is_enum, &mut named.variants[at]),
        }
        if named.is_enum && named.has_fields() {
            (0..).zip(&mut named.variants).for_each(|(tag, variant)| variant.tag = tag);
        }
    }

    fn change_fields(&mut self, program: &Program, index: usize, is_enum: bool, variant: &mut Variant) {
        let fields = &mut variant.fields;
        let choice = self.random.u8(..5);
        if fields.is_empty() || choice == 0 {
            let value = self.value(index, program, 1);
            let field = self.value_field(value);
            fields.insert(self.random.usize(..=fields.len()), field);
            return;
        }
        let at = self.random.usize(..fields.len());
        let is_parameter = fields[at].value.has_parameter();
        match choice {
            1 if !is_parameter && (is_enum || fields.len() > 1) => drop(fields.remove(at)),
            2 if !variant.is_tuple => fields[at].name = format!("g{}", self.id()),
            3 => {
                let field = fields.remove(at);
                fields.insert(self.random.usize(..=fields.len()), field);
            }
            _ if !is_parameter => {
                let value = self.other_value(program, index, &fields[at].value);
                if value != fields[at].value {
                    fields[at].value = value;
                }
            }
            _ => {}
        }
    }
}
