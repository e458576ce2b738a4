//! `lode pool stats`.

use crate::failure::Failure;
use crate::output::Output;
use crate::pool::size;
use crate::progress::Progress;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use lode_follow::{BlockClass, Followed, PoolStats};
use lode_kv::{CountedTree, LAYOUT_NAME, NamedTrees, StoreReader, escape_word};
use serde_json::{Value, json};
use std::path::Path;

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "path of the pool"),
    ("size", "its size in bytes"),
    ("free_bytes", "bytes that are free, in chunks and in blocks"),
    ("free_chunk_bytes", "bytes of unused chunks"),
    ("largest_free", "bytes of the longest run of free chunks"),
    ("huge_count", "objects that have chunks of their own"),
    ("huge_bytes", "bytes of those chunks"),
    ("classes", "for each block size: {block_size, superblocks, blocks, used}"),
    ("keys", "keys in it, in all trees; null where its layout is neither kv nor store"),
    (
        "trees",
        "with the layout store: {name, keys, key_type, value_type} for each tree; null where it is another",
    ),
    ("load", "the progress of a load: {lines, offset}, or null"),
];

pub(crate) fn run(path: &Path) -> Result<Output, Failure> {
    let failure = || Failure::of_pool("reading a pool", path);
    let _progress = Progress::spinner("counting");
    let pool = Followed::open(path, None).map_err(|error| failure()(error.into()))?;
    let stats = pool.stats().map_err(|error| failure()(error.into()))?;
    let (mut keys, mut load, mut trees) = (None, None, None);
    if pool.layout().as_str() == LAYOUT_NAME {
        let store = StoreReader::new(pool).map_err(failure())?;
        keys = Some(store.count().map_err(failure())?);
        load = store.load_progress().map_err(failure())?;
    } else if pool.layout() == NamedTrees::layout_name() {
        let counted = NamedTrees::new(pool).counted().map_err(failure())?;
        keys = Some(counted.keys);
        trees = Some(counted.trees);
    }
    let mut text = format!("{}: {}\n", path.display(), size(stats.size));
    text += &format!("free     {}, longest run {}\n", size(stats.free), size(stats.largest_free));
    text += &format!("huge     {} objects, {}\n", stats.huge_count, size(stats.huge_bytes));
    if let Some(keys) = keys {
        text += &format!("keys     {keys}\n");
    }
    if let Some(load) = load {
        text += &format!("load     {} lines, {}\n", load.lines, size(load.offset));
    }
    if let Some(trees) = trees.as_ref().filter(|trees| !trees.is_empty()) {
        text += &format!("{}\n", tree_table(trees).trim_fmt());
    }
    text += &format!("{}\n", occupancy(&stats));
    Ok(Output::text(text)
        .with("path", path.display().to_string())
        .with("size", stats.size)
        .with("free_bytes", stats.free)
        .with("free_chunk_bytes", stats.free_chunks)
        .with("largest_free", stats.largest_free)
        .with("huge_count", stats.huge_count)
        .with("huge_bytes", stats.huge_bytes)
        .with("classes", classes(&stats))
        .with("keys", keys)
        .with("trees", trees.map(tree_fields))
        .with("load", load.map(|load| json!({ "lines": load.lines, "offset": load.offset }))))
}

fn tree_table(trees: &[CountedTree]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["keys", "tree", "type of keys", "type of values"]);
    for CountedTree { name, keys, tree } in trees {
        let [name, key_type, value_type] =
            [name, &tree.key_type, &tree.value_type].map(|text| escape_word(text.as_bytes()));
        table.add_row([keys.to_string(), name, key_type, value_type]);
    }
    if let Some(keys) = table.column_mut(0) {
        keys.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn tree_fields(trees: Vec<CountedTree>) -> Value {
    let fields = |CountedTree { name, keys, tree }: CountedTree| json!({ "name": name, "keys": keys, "key_type": tree.key_type, "value_type": tree.value_type });
    trees.into_iter().map(fields).collect()
}

fn occupancy(stats: &PoolStats) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["block bytes", "superblocks", "blocks", "used", "used %"]);
    for class in &stats.classes {
        let percent = 100.0 * class.used as f64 / class.blocks.max(1) as f64;
        table.add_row([
            class.block_size.to_string(),
            class.superblocks.to_string(),
            class.blocks.to_string(),
            class.used.to_string(),
            format!("{percent:.1}"),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn classes(stats: &PoolStats) -> Value {
    let class = |class: &BlockClass| {
        json!({
            "block_size": class.block_size,
            "superblocks": class.superblocks,
            "blocks": class.blocks,
            "used": class.used,
        })
    };
    stats.classes.iter().map(class).collect()
}
