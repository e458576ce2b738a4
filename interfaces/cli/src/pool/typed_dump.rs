//! `lode pool dump --typed`: the values of a pool of typed data, a line each.

use crate::failure::Failure;
use crate::output::Output;
use crate::pool::typed_trees::{self, TreePart};
use crate::pool::types::survey;
use lode_heap::{Pool, TypedDamage, TypedPlace, TypedVisitor};
use lode_layout::PoolOffset;
use lode_pool::{Access, OpenOptions};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::io::{self, Write};
use std::path::Path;

/// Prints each value on the way `wanted`, or all.
pub(crate) fn run(path: &Path, wanted: Option<&str>, json: bool) -> Result<Output, Failure> {
    let failure = || Failure::of_pool("printing a pool", path);
    let pool =
        Pool::open(path, &OpenOptions::new(Access::ReadOnly)).map_err(|error| failure()(error.into()))?;
    let mut survey = survey(pool.heap()).map_err(|error| failure()(error.into()))?;
    let out = io::BufWriter::new(io::stdout().lock());
    let mut values = Values { out, json, wanted, found: 0, seen: HashSet::new(), printed: Ok(()) };
    survey.visit(&mut values);
    for (name, tree) in typed_trees::named(pool.heap()).map_err(|error| failure()(error.into()))? {
        typed_trees::visit(pool.heap(), &name, &tree, &mut |way, part| match part {
            TreePart::Entry(at, value) => {
                values.print_at(at, &way, Ok(format!("b\"{}\"", value.escape_ascii())))
            }
            TreePart::Damage(at) => {
                values.print_at(at, &way, Err("a node or leaf, or what leads there, is damaged"))
            }
        });
    }
    let Values { mut out, found, printed, .. } = values;
    printed.and_then(|()| out.flush()).map_err(Failure::stdout)?;
    match wanted {
        Some(wanted) if found == 0 => Err(Failure::new(
            format_args!("printing what is at {wanted}"),
            format_args!("{}: there is nothing; without --path, all values are printed", path.display()),
        )),
        _ => Ok(Output::empty()),
    }
}

/// Prints the values that a survey finds.
struct Values<'a, W> {
    out: W,
    json: bool,
    /// The way whose values are printed.
    wanted: Option<&'a str>,
    /// Number of values on it.
    found: u64,
    /// The objects that were visited: damage may lead to one again.
    seen: HashSet<u64>,
    printed: io::Result<()>,
}

impl<W: Write> Values<'_, W> {
    fn print(&mut self, place: &TypedPlace<'_>, holds: Result<String, TypedDamage>) {
        self.print_at(place.at(), &place.path(), holds.map_err(TypedDamage::means));
    }

    /// Prints what is at `at` on the way `path`, or a clause that says its damage.
    fn print_at(&mut self, at: PoolOffset, path: &str, holds: Result<String, &str>) {
        if !self.wanted.is_none_or(|wanted| is_on(path, wanted)) || self.printed.is_err() {
            return;
        }
        self.found += 1;
        let (at, damage) = (at.get(), holds.as_ref().err().copied());
        self.printed = match (self.json, damage) {
            (true, _) => {
                let (holds, len) = (holds.ok(), Value::Null);
                let line = json!({ "structure": "value", "at": at, "len": len, "damage": damage, "holds": holds, "path": path });
                writeln!(self.out, "{line}")
            }
            (false, Some(damage)) => writeln!(self.out, "{path} DAMAGED: {damage}, at {at:#x}"),
            (false, None) => writeln!(self.out, "{path} {}", holds.unwrap_or_default()),
        };
    }
}

impl<W: Write> TypedVisitor for Values<'_, W> {
    fn object(&mut self, place: &TypedPlace<'_>) -> bool {
        let may_lead = |wanted: &str| {
            let path = place.path();
            // The number of equal steps may be one on the way to a higher one.
            let steps =
                path.rsplit_once('{').filter(|_| path.ends_with('}')).map_or(&*path, |(steps, _)| steps);
            is_on(&path, wanted) || wanted.starts_with(steps)
        };
        self.printed.is_ok() && self.wanted.is_none_or(may_lead) && self.seen.insert(place.at().get())
    }

    fn value(&mut self, place: &TypedPlace<'_>, text: &dyn Fn() -> String) {
        self.print(place, Ok(text()));
    }

    fn damage(&mut self, place: &TypedPlace<'_>, damage: TypedDamage) {
        self.print(place, Err(damage));
    }
}

/// Returns true if `path` is `wanted`, or goes on from there.
fn is_on(path: &str, wanted: &str) -> bool {
    path.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[', '{']))
}

#[cfg(test)]
mod test {
    use super::is_on;

    #[test]
    fn ways_go_on_at_steps() {
        for path in ["Shop.items", "Shop.items.name", "Shop.items[3]", "Shop.items{2}.name"] {
            assert!(is_on(path, "Shop.items"), "{path}");
        }
        for path in ["Shop.item", "Shop.items2", "Shop"] {
            assert!(!is_on(path, "Shop.items"), "{path}");
        }
    }
}
