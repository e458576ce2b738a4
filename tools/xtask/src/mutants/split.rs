//! A source with mutants: the body of each function with mutants appears once for each mutant, and once unchanged.
//!
//! ```text
//!   fn f(a: u64) -> bool {            fn f(a: u64) -> bool { match ::lode_layout::bug::mutant() {
//!       a > 1                    ->       0x1234abcd => { a >= 1 }
//!   }                                     _ => { a > 1 } } }
//! ```
//!
//! So one build has all mutants, and the environment variable `LODE_MUTANT` chooses one. A function is refused if its
//! body can't appear twice: a constant function, or one whose type is that of a closure in it.

use super::list::Mutant;
use anyhow::{Context, Result, anyhow};
use proc_macro2::TokenStream;
use std::collections::BTreeMap;
use std::ops::Range;
use syn::visit::{self, Visit};

/// Code that the copy of `formats/layout/src/bug.rs` has in addition: it returns the number of the mutant that the
/// environment chooses.
pub(super) const SWITCH: &str = r#"
/// The number of the mutant that `LODE_MUTANT` names, 0 for none.
#[inline]
pub fn mutant() -> u32 {
    static NUMBER: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    *NUMBER.get_or_init(|| {
        let Ok(name) = std::env::var("LODE_MUTANT") else { return 0 };
        let hash = |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        name.bytes().fold(0x811c_9dc5, hash).max(1)
    })
}
"#;

/// A parsed source.
pub(crate) struct Functions<'a> {
    text: &'a str,
    functions: Vec<Function>,
}

/// A function with a body.
struct Function {
    name: String,
    /// Type of the function's `impl` block, or the trait that it is in.
    owner: Option<String>,
    /// The body with its braces, in bytes of the source.
    body: Range<usize>,
    /// Reason why the body can't appear twice.
    refused: Option<&'static str>,
}

/// The body of a function, and the lines in it that have mutants, in bytes of the source.
type Group<'a> = (Range<usize>, Vec<(Range<usize>, &'a Mutant)>);

/// Position of a mutant in its source, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    body: Range<usize>,
    line: Range<usize>,
    /// Number of the line, from 1.
    pub(crate) number: usize,
}

