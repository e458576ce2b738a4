//! `lode pool shrink`.

use crate::durability::DurabilityOption;
use crate::failure::Failure;
use crate::hint::CHECK_POOL;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::pool::{PoolArgs, size};
use crate::progress::Progress;
use lode_fsck::{ShrinkError, ShrinkEvents, shrink_pool};
use lode_index::{IndexError, StoreLayout};
use lode_kv::{KvError, LAYOUT};
use lode_pool::{Access, OpenOptions};
use std::cell::Cell;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes of a block of `st_blocks`.
const BLOCK: u64 = 512;

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "path of the pool"),
    ("size_before", "its size in bytes before"),
    ("size", "its size in bytes now"),
    ("disk_before", "bytes that its file took on the disk before"),
    ("disk", "bytes that its file takes on the disk now"),
    ("moved", "objects that were moved"),
];

/// Shows the progress of shrinking.
struct Reporter {
    progress: Progress,
    interrupt: Interrupt,
    moved: Cell<u64>,
}

impl ShrinkEvents for Reporter {
    fn moved(&self, objects: u64) {
        self.progress.add(objects);
        self.moved.set(self.moved.get() + objects);
    }

    fn is_stopped(&self) -> bool {
        self.interrupt.is_set()
    }
}

pub(crate) fn run(args: &PoolArgs, durability: DurabilityOption) -> Result<Output, Failure> {
    let (what, path) = ("shrinking a pool", args.path.as_path());
    let interrupt = Interrupt::listen()?;
    let options = OpenOptions { durability: durability.forced(), ..OpenOptions::new(Access::ReadWrite) };
    let disk_before = disk_bytes(path);
    let progress = Progress::spinner("shrinking the pool");
    let reporter = Reporter { progress, interrupt, moved: Cell::new(0) };
    let shrunk = shrink_pool(path, &options, &[&LAYOUT, &StoreLayout], &reporter);
    let moved = reporter.moved.get();
    drop(reporter);
    let shrunk = shrunk.map_err(|error| match error {
        ShrinkError::Open(error) => Failure::of_pool(what, path)(error.into()),
        ShrinkError::Layout(error) => match error.downcast::<IndexError>() {
            Ok(error) => Failure::of_pool(what, path)(KvError::Index(*error)),
            Err(error) => Failure::new(what, format_args!("{}: {error}", path.display())),
        },
        ShrinkError::Damaged { .. } => {
            Failure::damage(what, format_args!("{}: {error}{CHECK_POOL}", path.display()))
        }
        ShrinkError::Stopped => Failure::interrupted(format!("{what}: {}: {error}", path.display())),
        error => Failure::new(what, format_args!("{}: {error}", path.display())),
    })?;
    let (before, after, disk) = (shrunk.size_before, shrunk.size, disk_bytes(path));
    let text = format!(
        "{}: shrunk from {} to {}; it takes {} of the disk\n",
        path.display(),
        size(before),
        size(after),
        disk.map_or_else(|| "an unknown part".to_owned(), size)
    );
    Ok(Output::text(text)
        .with("path", path.display().to_string())
        .with("size_before", before)
        .with("size", after)
        .with("disk_before", disk_before)
        .with("disk", disk)
        .with("moved", moved))
}

/// Returns the bytes that the file takes on the disk; `None` if the kernel does not tell.
fn disk_bytes(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|found| found.blocks() * BLOCK)
}
