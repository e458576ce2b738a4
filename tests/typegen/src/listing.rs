//! The lines that `lode pool dump --typed` prints of content.

use crate::model::argument;
use crate::node::Node;
use crate::types::{Key, Len, Part, Program, Value, Variant};

/// Steps of a path that its text has, the last ones.
const STEPS_MAX: usize = 48;

/// The lines of a program's content.
#[derive(Debug)]
pub struct Listing<'a> {
    program: &'a Program,
    lines: Vec<String>,
}

/// The pointer by which an object is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    /// The type of the object that has it.
    owner: String,
    /// The way to it in that object.
    way: String,
    /// Number of such steps, one after the other.
    repeated: u32,
}

impl<'a> Listing<'a> {
    /// Returns the lines of the content of a root, sorted.
    pub fn of(program: &'a Program, root: &Node) -> Vec<String> {
        let mut listing = Listing { program, lines: Vec::new() };
        listing.object(&program.root(), root, &[]);
        listing.lines.sort();
        listing.lines
    }

    fn object(&mut self, part: &Part, node: &Node, steps: &[Step]) {
        let owner = self.program.stored_name(part);
        self.visit((&owner, steps), part, node, "");
    }

    /// Visits what lies in an object, which is known by its type and the way to it, at the way `at`.
    fn visit(&mut self, object: (&str, &[Step]), part: &Part, node: &Node, at: &str) {
        match part {
            Part::Array(inner, _) if self.is_value(inner) => {
                self.line(object, at, &self.part_text(part, node))
            }
            Part::Array(inner, _) => {
                for (index, node) in node.list().iter().enumerate() {
                    self.visit(object, inner, node, &format!("{at}[{index}]"));
                }
            }
            Part::Mutex(inner) => self.visit(object, inner, node, at),
            Part::Struct(index, arguments) => {
                let fields = &self.program.structs[*index].fields;
                for (field, node) in fields.iter().zip(node.list()) {
                    self.visit(object, &field.part.with(arguments), node, &format!("{at}.{}", field.name));
                }
            }
            Part::Number(_) | Part::Text => self.line(object, at, &self.part_text(part, node)),
            Part::Cell(value) => self.line(object, at, &self.value_text(value, node)),
            Part::Vec(value) | Part::Deque(value) => {
                for (index, node) in node.list().iter().enumerate() {
                    self.line(object, &format!("{at}[{index}]"), &self.value_text(value, node));
                }
            }
            Part::HashMap(key, value) => {
                self.entries(object, at, node, |this, node| this.value_text(key, node), value);
            }
            Part::Map(key, value) => self.entries(object, at, node, |_, node| key_text(key, node), value),
            Part::Box(target) => {
                for node in node.list() {
                    self.follow(object, at.to_owned(), target, node);
                }
            }
            Part::Boxes(target) => {
                for (index, node) in node.list().iter().enumerate() {
                    self.follow(object, format!("{at}[{index}]"), target, node);
                }
            }
            Part::Parameter => unreachable!("it is replaced"),
        }
    }

    fn entries(
        &mut self,
        object: (&str, &[Step]),
        at: &str,
        entries: &Node,
        key: impl Fn(&Self, &Node) -> String,
        value: &Value,
    ) {
        for entry in entries.list() {
            let [k, v] = [0, 1].map(|at| &entry.list()[at]);
            self.line(object, &format!("{at}[{}]", key(self, k)), &self.value_text(value, v));
        }
    }

    /// Visits the object to which the pointer at the way `way` leads.
    fn follow(&mut self, (owner, steps): (&str, &[Step]), way: String, target: &Part, node: &Node) {
        let mut steps = steps.to_vec();
        match steps.last_mut() {
            Some(last) if (last.owner.as_str(), &last.way) == (owner, &way) => last.repeated += 1,
            _ => steps.push(Step { owner: owner.to_owned(), way, repeated: 1 }),
        }
        self.object(target, node, &steps);
    }

