//! Types of pools, as a generator draws them, and programs with such types.

use crate::node::Node;

/// A type of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// `u8`.
    U8,
    /// `u16`.
    U16,
    /// `u32`.
    U32,
    /// `u64`.
    U64,
    /// `i8`.
    I8,
    /// `i16`.
    I16,
    /// `i32`.
    I32,
    /// `i64`.
    I64,
    /// `f32`.
    F32,
    /// `f64`.
    F64,
}

impl Number {
    /// All of them; the integers are first.
    pub const ALL: [Number; 10] = {
        use Number::{F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
        [U8, U16, U32, U64, I8, I16, I32, I64, F32, F64]
    };
    /// Number of integer types in [`ALL`](Number::ALL).
    pub const INTEGERS: usize = 8;

    /// Returns the name in Rust.
    pub fn name(self) -> &'static str {
        ["u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f32", "f64"][self as usize]
    }

    /// Returns the size in bytes.
    pub fn size(self) -> usize {
        [1, 2, 4, 8, 1, 2, 4, 8, 4, 8][self as usize]
    }

    /// Returns true for integers.
    pub fn is_integer(self) -> bool {
        (self as usize) < Number::INTEGERS
    }
}

/// A type of values, which cells hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(Number),
    /// `bool`.
    Bool,
    /// `char`.
    Char,
    /// `Option`.
    Option(Box<Value>),
    /// A tuple.
    Tuple(Vec<Value>),
    /// An array, and its length.
    Array(Box<Value>, usize),
    /// A struct or enum of the program by its index, and its parameter.
    Named(usize, Option<Box<Value>>),
    /// The parameter of the type that has it.
    Parameter,
}

/// A type of keys of sorted maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// An integer, `bool`, `char` or array of bytes.
    Value(Value),
    /// `String`.
    Text,
    /// `Vec<u8>`.
    Bytes,
    /// A tuple.
    Tuple(Vec<Key>),
}

/// The length of an array of persistent parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Len {
    /// A number.
    Fixed(usize),
    /// The parameter `N` of the struct that has it.
    Parameter,
}

/// The arguments of a generic struct.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    /// The type `T`.
    pub part: Option<Box<Part>>,
    /// The length `N`.
    pub len: Option<usize>,
}

/// A persistent type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A number.
    Number(Number),
    /// `PCell`.
    Cell(Value),
    /// `PVec` of values.
    Vec(Value),
    /// `PDeque`.
    Deque(Value),
    /// `PString`.
    Text,
    /// `PHashMap`.
    HashMap(Value, Value),
    /// `PMap`.
    Map(Key, Value),
    /// An array.
    Array(Box<Part>, Len),
    /// `PMutex`.
    Mutex(Box<Part>),
    /// `PBox`.
    Box(Box<Part>),
    /// `PVec` of `PBox`.
    Boxes(Box<Part>),
    /// A struct of the program by its index.
    Struct(usize, Arguments),
    /// The parameter `T` of the struct that has it.
    Parameter,
}

/// A field of a value.
#[derive(Clone, Debug)]
pub struct ValueField {
    /// The field is the same in all versions of the program in which it has this number.
    pub id: u32,
    /// Its name, if the others have names, too.
    pub name: String,
    /// Its type.
    pub value: Value,
    /// Its content in a value that had no such field before.
    pub initial: Node,
}

/// A variant of an enum, or the fields of a struct.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The variant is the same in all versions of the program in which it has this number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The byte that names it.
    pub tag: u8,
    /// True if its fields have no names.
    pub is_tuple: bool,
    /// Its fields.
    pub fields: Vec<ValueField>,
}

/// A struct or enum of values.
#[derive(Clone, Debug)]
pub struct NamedValue {
    /// Its name in the program.
    pub name: String,
    /// Its name on the medium.
    pub stored_name: String,
    /// True for an enum; a struct has one variant.
    pub is_enum: bool,
    /// True if it has a parameter `T`.
    pub is_generic: bool,
    /// Its variants.
    pub variants: Vec<Variant>,
}

/// A field of a persistent struct.
#[derive(Clone, Debug)]
pub struct Field {
    /// The field is the same in all versions of the program in which it has this number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its type.
    pub part: Part,
    /// Its content in an object that had no such field before: no pointer of it leads anywhere.
    pub initial: Node,
}

/// The place of a generic struct's parameter `T`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// In itself. The types of such parameters never change.
    Inline,
    /// At the other end of pointers.
    Pointee,
}

/// A persistent struct.
#[derive(Clone, Debug)]
pub struct Struct {
    /// Its name in the program.
    pub name: String,
    /// Its name on the medium.
    pub stored_name: String,
    /// Its parameter `T`.
    pub parameter: Option<Use>,
    /// True if it has a parameter `N`.
    pub has_len: bool,
    /// True if its brand is a parameter.
    pub has_brand: bool,
    /// Its fields.
    pub fields: Vec<Field>,
}

/// The types of a program. The root is the first struct, and no pointer leads to it.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Structs and enums of values. Each has only those before it in it.
    pub values: Vec<NamedValue>,
    /// Persistent structs. Each has only those after it in it, and leads to any.
    pub structs: Vec<Struct>,
    /// True if a mutex guards the root.
    pub is_guarded: bool,
}

