//! `lode pool copy`.

use crate::durability::DurabilityOption;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::pool::size;
use crate::progress::Progress;
use clap::Args;
use lode_kv::{CopyError, CopyEvents, CopySource};
use std::path::PathBuf;

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "path of the pool"),
    ("size_before", "its size in bytes"),
    ("copy", "path of the copy"),
    ("size", "the size of the copy in bytes"),
    ("keys", "keys in the copy, in all trees"),
];

#[derive(Args, Debug)]
pub(crate) struct Copy {
    /// The pool's file or device
    source: PathBuf,
    /// The file of the copy, which does not exist yet
    target: PathBuf,
}

/// Shows the progress of a copy.
struct Reporter {
    progress: Progress,
    interrupt: Interrupt,
}

impl CopyEvents for Reporter {
    fn copied(&self, keys: u64) {
        self.progress.add(keys);
    }

    fn stopped(&self) -> bool {
        self.interrupt.is_set()
    }
}

pub(crate) fn run(copy: &Copy, durability: DurabilityOption) -> Result<Output, Failure> {
    let what = "copying a pool";
    let Copy { source, target } = copy;
    let interrupt = Interrupt::listen()?;
    let pool = CopySource::open(source).map_err(Failure::of_pool(what, source))?;
    let count = pool.count().map_err(Failure::of_pool(what, source))?;
    let reporter = Reporter { progress: Progress::of_items("keys copied", count), interrupt };
    let copied = pool.copy_to(target, durability.forced(), &reporter).map_err(|error| match error {
        CopyError::Source(error) => Failure::of_pool(what, source)(error),
        CopyError::Target(error) => Failure::of_pool(what, target)(error),
        _ => Failure::interrupted(format!("{what}: interrupted; {} was not made", target.display())),
    })?;
    let before = pool.size();
    drop(reporter);
    let text = format!(
        "{}: a copy of {} with {} keys, {} instead of {}\n",
        target.display(),
        source.display(),
        copied.keys,
        size(copied.size),
        size(before)
    );
    Ok(Output::text(text)
        .with("path", source.display().to_string())
        .with("size_before", before)
        .with("copy", target.display().to_string())
        .with("size", copied.size)
        .with("keys", copied.keys))
}
