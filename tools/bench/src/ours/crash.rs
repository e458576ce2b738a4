//! crash-images: how fast the crash explorer makes images, recovers from them and checks them.

use anyhow::{Result, bail};
use lode_heap::explore::{HeapSubject, LogSubject};
use lode_index::explore::TreeSubject;
use lode_sim::{Report, Setup, Subject, explore};

/// Number of images of an exploration. The clock is read between two of them.
const IMAGES: u64 = 2_000;

/// Returns the crash images per second of explorations that take `seconds`, in which one thread runs `operations`
/// operations.
fn rate(subject: &impl Subject, operations: u64, seconds: f64) -> Result<f64> {
    let mut total = Report::default();
    while total.seconds < seconds {
        let setup = Setup { operations, images: IMAGES, seed: total.runs + 1, ..Setup::default() };
        let report = explore(subject, &setup);
        if let Some(violation) = &report.violation {
            bail!("the explorer found a violation: {violation}");
        }
        total.images += report.images;
        total.runs += report.runs;
        total.seconds += report.seconds;
    }
    Ok(total.images_per_second())
}

/// Returns the crash images per second of an exploration of a log with one ring of 64 KiB.
pub(super) fn log_image_rate(seconds: f64) -> Result<f64> {
    rate(&LogSubject { size: 0x1_8000, log_len: 0x1_0000 }, 150, seconds)
}

/// Returns a note with the crash images per second of a heap and of a tree.
pub(super) fn other_image_rates(seconds: f64) -> Result<String> {
    let heap = rate(&HeapSubject { size: 0x30000, sizes: 5, later: false }, 120, seconds)?;
    let tree = rate(&TreeSubject { size: 0x80000, in_batches: false }, 90, seconds)?;
    Ok(format!("crash-images: {heap:.0} images/s of a heap, {tree:.0} of a tree"))
}
