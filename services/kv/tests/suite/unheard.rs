//! Loads whose events no test looks at.

use lode_kv::{LineError, LoadEvents};
use std::io;

/// Ignores the events of a load.
pub(crate) struct Unheard;

impl LoadEvents for Unheard {
    fn durable(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
    fn skipped(&self, _: u64, _: &LineError) {}
    fn stopped(&self) -> bool {
        false
    }
}
