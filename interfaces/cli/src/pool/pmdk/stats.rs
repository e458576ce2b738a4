//! `lode pool stats` of a pool of libpmemobj.

use super::{PmdkPool, objects};
use crate::failure::Failure;
use crate::output::Output;
use crate::pool::size;
use crate::progress::Progress;
use lode_layout::{PmdkHeap, PmdkKind};
use lode_obj::ObjView;
use serde_json::{Value, json};

/// The fields of the statistics of a pool of PMDK.
pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "path of the pool"),
    ("size", "bytes of its heap"),
    ("objects", "objects in it, the root apart"),
    ("internal_objects", "objects of libpmemobj: the root, and extensions of logs"),
    ("allocated", "bytes of all objects, with their headers"),
    ("run_allocated", "bytes of those that are in runs"),
    ("free_chunks", "chunks of 256 KiB that are free"),
    ("used_chunks", "chunks of objects that have chunks for themselves"),
    ("run_chunks", "chunks of runs"),
    ("largest_free", "free chunks in a row, at most"),
    ("runs", "for each block size of runs: {block_size, runs, blocks, used}"),
];

/// Counts what the heap holds after a recovery, which happens in a private view.
///
/// # Errors
/// A failure if the pool is of another library, is in use, or its descriptor is damaged.
pub(crate) fn stats(pool: &PmdkPool) -> Result<Output, Failure> {
    const WHAT: &str = "reading a pool";
    if pool.kind != PmdkKind::Objects {
        let what = format!("a pool of {} has no statistics; see `lode pool info`", pool.library());
        return Err(Failure::new(WHAT, what));
    }
    let _progress = Progress::spinner("counting");
    let (medium, _) = objects::recovered(WHAT, pool)?;
    let damaged = |error| Failure::damage(WHAT, error);
    let view = ObjView::open(&medium).map_err(damaged)?;
    let found = view.statistics().map_err(damaged)?;
    let path = pool.inspection.path().display().to_string();
    let bytes = |chunks: u64| size(chunks * PmdkHeap::CHUNK);
    let mut text = format!("{path}: heap of {}\n", size(view.heap_size()));
    text += &format!("objects  {}, {}\n", found.objects, size(found.allocated.0));
    text += &format!("free     {}, longest run {}\n", bytes(found.free_chunks), bytes(found.largest_free));
    text += &format!("huge     {}\n", bytes(found.used_chunks));
    text += &format!("runs     {}\n", bytes(found.run_chunks));
    for (block_size, of_size) in &found.runs {
        let lode_obj::RunStatistics { runs, blocks, used } = of_size;
        text += &format!("  {block_size:>7} bytes: {used} of {blocks} blocks in {runs} runs\n");
    }
    let runs: Vec<Value> = found
        .runs
        .iter()
        .map(|(block_size, of_size)| {
            json!({
                "block_size": block_size,
                "runs": of_size.runs,
                "blocks": of_size.blocks,
                "used": of_size.used,
            })
        })
        .collect();
    Ok(Output::text(text)
        .with("path", path)
        .with("size", view.heap_size())
        .with("objects", found.objects)
        .with("internal_objects", found.internal_objects)
        .with("allocated", found.allocated.0)
        .with("run_allocated", found.allocated.1)
        .with("free_chunks", found.free_chunks)
        .with("used_chunks", found.used_chunks)
        .with("run_chunks", found.run_chunks)
        .with("largest_free", found.largest_free)
        .with("runs", runs))
}
