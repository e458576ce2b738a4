//! `lode pool create`.

use crate::durability::DurabilityOption;
use crate::failure::Failure;
use crate::output::Output;
use crate::pool::size;
use crate::progress::Progress;
use clap::Args;
use lode_heap::Pool;
use lode_kv::{KvError, LAYOUT_NAME, Store};
use lode_layout::LayoutName;
use lode_pool::CreateOptions;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

/// First size in bytes of a pool in a file: the largest that an empty store should take.
const SIZE_DEFAULT: u64 = 256 << 10;
/// The error of a pool on a device without a size.
const NO_SIZE: &str = "a pool on a device does not grow by itself; choose its size with --size";

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "path of the pool"),
    ("uuid", "its identity"),
    ("layout", "layout of its content"),
    ("size", "its size in bytes"),
    ("size_max", "the size in bytes up to which it grows by itself, or null"),
    ("durability", "what makes a store durable: byte, line, commit or none"),
    ("how", "evidence for that durability"),
];

#[derive(Args, Debug)]
pub(crate) struct Create {
    /// A file that does not exist yet, or a device-DAX node
    path: PathBuf,
    /// First size of the pool: 64MiB, 64M, 1GB, or a number of bytes [default: 256KiB, in a file]
    ///
    /// A pool in a file grows by itself, by half of its size or an eighth of a large one. A pool on a device does not.
    #[arg(long, value_name = "SIZE", value_parser = crate::size::parse)]
    size: Option<u64>,
    /// Size up to which a pool in a file grows by itself [default: 1TiB]
    ///
    /// The value of --size makes a pool that takes all its space now and does not grow.
    #[arg(long, value_name = "SIZE", value_parser = crate::size::parse)]
    size_max: Option<u64>,
    /// Layout of the pool's content
    #[arg(long, value_name = "NAME", default_value = LAYOUT_NAME, value_parser = layout)]
    layout: LayoutName,
    /// Overwrite what is on the device. A file is never overwritten
    #[arg(long)]
    overwrite_device: bool,
}

fn layout(text: &str) -> Result<LayoutName, String> {
    LayoutName::new(text).map_err(|error| error.to_string())
}

pub(crate) fn run(create: &Create, durability: DurabilityOption) -> Result<Output, Failure> {
    let (what, holds_tree) = ("creating a pool", create.layout.as_str() == LAYOUT_NAME);
    let is_device = fs::metadata(&create.path).is_ok_and(|found| found.file_type().is_char_device());
    let size_chosen = match create.size {
        Some(size) => size,
        None if is_device => return Err(Failure::new(what, format!("{}: {NO_SIZE}", create.path.display()))),
        None => SIZE_DEFAULT,
    };
    let defaults = CreateOptions::new(size_chosen, create.layout);
    let options = CreateOptions {
        size_max: create.size_max.or(defaults.size_max),
        durability: durability.forced(),
        overwrite_device: create.overwrite_device,
        ..defaults
    };
    let progress = Progress::spinner("writing the pool");
    let describe = |pool: &Pool| (pool.header(), pool.report().clone());
    let made = if holds_tree {
        Store::create(&create.path, &options).and_then(|store| {
            let made = describe(store.pool());
            store.close().map(|()| made)
        })
    } else {
        Pool::create(&create.path, &options).map_err(KvError::from).and_then(|pool| {
            let made = describe(&pool);
            Ok(pool.close().map(|()| made)?)
        })
    };
    let (header, report) = made.map_err(Failure::of_pool(what, &create.path))?;
    drop(progress);
    let text = format!(
        "{}: a pool of {}, layout {}, {report}\n",
        create.path.display(),
        size(header.geometry.size()),
        header.layout,
    );
    Ok(Output::text(text)
        .with("path", create.path.display().to_string())
        .with("uuid", header.uuid.to_string())
        .with("layout", header.layout.to_string())
        .with("size", header.geometry.size())
        .with("size_max", (header.size_max > 0).then_some(header.size_max))
        .with("durability", report.durability.to_string())
        .with("how", report.to_string()))
}