impl<'a> Functions<'a> {
    /// Finds the functions of a source, without those of tests.
    ///
    /// # Errors
    /// Fails if the source can't be parsed.
    pub(crate) fn parse(text: &'a str) -> Result<Functions<'a>> {
        let tokens: TokenStream = text.parse().map_err(|error| anyhow!("{error}"))?;
        let file = syn::parse2(tokens)?;
        let mut walk = Walk { owner: None, functions: Vec::new() };
        walk.visit_file(&file);
        Ok(Functions { text, functions: walk.functions })
    }

    /// Returns the position of `mutant`.
    ///
    /// # Errors
    /// Fails if the function or the line does not exist, or there are several.
    pub(crate) fn position(&self, mutant: &Mutant) -> Result<Position> {
        let Mutant { function: name, line, .. } = mutant;
        let found: Vec<&Function> = self.functions.iter().filter(|function| function.is(name)).collect();
        let [function] = found[..] else {
            return Err(match found.len() {
                0 => anyhow!("there is no function {name}"),
                count => anyhow!(
                    "there are {count} functions {name}: write TYPE::{name}, or ::{name} where it has no type"
                ),
            });
        };
        if let Some(reason) = function.refused {
            return Err(anyhow!("the function {name} {reason}: choose a line of another one"));
        }
        if *line == mutant.mutated {
            return Err(anyhow!("the mutated line is the line itself"));
        }
        let positions: Vec<Range<usize>> =
            self.lines_of(&function.body).filter(|range| self.text[range.clone()] == **line).collect();
        let position = match (positions.len(), mutant.nth) {
            (1, None) => &positions[0],
            (0, _) => return Err(anyhow!("the function {name} has no line `{line}`")),
            (count, None) => {
                return Err(anyhow!(
                    "the function {name} has {count} lines `{line}`: add nth = 1 to {count}"
                ));
            }
            (count, Some(nth)) => positions
                .get(nth.wrapping_sub(1))
                .filter(|_| count > 1)
                .with_context(|| format!("nth = {nth}, but the line is there {count} times"))?,
        };
        let number = self.text[..position.start].matches('\n').count() + 1;
        Ok(Position { body: function.body.clone(), line: position.clone(), number })
    }

    /// Returns the lines that begin inside of the range, without the white space around them.
    fn lines_of(&self, body: &Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let inner = &self.text[body.clone()];
        let start = body.start;
        inner.split_inclusive('\n').scan(start, move |at, line| {
            let begin = *at + (line.len() - line.trim_start().len());
            *at += line.len();
            Some(begin..begin + line.trim().len())
        })
    }

    /// Returns the source with these mutants.
    ///
    /// # Errors
    /// As [`position`](Functions::position).
    pub(crate) fn with(&self, mutants: &[&Mutant]) -> Result<String> {
        let mut positions = Vec::new();
        for mutant in mutants {
            let position = self.position(mutant).with_context(|| format!("mutant {}", mutant.name))?;
            positions.push((position, *mutant));
        }
        // A nested function that has mutants is repeated within the body of its outer function, if that has mutants,
        // too.
        let bodies: Vec<Range<usize>> = positions.iter().map(|(position, _)| position.body.clone()).collect();
        let outermost = |body: &Range<usize>| {
            let around = bodies.iter().filter(|other| other.start <= body.start && body.end <= other.end);
            around.max_by_key(|other| other.len()).cloned().unwrap_or_else(|| body.clone())
        };
        let mut groups: BTreeMap<usize, Group<'_>> = BTreeMap::new();
        for (position, mutant) in positions {
            let body = outermost(&position.body);
            groups.entry(body.start).or_insert_with(|| (body, Vec::new())).1.push((position.line, mutant));
        }
        let mut text = self.text.to_owned();
        for (body, lines) in groups.into_values().rev() {
            text.replace_range(body.clone(), &self.switched(&body, &lines));
        }
        Ok(text)
    }

    /// Returns the body with a choice between the mutants and the unchanged code.
    fn switched(&self, body: &Range<usize>, lines: &[(Range<usize>, &Mutant)]) -> String {
        let mut text = "{ match ::lode_layout::bug::mutant() {\n".to_owned();
        for (line, mutant) in lines {
            let before = &self.text[body.start..line.start];
            let after = &self.text[line.end..body.end];
            text += &format!("{:#x} => {before}{}{after}\n", mutant.number(), mutant.mutated);
        }
        text + "_ => " + &self.text[body.clone()] + "\n} }"
    }
}

impl Function {
    fn is(&self, name: &str) -> bool {
        match (name.split_once("::"), &self.owner) {
            (None, _) => self.name == name,
            (Some((owner, name)), Some(mine)) => mine == owner && self.name == name,
            (Some((owner, name)), None) => owner.is_empty() && self.name == name,
        }
    }
}

/// The walk that finds functions.
struct Walk {
    owner: Option<String>,
    functions: Vec<Function>,
}

impl Walk {
    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let braces = block.brace_token.span;
        let mut opaque = Opaque(false);
        opaque.visit_return_type(&signature.output);
        let refused = match (signature.constness.is_some(), opaque.0) {
            (true, _) => Some("is constant"),
            (_, true) => Some("returns an impl type"),
            _ => None,
        };
        self.functions.push(Function {
            name: signature.ident.to_string(),
            owner: self.owner.clone(),
            body: braces.open().byte_range().start..braces.close().byte_range().end,
            refused,
        });
    }

    fn inside(&mut self, owner: Option<String>, visit: impl FnOnce(&mut Walk)) {
        let outer = std::mem::replace(&mut self.owner, owner);
        visit(self);
        self.owner = outer;
    }
}