/// Versions of a program, the oldest first. An index names the same type in all of them.
#[derive(Clone, Debug)]
pub struct Family {
    /// The versions.
    pub versions: Vec<Program>,
}

impl Value {
    /// Returns the type with `argument` in place of the parameter.
    pub fn with(&self, argument: Option<&Value>) -> Value {
        let with = |value: &Value| Box::new(value.with(argument));
        match self {
            Value::Parameter => argument.cloned().unwrap_or(Value::Parameter),
            Value::Option(value) => Value::Option(with(value)),
            Value::Tuple(values) => Value::Tuple(values.iter().map(|value| value.with(argument)).collect()),
            Value::Array(value, len) => Value::Array(with(value), *len),
            Value::Named(index, inner) => Value::Named(*index, inner.as_deref().map(with)),
            Value::Number(_) | Value::Bool | Value::Char => self.clone(),
        }
    }

    /// Returns true if `is` holds for the type, or one in it.
    pub fn any(&self, is: &dyn Fn(&Value) -> bool) -> bool {
        is(self)
            || match self {
                Value::Option(value) | Value::Array(value, _) => value.any(is),
                Value::Tuple(values) => values.iter().any(|value| value.any(is)),
                Value::Named(_, argument) => argument.as_ref().is_some_and(|value| value.any(is)),
                _ => false,
            }
    }

    /// Returns true if the type has a parameter in it.
    pub fn has_parameter(&self) -> bool {
        self.any(&|value| *value == Value::Parameter)
    }
}

impl Part {
    /// Returns the struct with this index, without parameters.
    pub fn plain_struct(index: usize) -> Part {
        Part::Struct(index, Arguments::default())
    }

    /// Returns the type with the arguments in place of the parameters.
    pub fn with(&self, arguments: &Arguments) -> Part {
        let with = |part: &Part| Box::new(part.with(arguments));
        match self {
            Part::Parameter => arguments.part.as_deref().cloned().unwrap_or(Part::Parameter),
            Part::Array(part, len) => {
                let len = match (len, arguments.len) {
                    (Len::Parameter, Some(len)) => Len::Fixed(len),
                    _ => *len,
                };
                Part::Array(with(part), len)
            }
            Part::Mutex(part) => Part::Mutex(with(part)),
            Part::Box(part) => Part::Box(with(part)),
            Part::Boxes(part) => Part::Boxes(with(part)),
            Part::Struct(index, inner) => {
                let part = inner.part.as_deref().map(with);
                Part::Struct(*index, Arguments { part, len: inner.len })
            }
            _ => self.clone(),
        }
    }

    /// Returns true if `is` holds for the type, or for one that lies in it or at the other end of its pointers by its name.
    pub fn any(&self, is: &dyn Fn(&Part) -> bool) -> bool {
        is(self)
            || match self {
                Part::Array(part, _) | Part::Mutex(part) | Part::Box(part) | Part::Boxes(part) => {
                    part.any(is)
                }
                Part::Struct(_, arguments) => arguments.part.as_ref().is_some_and(|part| part.any(is)),
                _ => false,
            }
    }

    /// Returns true if the type names a parameter of the struct that has it.
    pub fn has_parameter(&self) -> bool {
        self.any(&|part| matches!(part, Part::Parameter | Part::Array(_, Len::Parameter)))
    }

    /// Returns the types of values in the type itself, without those of a struct.
    pub fn values(&self) -> Vec<&Value> {
        match self {
            Part::Cell(value) | Part::Vec(value) | Part::Deque(value) | Part::Map(_, value) => vec![value],
            Part::HashMap(key, value) => vec![key, value],
            Part::Array(part, _) | Part::Mutex(part) => part.values(),
            _ => Vec::new(),
        }
    }

    /// Returns the indexes of the structs that lie in the type itself. The types of their parameters are of no effect: they lie at
    /// the other end of pointers, or never change.
    pub fn structs(&self) -> Vec<usize> {
        match self {
            Part::Array(part, _) | Part::Mutex(part) => part.structs(),
            Part::Struct(index, _) => vec![*index],
            _ => Vec::new(),
        }
    }
}

impl NamedValue {
    /// Returns true if a variant has fields.
    pub fn has_fields(&self) -> bool {
        self.variants.iter().any(|variant| !variant.fields.is_empty())
    }
}

impl Struct {
    /// Returns true if a field may have the type: structs of one brand are in none of any brand.
    pub fn may_have(&self, part: &Part) -> bool {
        !self.has_brand || !part.any(&|part| matches!(part, Part::Struct(..)))
    }