    fn line(&mut self, (_, steps): (&str, &[Step]), at: &str, text: &str) {
        let mut line = self.program.structs[0].stored_name.clone();
        line += if steps.len() > STEPS_MAX { "..." } else { "" };
        for Step { way, repeated, .. } in &steps[steps.len().saturating_sub(STEPS_MAX)..] {
            line += way;
            line += &if *repeated > 1 { format!("{{{repeated}}}") } else { String::new() };
        }
        self.lines.push(format!("{line}{at} {text}"));
    }

    /// Returns true if arrays of the type are one value.
    fn is_value(&self, part: &Part) -> bool {
        match part {
            Part::Number(_) => true,
            Part::Array(inner, _) => self.is_value(inner),
            Part::Struct(index, arguments) => {
                self.program.fields(*index, arguments).iter().all(|part| self.is_value(part))
            }
            _ => false,
        }
    }

    /// Returns the text of a part that is a text or one value.
    fn part_text(&self, part: &Part, node: &Node) -> String {
        match part {
            Part::Text => format!("{:?}", node.text()),
            Part::Array(inner, _) => {
                let texts: Vec<String> = node.list().iter().map(|node| self.part_text(inner, node)).collect();
                format!("[{}]", texts.join(", "))
            }
            Part::Struct(index, arguments) => {
                let fields = &self.program.structs[*index].fields;
                let text = |(field, node): (&crate::types::Field, &Node)| {
                    format!("{}: {}", field.name, self.part_text(&field.part.with(arguments), node))
                };
                let texts: Vec<String> = fields.iter().zip(node.list()).map(text).collect();
                format!("{} {{ {} }}", self.program.stored_name(part), texts.join(", "))
            }
            _ => node.text().to_owned(),
        }
    }

    /// Returns a value as Rust writes it, but for floats, which need no point.
    fn value_text(&self, value: &Value, node: &Node) -> String {
        let all = |value: &Value| -> Vec<String> {
            node.list().iter().map(|node| self.value_text(value, node)).collect()
        };
        match value {
            Value::Number(_) | Value::Bool => node.text().to_owned(),
            Value::Char => char_text(node),
            Value::Option(inner) => match node.list().first() {
                Some(node) => format!("Some({})", self.value_text(inner, node)),
                None => "None".to_owned(),
            },
            Value::Tuple(values) => {
                let texts = values.iter().zip(node.list()).map(|(value, node)| self.value_text(value, node));
                tuple_text(&texts.collect::<Vec<_>>())
            }
            Value::Array(inner, _) => format!("[{}]", all(inner).join(", ")),
            Value::Named(index, _) => {
                let named = &self.program.values[*index];
                if !named.is_enum {
                    let name = self.program.stored_value_name(value);
                    return name + &self.fields_text(&named.variants[0], value, node.list());
                }
                let name = node.list()[0].text();
                let variant = named.variants.iter().find(|variant| variant.name == name);
                let variant = variant.unwrap_or_else(|| panic!("no variant {name}"));
                name.to_owned() + &self.fields_text(variant, value, &node.list()[1..])
            }
            Value::Parameter => unreachable!("it is replaced"),
        }
    }

    fn fields_text(&self, variant: &Variant, value: &Value, nodes: &[Node]) -> String {
        if nodes.is_empty() {
            return String::new();
        }
        let text = |(at, node): (usize, &Node)| {
            let field = &variant.fields[at];
            let text = self.value_text(&field.value.with(argument(value)), node);
            if variant.is_tuple { text } else { format!("{}: {text}", field.name) }
        };
        let texts: Vec<String> = nodes.iter().enumerate().map(text).collect();
        if variant.is_tuple {
            format!("({})", texts.join(", "))
        } else {
            format!(" {{ {} }}", texts.join(", "))
        }
    }
}

