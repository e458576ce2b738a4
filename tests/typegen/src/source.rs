//! The programs of a family, as Rust.

use crate::model::argument;
use crate::node::Node;
use crate::step::{PartRule, Step, ValueRule};
use crate::types::{
    Arguments, Family, Field, Key, Len, NamedValue, Part, Program, Struct, Value, ValueField, Variant,
};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Writes the module of one program.
#[derive(Debug)]
pub struct Source<'a> {
    family: &'a Family,
    /// The version of the program.
    version: usize,
    text: String,
    /// Functions that convert values, by the types from and to which they do: the name of each, and all of it.
    conversions: BTreeMap<[String; 2], (String, String)>,
}

impl<'a> Source<'a> {
    /// Returns the content of a module for a version of the program, which converts the objects of all versions before it.
    pub fn program(family: &'a Family, version: usize) -> String {
        let mut source = Source { family, version, text: String::new(), conversions: BTreeMap::new() };
        for (index, named) in source.now().values.iter().enumerate() {
            source.value(index, named, version);
            source.value_content(named);
        }
        for (index, structure) in source.now().structs.iter().enumerate() {
            source.structure(index, structure, version, true);
            source.stored(structure);
        }
        for older in (0..version).rev() {
            source.older(older);
        }
        source.root();
        for (_, body) in source.conversions.values() {
            source.text += body;
        }
        source.text
    }

    /// Returns the content of a module with the types of a version alone.
    pub fn types(family: &'a Family, version: usize) -> String {
        let mut source = Source { family, version, text: String::new(), conversions: BTreeMap::new() };
        for (index, named) in source.now().values.iter().enumerate() {
            source.value(index, named, version);
        }
        for (index, structure) in source.now().structs.iter().enumerate() {
            source.structure(index, structure, version, false);
        }
        source.root();
        source.text
    }