    /// Returns true if the fields use all parameters.
    pub fn uses_parameters(&self) -> bool {
        let has = |is: &dyn Fn(&Part) -> bool| self.fields.iter().any(|field| field.part.any(is));
        let has_pointer = || has(&|part| matches!(part, Part::Box(_) | Part::Boxes(_)));
        let is_struct = |part: &Part| matches!(part, Part::Struct(..));
        let is_parameter = |part: &Part| *part == Part::Parameter;
        // One that leads to the struct itself is not enough for the compiler.
        let mut parts = self.fields.iter().map(|field| &field.part);
        let has_parameter = parts.any(|part| part.any(&is_parameter) && !part.any(&is_struct));
        (self.parameter.is_none() || has_parameter)
            && (!self.has_len || has(&|part| matches!(part, Part::Array(_, Len::Parameter))))
            && (!self.has_brand || has_pointer())
    }
}

impl Variant {
    /// Returns the name of the field with this index.
    pub fn field_name(&self, index: usize) -> String {
        if self.is_tuple { index.to_string() } else { self.fields[index].name.clone() }
    }
}

impl Program {
    /// Returns the type of the root.
    pub fn root(&self) -> Part {
        let root = Part::plain_struct(0);
        if self.is_guarded { Part::Mutex(Box::new(root)) } else { root }
    }

    /// Returns the types of the fields of a struct with these arguments.
    pub fn fields(&self, index: usize, arguments: &Arguments) -> Vec<Part> {
        self.structs[index].fields.iter().map(|field| field.part.with(arguments)).collect()
    }

    /// Returns the indexes of the structs and of the named values to which the root leads.
    pub fn reached(&self) -> (Vec<usize>, Vec<usize>) {
        let (mut structs, mut values, mut open) = (Vec::new(), Vec::new(), vec![Part::plain_struct(0)]);
        while let Some(part) = open.pop() {
            part.values().into_iter().for_each(|value| self.reach_values(value, &mut values));
            match part {
                Part::Array(part, _) | Part::Mutex(part) | Part::Box(part) | Part::Boxes(part) => {
                    open.push(*part)
                }
                Part::Struct(index, arguments) => {
                    open.extend(arguments.part.map(|part| *part));
                    if !structs.contains(&index) {
                        structs.push(index);
                        open.extend(self.structs[index].fields.iter().map(|field| field.part.clone()));
                    }
                }
                _ => {}
            }
        }
        structs.sort_unstable();
        values.sort_unstable();
        (structs, values)
    }

    fn reach_values(&self, value: &Value, reached: &mut Vec<usize>) {
        match value {
            Value::Option(value) | Value::Array(value, _) => self.reach_values(value, reached),
            Value::Tuple(values) => values.iter().for_each(|value| self.reach_values(value, reached)),
            Value::Named(index, argument) => {
                argument.iter().for_each(|argument| self.reach_values(argument, reached));
                if !reached.contains(index) {
                    reached.push(*index);
                    let fields = self.values[*index].variants.iter().flat_map(|variant| &variant.fields);
                    fields.for_each(|field| self.reach_values(&field.value, reached));
                }
            }
            Value::Number(_) | Value::Bool | Value::Char | Value::Parameter => {}
        }
    }
}

impl Family {
    /// Returns true if a struct has the same layout in two versions.
    pub fn same_struct(&self, index: usize, [a, b]: [usize; 2]) -> bool {
        let of = |version: usize| self.versions[version].structs.get(index);
        let (Some(first), Some(second)) = (of(a), of(b)) else { return false };
        let fields = |structure: &'_ Struct| -> Vec<(u32, String, Part)> {
            structure.fields.iter().map(|field| (field.id, field.name.clone(), field.part.clone())).collect()
        };
        first.stored_name == second.stored_name
            && fields(first) == fields(second)
            && first.fields.iter().all(|field| self.same_part(&field.part, [a, b]))
    }

    /// Returns true if a type that both versions name has the same layout in them.
    pub fn same_part(&self, part: &Part, versions: [usize; 2]) -> bool {
        part.values().into_iter().all(|value| self.same_value(value, versions))
            && part.structs().into_iter().all(|index| self.same_struct(index, versions))
    }

    /// Returns true if a type of values that both versions name is the same in them.
    pub fn same_value(&self, value: &Value, versions: [usize; 2]) -> bool {
        !value.any(&|value| matches!(value, Value::Named(index, _) if !self.same_named(*index, versions)))
    }

    /// Returns true if a named type of values is the same in two versions.
    pub fn same_named(&self, index: usize, [a, b]: [usize; 2]) -> bool {
        let of = |version: usize| self.versions[version].values.get(index);
        let (Some(first), Some(second)) = (of(a), of(b)) else { return false };
        let mut fields = first.variants.iter().flat_map(|variant| &variant.fields);
        let is_same = |(a, b): (&Variant, &Variant)| {
            // A field without a name is known by its place.
            let fields = |variant: &Variant| -> Vec<(u32, String, Value)> {
                let id = |field: &ValueField| if variant.is_tuple { 0 } else { field.id };
                let fields = variant.fields.iter().enumerate();
                fields.map(|(at, field)| (id(field), variant.field_name(at), field.value.clone())).collect()
            };
            (a.id, a.tag) == (b.id, b.tag) && fields(a) == fields(b)
        };
        first.variants.len() == second.variants.len()
            && first.variants.iter().zip(&second.variants).all(is_same)
            && fields.all(|field| self.same_value(&field.value, [a, b]))
    }
}
