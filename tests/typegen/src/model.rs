//! The content of a version as that of the next.

use crate::node::Node;
use crate::step::{PartRule, Step, ValueRule};
use crate::types::{Arguments, Family, Field, Number, Part, Value, ValueField, Variant};
use std::str::FromStr;

impl Step<'_> {
    /// Returns what becomes of the content of the root.
    pub fn migrated(&self, root: &Node) -> Node {
        self.carried(root, &self.before().root())
    }

    /// Returns what becomes of content that stays where it is.
    fn carried(&self, node: &Node, part: &Part) -> Node {
        match part {
            Part::Array(inner, _) | Part::Box(inner) | Part::Boxes(inner) => {
                Node::List(node.list().iter().map(|node| self.carried(node, inner)).collect())
            }
            Part::Mutex(inner) => self.carried(node, inner),
            Part::Struct(index, arguments) => self.structure(node, *index, arguments),
            _ => node.clone(),
        }
    }

    fn structure(&self, node: &Node, index: usize, arguments: &Arguments) -> Node {
        let [old, new] = [self.before(), self.after()].map(|program| &program.structs[index].fields);
        let of = |field: &Field| match old.iter().position(|old| old.id == field.id) {
            Some(at) => {
                let parts = [&old[at].part, &field.part].map(|part| part.with(arguments));
                self.part(&node.list()[at], &parts[0], &parts[1], &field.initial)
            }
            None => field.initial.clone(),
        };
        Node::List(new.iter().map(of).collect())
    }

    fn part(&self, node: &Node, old: &Part, new: &Part, initial: &Node) -> Node {
        match self.part_rule(old, new) {
            PartRule::Same => self.carried(node, old),
            PartRule::Struct => self.carried(node, old),
            PartRule::Cast(to) => match old {
                Part::Number(from) => cast(node.text(), &Value::Number(*from), to),
                _ => initial.clone(),
            },
            PartRule::IntoCell | PartRule::OutOfCell => node.clone(),
            PartRule::Cell(a, b) => self.value(node, a, b, Some(initial)),
            PartRule::Recast => self.recast(node, old, new),
            PartRule::Array([(a, _), (b, len)]) => {
                let of = |at: usize| match node.list().get(at) {
                    Some(node) => self.part(node, a, b, &initial.list()[at]),
                    None => initial.list()[at].clone(),
                };
                Node::List((0..len).map(of).collect())
            }
            PartRule::Mutexes(a, b) => self.part(node, a, b, initial),
            PartRule::Locked(b) => self.part(node, old, b, initial),
            PartRule::Unlocked(a) => self.part(node, a, new, initial),
            PartRule::Initial => initial.clone(),
        }
    }

    /// Returns the elements of a container, each of the new type.
    fn recast(&self, node: &Node, old: &Part, new: &Part) -> Node {
        let pairs: Vec<(&Value, &Value)> = old.values().into_iter().zip(new.values()).collect();
        match (old, pairs.as_slice()) {
            (Part::HashMap(..), [key, value]) => {
                let of = |entry: &Node| {
                    let [k, v] = [(0, key), (1, value)];
                    let [k, v] = [k, v].map(|(at, (a, b))| self.value(&entry.list()[at], a, b, None));
                    Node::List(vec![k, v])
                };
                Node::sorted(node.list().iter().map(of).collect())
            }
            (Part::Map(..), [(a, b)]) => {
                let of = |entry: &Node| {
                    let value = self.value(&entry.list()[1], a, b, None);
                    Node::List(vec![entry.list()[0].clone(), value])
                };
                Node::sorted(node.list().iter().map(of).collect())
            }
            (_, [(a, b)]) => {
                Node::List(node.list().iter().map(|value| self.value(value, a, b, None)).collect())
            }
            _ => unreachable!("a container has values"),
        }
    }

    fn value(&self, node: &Node, old: &Value, new: &Value, initial: Option<&Node>) -> Node {
        let initial_or_zero = || initial.cloned().unwrap_or_else(|| self.after().zero(new));
        let of_each = |olds: &[&Value], news: &[&Value]| {
            let all = initial_or_zero();
            let of = |(at, new): (usize, &&Value)| match olds.get(at) {
                Some(old) => self.value(&node.list()[at], old, new, Some(&all.list()[at])),
                None => all.list()[at].clone(),
            };
            Node::List(news.iter().enumerate().map(of).collect())
        };
        match self.value_rule(old, new) {
            ValueRule::Same => node.clone(),
            ValueRule::Cast(to) => cast(node.text(), old, to),
            ValueRule::Option(a, b) => {
                Node::List(node.list().iter().map(|node| self.value(node, a, b, None)).collect())
            }
            ValueRule::Some(b) => Node::List(vec![self.value(node, old, b, None)]),
            ValueRule::Unwrapped(a) => match node.list().first() {
                Some(node) => self.value(node, a, new, initial),
                None => initial_or_zero(),
            },
            ValueRule::Tuple(a, b) => of_each(&a.iter().collect::<Vec<_>>(), &b.iter().collect::<Vec<_>>()),
            ValueRule::Array([(a, n), (b, m)]) => of_each(&vec![a; n], &vec![b; m]),
            ValueRule::Named(index) => self.named(node, index, argument(old), argument(new)),
            ValueRule::Initial => initial_or_zero(),
        }
    }

    fn named(&self, node: &Node, index: usize, old: Option<&Value>, new: Option<&Value>) -> Node {
        let [before, after] = [self.before(), self.after()].map(|program| &program.values[index]);
        let (from, fields) = match before.is_enum {
            true => {
                let name = node.list()[0].text();
                let from = before.variants.iter().find(|variant| variant.name == name);
                (from.unwrap_or_else(|| panic!("no variant {name}")), &node.list()[1..])
            }
            false => (&before.variants[0], node.list()),
        };
        let at = self.variant(index, from);
        let to: &Variant = &after.variants[at.unwrap_or(0)];
        let of = |field: &ValueField| {
            let origin = from.fields.iter().position(|from| from.id == field.id);
            let value = field.value.with(new);
            let initial = (!field.value.has_parameter()).then_some(&field.initial);
            match origin.filter(|_| at.is_some()) {
                Some(origin) => {
                    let was = from.fields[origin].value.with(old);
                    self.value(&fields[origin], &was, &value, initial)
                }
                None => initial.cloned().unwrap_or_else(|| self.after().zero(&value)),
            }
        };
        let fields: Vec<Node> = to.fields.iter().map(of).collect();
        if after.is_enum { Node::variant(&to.name, fields) } else { Node::List(fields) }
    }
}

