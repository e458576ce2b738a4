//! The first type in which two tables differ.

use super::TypeTable;
use super::shape::{PoolType, Shape, TypeField, TypeId, TypeVariant};
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;

/// A type in which the types of a pool and those of a program differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeDifference {
    /// The way from the root to the type, as `Shop.items[].price`.
    pub path: String,
    /// Name of the type in the pool, and in the program.
    pub names: [String; 2],
    /// Its size in bytes and its type number, in the pool, and in the program.
    pub numbers: [(u64, u64); 2],
    /// Its layout in both, row by row.
    pub rows: Vec<TypeRow>,
}

/// A row of two layouts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeRow {
    /// The row in the pool, if it has it.
    pub found: Option<String>,
    /// The row in the program, if it has it.
    pub wanted: Option<String>,
}

impl TypeRow {
    /// Returns true if both have the same.
    pub fn is_same(&self) -> bool {
        self.found == self.wanted
    }
}

/// The result of the comparison of a pool's types with those of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeComparison {
    /// They are the same.
    Same,
    /// Some types of the pool are older ones of the program, which knows how to make new ones of them.
    Older,
    /// They differ.
    Different(Box<TypeDifference>),
}

/// The types of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramTypes {
    /// All types.
    pub table: TypeTable,
    /// The type that a type was before, for those that have changed.
    pub older: HashMap<TypeId, TypeId>,
}

impl TypeTable {
    /// Compares the types of this pool with those of a program. A type with another name is the same if its number is, which
    /// a program gives for that purpose.
    pub fn compare(&self, program: &ProgramTypes) -> TypeComparison {
        let mut comparison = Comparison { pool: self, program, has_older: false };
        // Layouts first: the number of a type also follows from those within it, and the innermost is to be named.
        match [false, true].into_iter().find_map(|by_number| comparison.find(by_number)) {
            Some(difference) => TypeComparison::Different(Box::new(difference)),
            None if comparison.has_older => TypeComparison::Older,
            None => TypeComparison::Same,
        }
    }
}

struct Comparison<'a> {
    pool: &'a TypeTable,
    program: &'a ProgramTypes,
    /// True if a type of the pool is an older one of the program.
    has_older: bool,
}

impl Comparison<'_> {
    /// Returns the first type, from the root on, that differs.
    fn find(&mut self, by_number: bool) -> Option<TypeDifference> {
        let (pool, table) = (self.pool, &self.program.table);
        // Objects are converted as a whole, so what lies in one is no older than the whole.
        let roots = (pool.root(), table.root(), true);
        let mut open = VecDeque::from([(roots, pool.name(pool.root_declared()))]);
        let mut seen = HashSet::from([roots]);
        while let Some(((found, newest, is_object), path)) = open.pop_front() {
            let want = if is_object { self.version(found, newest) } else { newest };
            let (of_found, of_wanted) = (pool.get(found), table.get(want));
            let is_same = match by_number {
                true => has_same_numbers(of_found, of_wanted),
                false => is_alike((pool, of_found), (table, of_wanted)),
            };
            if !is_same {
                return Some(TypeDifference {
                    path,
                    names: [pool.name(found), table.name(want)],
                    numbers: [of_found, of_wanted].map(|ty| (ty.size, ty.number)),
                    rows: rows(pool.rows(found), table.rows(want)),
                });
            }
            for ((step, found), (_, want)) in steps(of_found).into_iter().zip(steps(of_wanted)) {
                let is_object = match of_found.shape {
                    Shape::Box(_) => true,
                    Shape::Mutex(_) | Shape::Array { .. } => is_object,
                    _ => false,
                };
                if seen.insert((found, want, is_object)) {
                    open.push_back(((found, want, is_object), format!("{path}{step}")));
                }
            }
        }
        None
    }

    /// Returns the version of a type of the program that has the number of a type of the pool, or else the newest.
    fn version(&mut self, found: TypeId, newest: TypeId) -> TypeId {
        let ProgramTypes { table, older } = self.program;
        let versions = std::iter::successors(Some(newest), |id| older.get(id).copied());
        // A type is older than another one a few times; a chain that is longer leads to itself.
        let mut versions = versions.take(table.types().count());
        let number = self.pool.get(found).number;
        let version = versions.find(|id| table.get(*id).number == number).unwrap_or(newest);
        self.has_older |= version != newest;
        version
    }
}