fn key_text(key: &Key, node: &Node) -> String {
    match key {
        Key::Value(Value::Char) => char_text(node),
        Key::Value(Value::Array(..)) => {
            let bytes: Vec<&str> = node.list().iter().map(Node::text).collect();
            format!("[{}]", bytes.join(", "))
        }
        Key::Value(_) => node.text().to_owned(),
        Key::Text => format!("{:?}", node.text()),
        Key::Bytes => {
            let byte = |node: &Node| node.text().parse::<u8>();
            let bytes: Vec<u8> = node.list().iter().filter_map(|node| byte(node).ok()).collect();
            format!("b\"{}\"", bytes.escape_ascii())
        }
        Key::Tuple(keys) => {
            let texts = keys.iter().zip(node.list()).map(|(key, node)| key_text(key, node));
            tuple_text(&texts.collect::<Vec<_>>())
        }
    }
}

fn char_text(node: &Node) -> String {
    node.text().chars().next().map_or(String::new(), |char| format!("{char:?}"))
}

fn tuple_text(texts: &[String]) -> String {
    if let [text] = texts { format!("({text},)") } else { format!("({})", texts.join(", ")) }
}

impl Program {
    /// Returns the name of a type on the medium.
    pub fn stored_name(&self, part: &Part) -> String {
        let value = |value: &Value| self.stored_value_name(value);
        match part {
            Part::Number(number) => number.name().to_owned(),
            Part::Cell(inner) => format!("PCell<{}>", value(inner)),
            Part::Vec(inner) => format!("PVec<{}>", value(inner)),
            Part::Deque(inner) => format!("PDeque<{}>", value(inner)),
            Part::Text => "PString".to_owned(),
            Part::HashMap(k, v) => format!("PHashMap<{}, {}>", value(k), value(v)),
            Part::Map(k, v) => format!("PMap<{}, {}>", self.stored_key_name(k), value(v)),
            Part::Array(inner, Len::Fixed(len)) => format!("[{}; {len}]", self.stored_name(inner)),
            Part::Array(inner, Len::Parameter) => format!("[{}; N]", self.stored_name(inner)),
            Part::Mutex(inner) => format!("PMutex<{}>", self.stored_name(inner)),
            Part::Box(inner) => format!("PBox<{}>", self.stored_name(inner)),
            Part::Boxes(inner) => format!("PVec<PBox<{}>>", self.stored_name(inner)),
            Part::Struct(index, arguments) => {
                let name = &self.structs[*index].stored_name;
                let part = arguments.part.as_ref().map(|part| self.stored_name(part));
                let len = arguments.len.map(|len| len.to_string());
                let all: Vec<String> = part.into_iter().chain(len).collect();
                if all.is_empty() { name.clone() } else { format!("{name}<{}>", all.join(", ")) }
            }
            Part::Parameter => "T".to_owned(),
        }
    }

    /// Returns the name of a type of values on the medium.
    pub fn stored_value_name(&self, value: &Value) -> String {
        match value {
            Value::Number(number) => number.name().to_owned(),
            Value::Bool => "bool".to_owned(),
            Value::Char => "char".to_owned(),
            Value::Option(inner) => format!("Option<{}>", self.stored_value_name(inner)),
            Value::Tuple(values) => {
                tuple_text(&values.iter().map(|value| self.stored_value_name(value)).collect::<Vec<_>>())
            }
            Value::Array(inner, len) => format!("[{}; {len}]", self.stored_value_name(inner)),
            Value::Named(index, argument) => {
                let name = self.values[*index].stored_name.clone();
                argument
                    .as_ref()
                    .map_or(name.clone(), |value| format!("{name}<{}>", self.stored_value_name(value)))
            }
            Value::Parameter => "T".to_owned(),
        }
    }

    fn stored_key_name(&self, key: &Key) -> String {
        match key {
            Key::Value(value) => self.stored_value_name(value),
            Key::Text => "String".to_owned(),
            Key::Bytes => "Vec<u8>".to_owned(),
            Key::Tuple(keys) => {
                tuple_text(&keys.iter().map(|key| self.stored_key_name(key)).collect::<Vec<_>>())
            }
        }
    }
}