impl<'ast> Visit<'ast> for Walk {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.ident != "test" {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let owner = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
            _ => None,
        };
        self.inside(owner, |walk| visit::visit_item_impl(walk, item));
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.inside(Some(item.ident.to_string()), |walk| visit::visit_item_trait(walk, item));
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.inside(None, |walk| {
            walk.add(&function.sig, &function.block);
            visit::visit_item_fn(walk, function);
        });
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.add(&function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

/// Visitor that finds an `impl TRAIT` in a type.
struct Opaque(bool);

impl<'ast> Visit<'ast> for Opaque {
    fn visit_type_impl_trait(&mut self, _: &'ast syn::TypeImplTrait) {
        self.0 = true;
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const SOURCE: &str = "\
struct A;
impl<T> A<T> {
    /// fn twice() { one(); }
    fn twice(&self) {
        // one();
        one();
        two();
        two();
    }
    fn other(&self) -> impl Fn() {
        || one()
    }
}
impl Drop for B {
    fn drop(&mut self) {
        let f = |x: u64| {
            x + 1
        };
        f(\"}\".len() as u64);
    }
}
fn twice() {
    zero();
}
fn around<T: Into<u64>>(x: T) -> u64
where
    T: Copy,
{
    fn inner(x: u64) -> u64 {
        x * 2
    }
    inner(x.into())
}
const fn fixed() -> u64 {
    7
}
#[cfg(test)]
mod test {
    fn tested() {
        one();
    }
}
";

    fn mutant(function: &str, line: &str, nth: Option<usize>) -> Mutant {
        let [name, function, line] = [&format!("{function} {line}"), function, line].map(str::to_owned);
        Mutant { name, function, line, nth, mutated: "MUTATED;".into(), ..Mutant::default() }
    }

    fn position(function: &str, line: &str, nth: Option<usize>) -> Result<usize, String> {
        let functions = Functions::parse(SOURCE).unwrap();
        let position = functions.position(&mutant(function, line, nth));
        position.map(|position| position.number).map_err(|error| error.to_string())
    }

    fn line_of(line: &str) -> usize {
        SOURCE.lines().position(|other| other.trim() == line).unwrap() + 1
    }

    #[test]
    fn mutated_lines_are_found() {
        assert_eq!(position("A::twice", "one();", None), Ok(6));
        assert_eq!(position("A::twice", "two();", Some(2)), Ok(8));
        assert_eq!(position("drop", "x + 1", None), Ok(line_of("x + 1")), "in a closure");
        assert_eq!(position("::twice", "zero();", None), Ok(line_of("zero();")), "of no type");
        assert_eq!(position("inner", "x * 2", None), Ok(line_of("x * 2")), "in a function in a function");
        let is_refused = |function, line, nth, why: &str| {
            let error = position(function, line, nth).unwrap_err();
            assert!(error.contains(why), "{function}, {line}: {error}");
        };
        is_refused("twice", "one();", None, "2 functions");
        is_refused("A::twice", "two();", None, "2 lines");
        is_refused("A::twice", "two();", Some(3), "there 2 times");
        is_refused("A::twice", "one();", Some(1), "there 1 times");
        is_refused("A::twice", "one()", None, "no line");
        is_refused("A::twice", "inner(x.into())", None, "no line");
        is_refused("B::twice", "one();", None, "no function");
        is_refused("tested", "one();", None, "no function");
        is_refused("fixed", "7", None, "is constant");
        is_refused("other", "|| one()", None, "returns an impl type");
        is_refused("drop", "MUTATED;", None, "is the line itself");
    }

    /// Returns the source as it runs when one mutant, or none, is active.
    fn active(mutants: &[&Mutant], chosen: Option<&Mutant>) -> String {
        let text = Functions::parse(SOURCE).unwrap().with(mutants).unwrap();
        assert!(Functions::parse(&text).is_ok(), "{text}");
        let mut rest = &text[..];
        let mut out = String::new();
        while let Some((before, after)) = rest.split_once("{ match ::lode_layout::bug::mutant() {\n") {
            let (group, later) = after.split_once("\n} }").unwrap();
            let mine = chosen.map(|chosen| format!("{:#x} => ", chosen.number()));
            let mine = mine.and_then(|arm| group.split_once(&arm)).map(|(_, body)| body);
            let body = mine.unwrap_or_else(|| group.split_once("_ => ").unwrap().1);
            let end = ["\n0x", "\n_ => "].iter().filter_map(|end| body.find(end)).min();
            out += before;
            out += &body[..end.unwrap_or(body.len())];
            rest = later;
        }
        out + rest
    }

    #[test]
    fn each_mutant_changes_one_line() {
        let mutants = [
            mutant("A::twice", "one();", None),
            mutant("A::twice", "two();", Some(2)),
            mutant("drop", "x + 1", None),
            mutant("inner", "x * 2", None),
            mutant("around", "inner(x.into())", None),
        ];
        let all: Vec<&Mutant> = mutants.iter().collect();
        assert_eq!(active(&all, None), SOURCE);
        for (mutant, number) in
            all.iter().zip([6, 8, line_of("x + 1"), line_of("x * 2"), line_of("inner(x.into())")])
        {
            let mut lines: Vec<String> = SOURCE.lines().map(str::to_owned).collect();
            let indent = lines[number - 1].len() - lines[number - 1].trim_start().len();
            lines[number - 1] = format!("{}MUTATED;", " ".repeat(indent));
            assert_eq!(active(&all, Some(mutant)), lines.join("\n") + "\n", "{}", mutant.name);
        }
    }
}
