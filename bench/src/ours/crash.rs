//! crash-images: how fast the crash explorer makes images of the log and of the heap, and checks them.

#[path = "../../../heap/tests/subjects/heap.rs"]
mod heap;
#[path = "../../../heap/tests/subjects/log.rs"]
mod log;

use self::heap::HeapSubject;
use self::log::LogSubject;
use anyhow::{Result, bail};
use lode_sim::{Budget, Setup, Subject, explore};

/// Images a second of an exploration of so many seconds, by one thread.
fn rate(subject: &impl Subject, seconds: f64) -> Result<f64> {
    let setup = Setup { operations: 150, budget: Budget { images: u64::MAX, seconds }, ..Setup::default() };
    let report = explore(subject, &setup);
    if let Some(violation) = &report.violation {
        bail!("the explorer found a violation: {violation}");
    }
    Ok(report.images_per_second())
}

/// Images a second of a log ring of 64 KiB.
pub(super) fn of_log(seconds: f64) -> Result<f64> {
    rate(&LogSubject { size: 0x1_8000, log_len: 0x1_0000 }, seconds)
}

/// Images a second of a heap.
pub(super) fn of_heap(seconds: f64) -> Result<f64> {
    rate(&HeapSubject { size: 0x30000, sizes: 5 }, seconds)
}