    fn now(&self) -> &'a Program {
        &self.family.versions[self.version]
    }

    fn root(&mut self) {
        let root = self.part_type(&self.now().root(), self.version, BRAND);
        let _ = writeln!(self.text, "pub(crate) type RootObject = {root};");
    }

    /// Writes the types of a version that are of another layout in the next one.
    fn older(&mut self, version: usize) {
        let program = &self.family.versions[version];
        for (index, named) in program.values.iter().enumerate() {
            if !self.family.same_named(index, [version, version + 1]) {
                self.value(index, named, version);
            }
        }
        for (index, structure) in program.structs.iter().enumerate() {
            if !self.family.same_struct(index, [version, version + 1]) {
                self.structure(index, structure, version, true);
            }
        }
    }

    /// Returns the first version from which on a struct has had its layout up to `version`.
    fn struct_since(&self, index: usize, version: usize) -> usize {
        let is_same = |version: &usize| self.family.same_struct(index, [version - 1, *version]);
        version - (1..=version).rev().take_while(is_same).count()
    }

    fn value_since(&self, index: usize, version: usize) -> usize {
        let is_same = |version: &usize| self.family.same_named(index, [version - 1, *version]);
        version - (1..=version).rev().take_while(is_same).count()
    }

    /// Returns the name of a struct of a version in this program.
    fn struct_name(&self, index: usize, version: usize) -> String {
        match self.struct_since(index, version) {
            since if since == self.struct_since(index, self.version) => {
                self.now().structs[index].name.clone()
            }
            since => format!("{}V{since}", self.family.versions[since].structs[index].name),
        }
    }

    fn value_name(&self, index: usize, version: usize) -> String {
        match self.value_since(index, version) {
            since if since == self.value_since(index, self.version) => self.now().values[index].name.clone(),
            since => format!("{}V{since}", self.family.versions[since].values[index].name),
        }
    }

    fn value_type(&self, value: &Value, version: usize) -> String {
        let of = |value: &Value| self.value_type(value, version);
        match value {
            Value::Number(number) => number.name().to_owned(),
            Value::Bool => "bool".to_owned(),
            Value::Char => "char".to_owned(),
            Value::Option(inner) => format!("Option<{}>", of(inner)),
            Value::Tuple(values) => tuple(values.iter().map(of)),
            Value::Array(inner, len) => format!("[{}; {len}]", of(inner)),
            Value::Named(index, argument) => {
                let argument = argument.as_ref().map_or(String::new(), |value| format!("<{}>", of(value)));
                self.value_name(*index, version) + &argument
            }
            Value::Parameter => "T".to_owned(),
        }
    }

    /// Returns a type of a version. Pointers lead to the types of this program.
    fn part_type(&self, part: &Part, version: usize, brand: &str) -> String {
        let of = |part: &Part| self.part_type(part, version, brand);
        let target = |part: &Part| self.part_type(part, self.version, brand);
        let value = |value: &Value| self.value_type(value, version);
        match part {
            Part::Number(number) => number.name().to_owned(),
            Part::Cell(inner) => format!("PCell<{}, {brand}>", value(inner)),
            Part::Vec(inner) => format!("PVec<{}, {brand}>", value(inner)),
            Part::Deque(inner) => format!("PDeque<{}, {brand}>", value(inner)),
            Part::Text => format!("PString<{brand}>"),
            Part::HashMap(k, v) => format!("PHashMap<{}, {}, {brand}>", value(k), value(v)),
            Part::Map(k, v) => format!("PMap<{}, {}, {brand}>", self.key_type(k), value(v)),
            Part::Array(inner, Len::Fixed(len)) => format!("[{}; {len}]", of(inner)),
            Part::Array(inner, Len::Parameter) => format!("[{}; N]", of(inner)),
            Part::Mutex(inner) => format!("PMutex<{}, {brand}>", of(inner)),
            Part::Box(inner) => format!("PBox<{}, {brand}>", target(inner)),
            Part::Boxes(inner) => format!("PVec<PBox<{}, {brand}>, {brand}>", target(inner)),
            Part::Struct(index, Arguments { part, len }) => {
                let has_brand = self.family.versions[version].structs[*index].has_brand;
                let brand = has_brand.then(|| brand.to_owned());
                // Types of values in it never change.
                let part = part.as_ref().map(|part| target(part));
                let all = part.into_iter().chain(brand).chain(len.map(|len| len.to_string()));
                self.struct_name(*index, version) + &bracketed(all)
            }
            Part::Parameter => "T".to_owned(),
        }
    }

    fn key_type(&self, key: &Key) -> String {
        match key {
            Key::Value(value) => self.value_type(value, self.version),
            Key::Text => "String".to_owned(),
            Key::Bytes => "Vec<u8>".to_owned(),
            Key::Tuple(keys) => {
                let keys: Vec<String> = keys.iter().map(|key| self.key_type(key)).collect();
                format!("({})", keys.join(", "))
            }
        }
    }

    /// Writes a struct or enum of values.
    fn value(&mut self, index: usize, named: &NamedValue, version: usize) {
        let name = self.value_name(index, version);
        let _ = writeln!(self.text, "#[derive(CellValue, Clone, Copy)]");
        let mut attributes = EXPORTER.to_owned();
        if name != named.stored_name {
            let _ = write!(attributes, ", name = \"{}\"", named.stored_name);
        }
        let _ = writeln!(self.text, "#[persist({attributes})]");
        let generics = if named.is_generic { "<T>" } else { "" };
        let fields = |variant: &Variant| -> String {
            let field = |field: &ValueField| {
                let name = if variant.is_tuple { String::new() } else { format!("{}: ", field.name) };
                name + &self.value_type(&field.value, version)
            };
            let fields: Vec<String> = variant.fields.iter().map(field).collect();
            if variant.is_tuple {
                format!("({})", fields.join(", "))
            } else {
                format!(" {{ {} }}", fields.join(", "))
            }
        };
        if !named.is_enum {
            let variant = &named.variants[0];
            let end = if variant.is_tuple { ";" } else { "" };
            let text = format!("pub(crate) struct {name}{generics}{}{end}\n", fields(variant));
            self.text += &text;
            return;
        }
        let tagged = !named.has_fields();
        let variant = |variant: &Variant| match (variant.fields.is_empty(), tagged) {
            (_, true) => format!("{} = {}", variant.name, variant.tag),
            (true, false) => variant.name.clone(),
            (false, false) => variant.name.clone() + &fields(variant),
        };
        let variants: Vec<String> = named.variants.iter().map(variant).collect();
        let _ = writeln!(self.text, "pub(crate) enum {name}{generics} {{ {} }}", variants.join(", "));
    }

    /// Writes how a value is made of a node, and a node of a value.
    fn value_content(&mut self, named: &NamedValue) {
        let (bound, generics) = if named.is_generic { ("<T: Content>", "<T>") } else { ("", "") };
        let (mut made, mut read) = (String::new(), String::new());
        for variant in &named.variants {
            let path = if named.is_enum { format!("Self::{}", variant.name) } else { "Self".to_owned() };
            let names: Vec<String> = (0..variant.fields.len()).map(|at| variant.field_name(at)).collect();
            let make = names.iter().enumerate();
            let make = make.map(|(at, name)| format!("{name}: Content::from_node(&fields[{at}])"));
            let made_of = format!("{path} {{ {} }}", make.collect::<Vec<_>>().join(", "));
            let pattern = names.iter().enumerate().map(|(at, name)| format!("{name}: field{at}"));
            let pattern = pattern.collect::<Vec<_>>().join(", ");
            let nodes =
                (0..names.len()).map(|at| format!("field{at}.to_node()")).collect::<Vec<_>>().join(", ");
            let name = &variant.name;
            let _ = match named.is_enum {
                true => {
                    let _ = writeln!(made, "\"{name}\" => {made_of},");
                    writeln!(read, "{path} {{ {pattern} }} => Node::variant(\"{name}\", vec![{nodes}]),")
                }
                false => {
                    let _ = writeln!(made, "_ => {made_of},");
                    writeln!(read, "{path} {{ {pattern} }} => Node::List(vec![{nodes}]),")
                }
            };
        }
        let (begin, none) = match named.is_enum {
            true => {
                let none = "other => panic!(\"no variant {other}\"),\n";
                ("let fields = &node.list()[1..];\nmatch node.list()[0].text()", none)
            }
            false => ("let fields = node.list();\nmatch ()", ""),
        };
        let name = &named.name;
        let _ = writeln!(
            self.text,
            "impl{bound} Content for {name}{generics} {{\nfn from_node(node: &Node) -> Self {{\n{begin} {{\n{made}{none}}}\n}}\n\
             fn to_node(self) -> Node {{\nmatch self {{\n{read}}}\n}}\n}}"
        );
    }

    /// Writes a persistent struct, and the conversion of the older one.
    fn structure(&mut self, index: usize, structure: &Struct, version: usize, converts: bool) {
        let name = self.struct_name(index, version);
        let since = self.struct_since(index, version);
        let before = since.checked_sub(1).filter(|before| converts && self.exists(index, *before));
        let brand = brand_of(structure);
        let mut attributes = format!("{EXPORTER}, brand = {brand}");
        if name != structure.stored_name {
            let _ = write!(attributes, ", name = \"{}\"", structure.stored_name);
        }
        let generics = arguments_of(structure);
        if let Some(before) = before {
            let _ = write!(attributes, ", was = {}{generics}", self.struct_name(index, before));
        }
        let field =
            |field: &Field| format!("{}: {},\n", field.name, self.part_type(&field.part, version, brand));
        let fields: String = structure.fields.iter().map(field).collect();
        let declared = declared_of(structure);
        let _ = writeln!(
            self.text,
            "#[derive(Persist)]\n#[persist({attributes})]\n#[repr(C)]\npub(crate) struct {name}{declared} {{\n{fields}}}"
        );
        if let Some(before) = before {
            self.conversion(index, &name, &Step { family: self.family, from: before });
        }
    }

    fn exists(&self, index: usize, version: usize) -> bool {
        index < self.family.versions[version].structs.len()
    }

    fn conversion(&mut self, index: usize, name: &str, step: &Step<'_>) {
        let [old, new] = [step.before(), step.after()].map(|program| &program.structs[index]);
        let mut fields = String::new();
        for field in &new.fields {
            let expression = match old.fields.iter().find(|old| old.id == field.id) {
                Some(old) => {
                    self.part(step, &format!("old.{}", old.name), [&old.part, &field.part], &field.initial)
                }
                None => self.literal(&field.part, &field.initial, step.from + 1),
            };
            let _ = writeln!(fields, "{}: {expression},", field.name);
        }
        let bounds = bounded(new, &format!("Persist<{}>", brand_of(new)));
        let (generics, before) = (arguments_of(new), self.struct_name(index, step.from));
        let _ = writeln!(
            self.text,
            "impl{bounds} Migrate<{before}{generics}> for {name}{generics} {{\n\
             fn migrate(old: {before}{generics}) -> Result<Self, HeapError> {{\nkill::count_conversion();\n\
             Ok(Self {{\n{fields}}})\n}}\n}}"
        );
    }

    /// Returns an expression for the new content of a field, of that for the old one.
    fn part(&mut self, step: &Step<'_>, from: &str, [old, new]: [&Part; 2], initial: &Node) -> String {
        match step.part_rule(old, new) {
            PartRule::Same => from.to_owned(),
            PartRule::Cast(number) => format!("{from} as {}", number.name()),
            PartRule::IntoCell => format!("PCell::new({from})"),
            PartRule::OutOfCell => format!("{from}.into_value()?"),
            PartRule::Cell(a, b) => {
                let value = self.converted(step, "old", [a, b], Some(initial));
                format!("{{ let old = {from}.into_value()?; PCell::new({value}) }}")
            }
            PartRule::Recast => format!("{from}.recast()"),
            PartRule::Array([(a, n), (b, m)]) => {
                let names: Vec<String> = (0..n).map(|at| format!("old{at}")).collect();
                let element = |at: usize| match names.get(at) {
                    Some(name) => self.part(step, name, [a, b], &initial.list()[at]),
                    None => self.literal(b, &initial.list()[at], step.from + 1),
                };
                let elements: Vec<String> = (0..m).map(element).collect();
                format!("{{ let [{}] = {from}; [{}] }}", names.join(", "), elements.join(", "))
            }
            PartRule::Mutexes(a, b) => {
                format!("PMutex::new({})", self.part(step, &format!("{from}.into_value()"), [a, b], initial))
            }
            PartRule::Locked(b) => format!("PMutex::new({})", self.part(step, from, [old, b], initial)),
            PartRule::Unlocked(a) => self.part(step, &format!("{from}.into_value()"), [a, new], initial),
            PartRule::Struct => format!("Migrate::migrate({from})?"),
            PartRule::Initial => self.literal(new, initial, step.from + 1),
        }
    }

    /// Returns an expression for a new value, of that for the old one.
    fn converted(
        &mut self,
        step: &Step<'_>,
        from: &str,
        [old, new]: [&Value; 2],
        initial: Option<&Node>,
    ) -> String {
        let all = initial.cloned().unwrap_or_else(|| step.after().zero(new));
        let to = step.from + 1;
        match step.value_rule(old, new) {
            ValueRule::Same => from.to_owned(),
            ValueRule::Cast(number) => match old {
                Value::Number(_) => format!("({from} as {})", number.name()),
                _ => format!("({from} as u32 as {})", number.name()),
            },
            ValueRule::Option(a, b) => {
                format!("{from}.map(|old| {})", self.converted(step, "old", [a, b], None))
            }
            ValueRule::Some(b) => format!("Some({})", self.converted(step, from, [old, b], None)),
            ValueRule::Unwrapped(a) => {
                let (none, some) =
                    (self.value_literal(new, &all, to), self.converted(step, "old", [a, new], initial));
                format!("match {from} {{ Some(old) => {some}, None => {none} }}")
            }
            ValueRule::Tuple(a, b) => {
                let element = |(at, b): (usize, &Value)| match a.get(at) {
                    Some(a) => self.converted(step, &format!("old.{at}"), [a, b], Some(&all.list()[at])),
                    None => self.value_literal(b, &all.list()[at], to),
                };
                format!("{{ let old = {from}; {} }}", tuple(b.iter().enumerate().map(element)))
            }
            ValueRule::Array([(a, n), (b, m)]) => {
                let element = |at: usize| match at < n {
                    true => self.converted(step, &format!("old[{at}]"), [a, b], Some(&all.list()[at])),
                    false => self.value_literal(b, &all.list()[at], to),
                };
                let elements: Vec<String> = (0..m).map(element).collect();
                format!("{{ let old = {from}; [{}] }}", elements.join(", "))
            }
            ValueRule::Named(index) => format!("{}({from})", self.value_conversion(step, index, [old, new])),
            ValueRule::Initial => self.value_literal(new, &all, to),
        }
    }

    /// Returns the name of the function that converts a named value.
    fn value_conversion(&mut self, step: &Step<'_>, index: usize, [old, new]: [&Value; 2]) -> String {
        let types = [self.value_type(old, step.from), self.value_type(new, step.from + 1)];
        if let Some((name, _)) = self.conversions.get(&types) {
            return name.clone();
        }
        let [before, after] = [step.before(), step.after()].map(|program| &program.values[index]);
        let [before_name, after_name] =
            [(step.from), (step.from + 1)].map(|version| self.value_name(index, version));
        let mut arms = String::new();
        for from in &before.variants {
            let path = |named: &NamedValue, name: &str, variant: &Variant| match named.is_enum {
                true => format!("{name}::{}", variant.name),
                false => name.to_owned(),
            };
            let pattern = (0..from.fields.len())
                .map(|at| format!("{}: field{at}", from.field_name(at)))
                .collect::<Vec<_>>();
            let at = step.variant(index, from);
            let to = &after.variants[at.unwrap_or(0)];
            let mut fields = Vec::new();
            for (at_field, field) in to.fields.iter().enumerate() {
                let value = field.value.with(argument(new));
                let initial = (!field.value.has_parameter()).then_some(&field.initial);
                let origin = from.fields.iter().position(|from| from.id == field.id);
                let expression = match origin.filter(|_| at.is_some()) {
                    Some(origin) => {
                        let was = from.fields[origin].value.with(argument(old));
                        self.converted(step, &format!("field{origin}"), [&was, &value], initial)
                    }
                    None => {
                        let zero = step.after().zero(&value);
                        self.value_literal(&value, initial.unwrap_or(&zero), step.from + 1)
                    }
                };
                fields.push(format!("{}: {expression}", to.field_name(at_field)));
            }
            let (from, to) = (path(before, &before_name, from), path(after, &after_name, to));
            let _ =
                writeln!(arms, "{from} {{ {} }} => {to} {{ {} }},", pattern.join(", "), fields.join(", "));
        }
        let [from, to] = &types;
        let name = format!("convert{}", self.conversions.len());
        let body = format!("fn {name}(old: {from}) -> {to} {{\nmatch old {{\n{arms}}}\n}}\n");
        self.conversions.insert(types, (name.clone(), body));
        name
    }

    fn value_literal(&self, value: &Value, node: &Node, version: usize) -> String {
        let each = |values: &mut dyn Iterator<Item = (&Value, &Node)>| -> String {
            let all: Vec<String> =
                values.map(|(value, node)| self.value_literal(value, node, version)).collect();
            all.join(", ")
        };
        match value {
            Value::Number(number) => format!("({}{})", node.text(), number.name()),
            Value::Bool => node.text().to_owned(),
            Value::Char => format!("{:?}", node.text().chars().next().unwrap_or_default()),
            Value::Option(inner) => match node.list().first() {
                Some(node) => format!("Some({})", self.value_literal(inner, node, version)),
                None => "None".to_owned(),
            },
            Value::Tuple(values) => {
                let element = |(value, node)| self.value_literal(value, node, version);
                tuple(values.iter().zip(node.list()).map(element))
            }
            Value::Array(inner, _) => {
                format!("[{}]", each(&mut node.list().iter().map(|node| (&**inner, node))))
            }
            Value::Named(index, argument) => {
                let named = &self.family.versions[version].values[*index];
                let name = self.value_name(*index, version);
                let (path, variant, nodes) = match named.is_enum {
                    true => {
                        let variant_name = node.list()[0].text();
                        let variant = named.variants.iter().find(|variant| variant.name == variant_name);
                        let variant = variant.unwrap_or_else(|| panic!("{name} has no {variant_name}"));
                        (format!("{name}::{variant_name}"), variant, &node.list()[1..])
                    }
                    false => (name, &named.variants[0], node.list()),
                };
                let field = |(at, node): (usize, &Node)| {
                    let value = variant.fields[at].value.with(argument.as_deref());
                    format!("{}: {}", variant.field_name(at), self.value_literal(&value, node, version))
                };
                let fields: Vec<String> = nodes.iter().enumerate().map(field).collect();
                format!("{path} {{ {} }}", fields.join(", "))
            }
            Value::Parameter => unreachable!("it has no literal"),
        }
    }

    /// Returns an expression for content without objects.
    fn literal(&self, part: &Part, node: &Node, version: usize) -> String {
        match part {
            Part::Number(number) => format!("({}{})", node.text(), number.name()),
            Part::Cell(value) => format!("PCell::new({})", self.value_literal(value, node, version)),
            Part::Vec(_) | Part::Boxes(_) => "PVec::new()".to_owned(),
            Part::Deque(_) => "PDeque::new()".to_owned(),
            Part::Text => "PString::new()".to_owned(),
            Part::HashMap(..) => "PHashMap::new()".to_owned(),
            Part::Map(..) => "PMap::new()".to_owned(),
            Part::Array(inner, _) => {
                let elements = node.list().iter().map(|node| self.literal(inner, node, version));
                format!("[{}]", elements.collect::<Vec<_>>().join(", "))
            }
            Part::Mutex(inner) => format!("PMutex::new({})", self.literal(inner, node, version)),
            Part::Box(_) => "PBox::null()".to_owned(),
            Part::Struct(index, arguments) => {
                let fields = &self.family.versions[version].structs[*index].fields;
                let field = |(field, node): (&Field, &Node)| {
                    let part = field.part.with(arguments);
                    format!("{}: {}", field.name, self.literal(&part, node, version))
                };
                let fields: Vec<String> = fields.iter().zip(node.list()).map(field).collect();
                format!("{} {{ {} }}", self.struct_name(*index, version), fields.join(", "))
            }
            Part::Parameter => unreachable!("it has no literal"),
        }
    }

    /// Writes how an object is made of a node, and a node of an object.
    fn stored(&mut self, structure: &Struct) {
        let Struct { name, fields, .. } = structure;
        let each = |write: &dyn Fn(usize, &str) -> String| -> String {
            fields.iter().enumerate().map(|(at, field)| write(at, &field.name)).collect()
        };
        let made = each(&|at, name| format!("{name}: Stored::initial(&fields[{at}]),\n"));
        let filled = each(&|at, name| format!("self.{name}.fill(tx, &fields[{at}])?;\n"));
        let read = each(&|_, name| format!("self.{name}.read_node(guard)?,\n"));
        let bounds = bounded(structure, "Stored");
        let bounds = bounds.replace(", B: Brand", "");
        let generics = arguments_of(structure).replace(", B", &format!(", {BRAND}"));
        let _ = writeln!(
            self.text,
            "impl{bounds} Stored for {name}{generics} {{\n\
             fn initial(node: &Node) -> Self {{\nlet fields = node.list();\nSelf {{\n{made}}}\n}}\n\
             fn fill(&self, tx: &Tx<'_>, node: &Node) -> Result<(), HeapError> {{\nlet fields = node.list();\n{filled}Ok(())\n}}\n\
             fn read_node(&self, guard: &Reading<'_>) -> Result<Node, HeapError> {{\nOk(Node::List(vec![\n{read}]))\n}}\n}}"
        );
    }
}

