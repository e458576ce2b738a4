//! Counts of tests: passed, failed with reasons, skipped, the time of each, and the images of power cuts that were
//! recovered from.

use crate::failure::Failure;
use std::collections::BTreeMap;
use std::time::Duration;

/// Tests that ran, and tests that skipped themselves with a reason.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Distinct images that the crash explorer tried.
    pub(crate) images: u64,
    /// Reason of each test that skipped itself, by the test's name.
    pub(crate) skips: BTreeMap<String, String>,
    /// The tests that failed, if their names are known, and other failed steps.
    pub(crate) failures: Vec<Failure>,
    /// The first error that is not a failed test.
    pub(crate) error: Option<String>,
    /// Time of each test that ran in a process of its own.
    pub(crate) times: Vec<(Duration, String)>,
}

impl Tally {
    /// Reads a line of a test program's output.
    pub(crate) fn read(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.passed += count(counts, "passed");
            self.failed += count(counts, "failed");
        } else if let Some((before, _)) = line.split_once(" images (") {
            self.images += before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        } else if let Some((name, reason)) = line.strip_prefix("SKIP ").and_then(|skip| skip.split_once(": "))
        {
            self.skips.insert(name.to_owned(), reason.to_owned());
        }
    }

    /// Adds the counts of another run.
    pub(crate) fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.images += other.images;
        self.skips.extend(other.skips);
        self.failures.extend(other.failures);
        self.error = self.error.take().or(other.error);
        self.times.extend(other.times);
    }
}

/// Returns the number before `word` in a line such as `ok. 3 passed; 0 failed; 1 ignored`.
fn count(counts: &str, word: &str) -> u64 {
    let words: Vec<&str> = counts.split([' ', ';', '.']).filter(|part| !part.is_empty()).collect();
    let at = words.iter().position(|part| *part == word);
    at.and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn test_output_is_parsed() {
        let mut tally = Tally::default();
        for line in [
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: FAILED. 12 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s",
            "SKIP dax_maps_with_sync: no DAX file system is mounted",
            "SKIP without a reason",
            "tree, x86-line, 2 threads: 751 images (24 inside recovery, 845 checks) at 66 crash points",
            "no images (at all)",
        ] {
            tally.read(line);
        }
        assert_eq!((tally.passed, tally.failed, tally.images), (15, 2, 751));
        assert_eq!(tally.skips.len(), 1);
        assert_eq!(tally.skips["dax_maps_with_sync"], "no DAX file system is mounted");
    }
}