/// Returns true if two types of the same shape have the same size and numbers. Those of a composed type follow from those of its
/// parts, which may be older.
fn has_same_numbers(found: &PoolType, wanted: &PoolType) -> bool {
    let same_number = match (&found.shape, &wanted.shape) {
        (Shape::Struct { .. } | Shape::Enum { .. } | Shape::Map { .. }, _) => found.number == wanted.number,
        (Shape::Vec { buffer: a, .. }, Shape::Vec { buffer: b, .. })
        | (Shape::Deque { buffer: a, .. }, Shape::Deque { buffer: b, .. })
        | (Shape::HashMap { buffer: a, .. }, Shape::HashMap { buffer: b, .. })
        | (Shape::String { buffer: a }, Shape::String { buffer: b }) => a == b,
        _ => true,
    };
    let is_of_parts = matches!(found.shape, Shape::Mutex(_) | Shape::Array { .. });
    same_number && (is_of_parts || found.size == wanted.size)
}

impl TypeTable {
    /// Returns the layout of a type: a row for each field or variant, or one for the whole.
    pub fn rows(&self, id: TypeId) -> Vec<String> {
        let field =
            |field: &TypeField| format!("{:>5}  {}: {}", field.offset, field.name, self.name(field.id));
        let ty = self.get(id);
        match &ty.shape {
            Shape::Struct { fields, .. } => fields.iter().map(field).collect(),
            Shape::Enum { variants, .. } => {
                let of = |variant: &TypeVariant| {
                    let name = format!("{:>5}  {} = {}", "", variant.name, variant.tag);
                    std::iter::once(name).chain(variant.fields.iter().map(field)).collect::<Vec<_>>()
                };
                variants.iter().flat_map(of).collect()
            }
            _ => vec![format!("{:>5}  {}", "", self.name(id))],
        }
    }
}