/// The path of what derives need: the crate has `lode-heap`, too, for its tests alone.
const EXPORTER: &str = "crate = \"lodestone::typed\"";
/// The brand of all pools.
const BRAND: &str = "Generated";

fn brand_of(structure: &Struct) -> &'static str {
    if structure.has_brand { "B" } else { BRAND }
}

/// Returns a tuple of these.
fn tuple(elements: impl Iterator<Item = String>) -> String {
    format!("({})", elements.map(|element| element + ", ").collect::<String>())
}

fn bracketed(arguments: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = arguments.collect();
    if all.is_empty() { String::new() } else { format!("<{}>", all.join(", ")) }
}

/// Returns the parameters of a struct, with these in place of `T`, `B` and `N`.
fn parameters_of(structure: &Struct, [part, brand, len]: [&str; 3]) -> String {
    let all = [(structure.parameter.is_some(), part), (structure.has_brand, brand), (structure.has_len, len)];
    bracketed(all.into_iter().filter(|(is_there, _)| *is_there).map(|(_, text)| text.to_owned()))
}

/// Returns the parameters of a struct in its declaration.
fn declared_of(structure: &Struct) -> String {
    parameters_of(structure, ["T", "B", "const N: usize"])
}

/// Returns the parameters of a struct where it is named.
fn arguments_of(structure: &Struct) -> String {
    parameters_of(structure, ["T", "B", "N"])
}

/// Returns the parameters of an implementation for a struct.
fn bounded(structure: &Struct, bound: &str) -> String {
    parameters_of(structure, [&format!("T: {bound}"), "B: Brand", "const N: usize"])
}