impl Family {
    /// Returns the number of objects in the content of a version that were converted from another one.
    pub fn converted(&self, [from, to]: [usize; 2], root: &Node) -> u64 {
        let program = &self.versions[to];
        let mut count = 0;
        let mut objects = vec![(program.root(), root)];
        while let Some((part, node)) = objects.pop() {
            count += u64::from(!self.same_part(&part, [from, to]));
            let mut inner = vec![(part, node)];
            while let Some((part, node)) = inner.pop() {
                match part {
                    Part::Array(part, _) => {
                        inner.extend(node.list().iter().map(|node| ((*part).clone(), node)))
                    }
                    Part::Mutex(part) => inner.push((*part, node)),
                    Part::Struct(index, arguments) => {
                        inner.extend(program.fields(index, &arguments).into_iter().zip(node.list()));
                    }
                    Part::Box(part) | Part::Boxes(part) => {
                        objects.extend(node.list().iter().map(|node| ((*part).clone(), node)));
                    }
                    _ => {}
                }
            }
        }
        count
    }
}

/// Returns the argument of a named value.
pub(crate) fn argument(value: &Value) -> Option<&Value> {
    match value {
        Value::Named(_, argument) => argument.as_deref(),
        _ => None,
    }
}

/// Returns what `as` makes of a number, `bool` or `char`.
fn cast(text: &str, from: &Value, to: Number) -> Node {
    macro_rules! to {
        ($value:expr) => {
            match to {
                Number::U8 => Node::leaf($value as u8),
                Number::U16 => Node::leaf($value as u16),
                Number::U32 => Node::leaf($value as u32),
                Number::U64 => Node::leaf($value as u64),
                Number::I8 => Node::leaf($value as i8),
                Number::I16 => Node::leaf($value as i16),
                Number::I32 => Node::leaf($value as i32),
                Number::I64 => Node::leaf($value as i64),
                Number::F32 => Node::leaf($value as f32),
                Number::F64 => Node::leaf($value as f64),
            }
        };
    }
    /// Returns the number that a text is.
    fn parsed<T: FromStr>(text: &str) -> T {
        text.parse().unwrap_or_else(|_| panic!("{text} is no number of the type"))
    }
    match from {
        Value::Number(Number::F32) => to!(parsed::<f32>(text)),
        Value::Number(Number::F64) => to!(parsed::<f64>(text)),
        Value::Bool => to!(i128::from(text == "true")),
        Value::Char => to!(i128::from(text.chars().next().map_or(0, u32::from))),
        _ => to!(parsed::<i128>(text)),
    }
}

#[cfg(test)]
mod test {
    use super::cast;
    use crate::node::Node;
    use crate::types::{Number, Value};

    #[test]
    fn casts_are_those_of_rust() {
        let number = Value::Number;
        for (text, from, to, want) in [
            ("-1", number(Number::I8), Number::U64, "18446744073709551615"),
            ("18446744073709551615", number(Number::U64), Number::I16, "-1"),
            ("-2.5", number(Number::F64), Number::U8, "0"),
            ("-2.5", number(Number::F32), Number::I8, "-2"),
            ("18446744073709551615", number(Number::U64), Number::F32, "18446744000000000000"),
            ("true", Value::Bool, Number::F64, "1"),
            ("\u{e9}", Value::Char, Number::U8, "233"),
        ] {
            assert_eq!(cast(text, &from, to), Node::leaf(want), "{text}");
        }
    }
}