/// Returns true if two types are the same, but for their sizes and numbers, and the types of their parts.
fn is_alike((table, found): (&TypeTable, &PoolType), (other, wanted): (&TypeTable, &PoolType)) -> bool {
    let fields_are_alike = |found: &[TypeField], wanted: &[TypeField]| {
        let is_alike = |(found, wanted): (&TypeField, &TypeField)| {
            found.name == wanted.name
                && found.offset == wanted.offset
                && names_are_alike((table, found.id), (other, wanted.id))
        };
        found.len() == wanted.len() && found.iter().zip(wanted).all(is_alike)
    };
    let same_name = |found_name, wanted_name| found_name == wanted_name || found.number == wanted.number;
    match (&found.shape, &wanted.shape) {
        (Shape::Struct { name: a, fields: of_found }, Shape::Struct { name: b, fields: of_wanted }) => {
            same_name(a, b) && fields_are_alike(of_found, of_wanted)
        }
        (Shape::Enum { name: a, variants: of_found }, Shape::Enum { name: b, variants: of_wanted }) => {
            let is_alike = |(found, wanted): (&TypeVariant, &TypeVariant)| {
                (&found.name, found.tag) == (&wanted.name, wanted.tag)
                    && fields_are_alike(&found.fields, &wanted.fields)
            };
            same_name(a, b)
                && of_found.len() == of_wanted.len()
                && of_found.iter().zip(of_wanted).all(is_alike)
        }
        (Shape::Array { len: a, .. }, Shape::Array { len: b, .. }) => a == b,
        (Shape::Number(a), Shape::Number(b)) => a == b,
        (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}

/// Returns true if two fields have types of the same shape, down to structs and enums, which are compared by themselves.
fn names_are_alike((table, found): (&TypeTable, TypeId), (other, wanted): (&TypeTable, TypeId)) -> bool {
    let (mut found, mut wanted) = (found, wanted);
    loop {
        let (of_found, of_wanted) = (table.get(found), other.get(wanted));
        let is_declared = |ty: &PoolType| matches!(ty.shape, Shape::Struct { .. } | Shape::Enum { .. });
        if is_declared(of_found) || is_declared(of_wanted) {
            let are_same_kind =
                std::mem::discriminant(&of_found.shape) == std::mem::discriminant(&of_wanted.shape);
            let names = || table.name(found) == other.name(wanted);
            return are_same_kind && (names() || of_found.number == of_wanted.number);
        }
        if !is_alike((table, of_found), (other, of_wanted)) {
            return false;
        }
        let (mut inner, mut other_inner) = (steps(of_found).into_iter(), steps(of_wanted).into_iter());
        if let Shape::Map { .. } | Shape::HashMap { .. } = of_found.shape
            && let (Some((_, key)), Some((_, wanted_key))) = (inner.next(), other_inner.next())
            && !names_are_alike((table, key), (other, wanted_key))
        {
            return false;
        }
        match (inner.next(), other_inner.next()) {
            (Some((_, a)), Some((_, b))) => (found, wanted) = (a, b),
            _ => return true,
        }
    }
}

/// Returns the types to which a type leads, each with the text that a path has for the step.
fn steps(ty: &PoolType) -> Vec<(String, TypeId)> {
    let of_fields = |fields: &[TypeField]| -> Vec<_> {
        fields.iter().map(|field| (format!(".{}", field.name), field.id)).collect()
    };
    match &ty.shape {
        Shape::Number(_) | Shape::Bool | Shape::Char | Shape::String { .. } | Shape::Text | Shape::Bytes => {
            Vec::new()
        }
        Shape::Map { key, value, .. } | Shape::HashMap { key, value, .. } => {
            vec![(".keys()".to_owned(), *key), ("[]".to_owned(), *value)]
        }
        Shape::Struct { fields, .. } => of_fields(fields),
        Shape::Enum { variants, .. } => {
            variants.iter().flat_map(|variant| of_fields(&variant.fields)).collect()
        }
        Shape::Cell(inner) | Shape::Mutex(inner) | Shape::Box(inner) => vec![(String::new(), *inner)],
        Shape::Array { element, .. } | Shape::Vec { element, .. } | Shape::Deque { element, .. } => {
            vec![("[]".to_owned(), *element)]
        }
    }
}

/// Puts the rows of two layouts side by side: rows that both have beside each other, in the order of each.
fn rows(found: Vec<String>, wanted: Vec<String>) -> Vec<TypeRow> {
    /// Returns the name that a row begins with, after its offset.
    fn key(row: &str) -> &str {
        row.get(7..).and_then(|row| row.split([':', '=']).next()).unwrap_or(row)
    }
    let mut rows = Vec::new();
    let mut rest = wanted.into_iter().peekable();
    for found in found {
        // Those of the program before the row that both have.
        if let Some(at) = rest.clone().position(|wanted| key(&wanted) == key(&found)) {
            rows.extend(rest.by_ref().take(at).map(|wanted| TypeRow { found: None, wanted: Some(wanted) }));
            rows.push(TypeRow { found: Some(found), wanted: rest.next() });
        } else {
            rows.push(TypeRow { found: Some(found), wanted: None });
        }
    }
    rows.extend(rest.map(|wanted| TypeRow { found: None, wanted: Some(wanted) }));
    rows
}

impl fmt::Display for TypeDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TypeDifference { path, names: [found, wanted], numbers, rows } = self;
        write!(f, "{path} differs")?;
        let title = |name: &str, place: &str| format!("{name}, {place}");
        let (left, right) = (title(found, "in the pool"), title(wanted, "in the program"));
        let width = rows.iter().filter_map(|row| row.found.as_ref()).map(|row| row.chars().count()).max();
        let width = width.unwrap_or(0).max(left.chars().count());
        let right_width =
            rows.iter().filter_map(|row| row.wanted.as_ref()).map(|row| row.chars().count()).max();
        let right_width = right_width.unwrap_or(0).max(right.chars().count());
        write!(f, "\n  {left:width$} | {right}")?;
        for row in rows {
            let [found, wanted] = [&row.found, &row.wanted].map(|side| side.as_deref().unwrap_or("-"));
            match row.is_same() {
                true => write!(f, "\n  {found:width$} | {wanted}")?,
                false => write!(f, "\n  {found:width$} | {wanted:right_width$}  <- differs")?,
            }
        }
        if rows.iter().all(TypeRow::is_same) {
            for (place, (size, number)) in ["pool", "program"].into_iter().zip(numbers) {
                write!(f, "\n  in the {place}: {size} bytes, type number {number:#018x}")?;
            }
        }
        Ok(())
    }
}
