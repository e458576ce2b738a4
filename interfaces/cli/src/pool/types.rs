//! `lode pool types`.

use crate::failure::{DAMAGED, Failure};
use crate::output::Output;
use crate::pool::typed_trees;
use lode_heap::{HeapError, Pool, TypedSurvey};
use lode_index::{NamedTree, visit_map};
use lode_layout::{PoolType, Shape, TypeField, TypeId, TypeTable, TypeVariant};
use lode_pmem::Medium;
use lode_pool::{Access, OpenOptions};
use serde_json::{Map, Value, json};
use std::path::Path;

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "path of the pool"),
    ("root", "name of the root's type"),
    ("half_migrated", "whether a migration to these types is not finished"),
    (
        "types",
        "all types: {name, kind, number, size}; number is the type number of their objects, in hexadecimal; size is in \
         bytes",
    ),
    ("types[].fields", "of a struct or tuple: {name, offset, type}, offset in bytes"),
    ("types[].variants", "of an enum: {name, tag, fields}"),
    (
        "types[].of",
        "of a box, cell, mutex, array, vector or queue: the type in it; of a map or hash map: that of its values",
    ),
    ("types[].key", "of a map or hash map: the type of its keys"),
    ("types[].len", "of an array: its number of elements"),
    ("trees", "the trees beside the typed data: {name, key, value}, the types as the program has named them"),
    ("damage", "the reason why the trees can't be listed, or null; the exit code is then 3"),
];

pub(crate) fn run(path: &Path) -> Result<Output, Failure> {
    let failure = || Failure::of_pool("reading the types of a pool", path);
    let pool =
        Pool::open(path, &OpenOptions::new(Access::ReadOnly)).map_err(|error| failure()(error.into()))?;
    let survey = survey(pool.heap()).map_err(|error| failure()(error.into()))?;
    let table = survey.table();
    let half = survey.is_half_migrated();
    let state =
        if half { "a migration to these types is not finished; the program goes on with it\n\n" } else { "" };
    let declared = table.types().filter_map(|(id, ty)| declaration(table, id, ty));
    let text: Vec<String> = declared.collect();
    let types: Vec<Value> = table.types().map(|(id, ty)| description(table, id, ty)).collect();
    let named = typed_trees::named(pool.heap());
    let damage = named.as_ref().err().map(ToString::to_string);
    let trees = named.unwrap_or_default();
    let mut lines: String = trees
        .iter()
        .map(|(name, tree)| format!("\ntree {name:?}: {} -> {}\n", tree.key_type, tree.value_type))
        .collect();
    if let Some(damage) = &damage {
        lines += &format!("\ntrees DAMAGED: {damage}\n");
    }
    let code = if damage.is_some() { DAMAGED } else { 0 };
    let tree = |(name, tree): &(String, NamedTree)| json!({ "name": name, "key": tree.key_type, "value": tree.value_type });
    Ok(Output::text(state.to_owned() + &text.join("\n") + &lines)
        .with("path", path.display().to_string())
        .with("root", table.name(table.root()))
        .with("half_migrated", half)
        .with("types", types)
        .with("trees", trees.iter().map(tree).collect::<Vec<_>>())
        .with("damage", damage)
        .with_exit_code(code))
}

/// Returns the content of a pool of typed data.
///
/// # Errors
/// [`HeapError::NotTyped`] when the pool is another one; as [`TypedSurvey::open`].
pub(crate) fn survey<M: Medium>(heap: &lode_heap::Heap<M>) -> Result<TypedSurvey<'_, M>, HeapError> {
    let none = HeapError::NotTyped { at: lode_layout::PoolOffset::NULL, found: 0 };
    TypedSurvey::open(heap)?.map(|survey| survey.with_maps(visit_map)).ok_or(none)
}

/// Returns the declaration of a struct or enum as text; `None` of another type, or of a tuple.
fn declaration(table: &TypeTable, id: TypeId, ty: &PoolType) -> Option<String> {
    let name = table.name(id);
    let kind = match ty.shape {
        Shape::Struct { .. } if !name.starts_with('(') => "struct",
        Shape::Enum { .. } if !name.starts_with("Option<") => "enum",
        _ => return None,
    };
    let root = if table.root_declared() == id { ", the root" } else { "" };
    let rows: String = table.rows(id).into_iter().map(|row| format!("{row}\n")).collect();
    Some(format!("{kind} {name}, {} bytes{root}\n{rows}", ty.size))
}

/// Returns a type as JSON.
fn description(table: &TypeTable, id: TypeId, ty: &PoolType) -> Value {
    let mut of = Map::new();
    let mut put = |key: &str, value: Value| drop(of.insert(key.to_owned(), value));
    put("name", table.name(id).into());
    put("number", format!("{:#018x}", ty.number).into());
    put("size", ty.size.into());
    let field = |field: &TypeField| json!({ "name": field.name, "offset": field.offset, "type": table.name(field.id) });
    let fields = |fields: &[TypeField]| fields.iter().map(field).collect::<Vec<_>>();
    let kind = match &ty.shape {
        Shape::Number(_) | Shape::Bool | Shape::Char => "value",
        Shape::String { .. } => "string",
        Shape::Text => "text",
        Shape::Bytes => "bytes",
        Shape::Map { key, value, .. } | Shape::HashMap { key, value, .. } => {
            put("key", table.name(*key).into());
            put("of", table.name(*value).into());
            if let Shape::Map { .. } = ty.shape { "map" } else { "hash map" }
        }
        Shape::Struct { name, fields: of_struct } => {
            put("fields", fields(of_struct).into());
            if name.starts_with('(') { "tuple" } else { "struct" }
        }
        Shape::Enum { variants, .. } => {
            let variant = |variant: &TypeVariant| json!({ "name": variant.name, "tag": variant.tag, "fields": fields(&variant.fields) });
            put("variants", variants.iter().map(variant).collect::<Vec<_>>().into());
            "enum"
        }
        Shape::Array { element, len } => {
            put("of", table.name(*element).into());
            put("len", (*len).into());
            "array"
        }
        Shape::Cell(inner) | Shape::Mutex(inner) | Shape::Box(inner) => {
            put("of", table.name(*inner).into());
            match &ty.shape {
                Shape::Cell(_) => "cell",
                Shape::Mutex(_) => "mutex",
                _ => "box",
            }
        }
        Shape::Vec { element, .. } => {
            put("of", table.name(*element).into());
            "vector"
        }
        Shape::Deque { element, .. } => {
            put("of", table.name(*element).into());
            "queue"
        }
    };
    put("kind", kind.into());
    Value::Object(of)
}
