//! `lode pool migrate --status`: whether a migration of typed data is under way, and what is left of it.

use crate::failure::{DAMAGED, Failure, UNFINISHED};
use crate::output::Output;
use crate::pool::types::survey;
use crate::progress::Progress;
use clap::Args;
use lode_heap::{Heap, Pool, TypedDamage, TypedPlace, TypedSurvey, TypedVisitor};
use lode_layout::PoolOffset;
use lode_pmem::Medium;
use lode_pool::{Access, OpenOptions};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::path::PathBuf;

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "path of the pool"),
    ("root", "name of the root's type"),
    ("half_migrated", "whether a migration is not finished; the exit code is then 4"),
    (
        "remaining",
        "objects of older types, to be converted, or dropped with an owner that does not keep them",
    ),
    ("converted", "objects of types that the pool did not have before the migration"),
    ("unchanged", "objects of types that the migration does not change, or of all types if there is none"),
    (
        "types",
        "types of objects: {name, number, state, objects}; the state is remaining, converted or unchanged, the number the \
         type number in hexadecimal",
    ),
    ("damage", "places that could not be read, so that objects may be missing; the exit code is then 3"),
];

/// Arguments of `lode pool migrate`.
#[derive(Args, Debug)]
pub(crate) struct Migrate {
    /// The pool's file or device
    path: PathBuf,
    /// Print the state of the migration
    #[arg(long)]
    status: bool,
}

/// The state of the objects of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Remaining,
    Converted,
    Unchanged,
}

impl State {
    /// Returns the state of objects with this type number.
    fn of<M: Medium>(survey: &TypedSurvey<'_, M>, number: u64) -> State {
        match survey.ages(number)[..] {
            [0] if survey.is_half_migrated() => State::Converted,
            [0, ..] => State::Unchanged,
            _ => State::Remaining,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            State::Remaining => "remaining",
            State::Converted => "converted",
            State::Unchanged => "unchanged",
        }
    }
}

pub(crate) fn run(args: &Migrate) -> Result<Output, Failure> {
    let path = &args.path;
    if !args.status {
        return Err(Failure::usage_error(format!(
            "migrating a pool: {0}: its objects are converted by code of the program that has the new types, so run that program, which \
                 calls `migrate`; `lode pool migrate {0} --status` prints what is left",
            path.display()
        )));
    }
    let failure = || Failure::of_pool("reading the state of a migration", path);
    let pool =
        Pool::open(path, &OpenOptions::new(Access::ReadOnly)).map_err(|error| failure()(error.into()))?;
    let mut survey = survey(pool.heap()).map_err(|error| failure()(error.into()))?;
    let progress = Progress::spinner("counting the objects");
    let mut census = Census { heap: pool.heap(), seen: HashSet::new(), objects: BTreeMap::new(), damage: 0 };
    survey.visit(&mut census);
    drop(progress);
    let Census { objects, damage, .. } = census;
    let mut rows: Vec<Row> =
        objects.into_iter().map(|(number, count)| Row::of(&survey, number, count)).collect();
    rows.sort();
    let sum = |state| rows.iter().filter(|row| row.state == state).map(|row| row.objects).sum::<u64>();
    let half = survey.is_half_migrated();
    let text = text(&rows, half, damage, sum(State::Remaining));
    let code = match (damage, half) {
        (1.., _) => DAMAGED,
        (0, true) => UNFINISHED,
        (0, false) => 0,
    };
    Ok(Output::text(format!("{}: {text}", path.display()))
        .with("path", path.display().to_string())
        .with("root", survey.table().name(survey.table().root()))
        .with("half_migrated", half)
        .with("remaining", sum(State::Remaining))
        .with("converted", sum(State::Converted))
        .with("unchanged", sum(State::Unchanged))
        .with("types", rows.iter().map(Row::json).collect::<Vec<_>>())
        .with("damage", damage)
        .with_exit_code(code))
}

/// The objects of one type.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    state: State,
    name: String,
    number: u64,
    objects: u64,
}

impl Row {
    fn of<M: Medium>(survey: &TypedSurvey<'_, M>, number: u64, objects: u64) -> Row {
        let name = survey.type_name(number).unwrap_or_default();
        Row { state: State::of(survey, number), name, number, objects }
    }

    fn json(&self) -> Value {
        let Row { state, name, number, objects } = self;
        json!({ "name": name, "number": format!("{number:#018x}"), "state": state.name(), "objects": objects })
    }
}

/// Returns the state as text, after the path.
fn text(rows: &[Row], half: bool, damage: u64, remaining: u64) -> String {
    let mut text = match half {
        true => format!("a migration is not finished, {remaining} objects are of older types\n"),
        false => "no migration is under way\n".to_owned(),
    };
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    for Row { state, name, number, objects } in rows {
        let state = if half { state.name() } else { "" };
        let row = format!("  {name:width$}  {number:#018x}  {objects:>10} {state}");
        let _ = writeln!(text, "{}", row.trim_end());
    }
    if damage > 0 {
        let _ =
            writeln!(text, "{damage} places can't be read, so objects may be missing; see `lode pool check`");
    }
    text += match half {
        true => {
            "next: run the program with the new types, whose call of `migrate` goes on; no other can use the pool\n"
        }
        false => {
            "next: nothing, or run the program with newer types, whose call of `migrate` begins a migration\n"
        }
    };
    text
}

/// Counts objects by their type numbers.
struct Census<'h, M: Medium> {
    heap: &'h Heap<M>,
    seen: HashSet<PoolOffset>,
    objects: BTreeMap<u64, u64>,
    damage: u64,
}

impl<M: Medium> TypedVisitor for Census<'_, M> {
    fn object(&mut self, place: &TypedPlace<'_>) -> bool {
        if !self.seen.insert(place.at()) {
            return false;
        }
        let is_box = place.pointer().is_some_and(|pointer| pointer.is_box());
        if let Ok(object) = self.heap.object(place.at())
            && is_box
            && place.accepts(object.size, object.type_number)
        {
            *self.objects.entry(object.type_number).or_default() += 1;
        }
        true
    }

    fn damage(&mut self, _: &TypedPlace<'_>, damage: TypedDamage) {
        let hides_objects = [TypedDamage::Unreadable, TypedDamage::NoObject, TypedDamage::OtherType];
        self.damage += u64::from(hides_objects.contains(&damage));
    }
}
