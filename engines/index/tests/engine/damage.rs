//! Damage of pools in memory: places, and bytes for them.

use fastrand::Rng;
use lode_layout::{CHUNK, Geometry};
use std::fmt;
use std::ops::Range;

/// Damaged places: their offsets, lengths, and kinds of content.
#[derive(Debug)]
pub(crate) struct Places(Vec<(usize, u64, u8)>);

impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x?}", self.0)
    }
}

/// Damages up to five places of `bytes`, of up to 63 bytes each, in `ranges`.
pub(crate) fn damage(bytes: &mut [u8], ranges: &[Range<u64>], random: &mut Rng) -> Places {
    let places = (0..random.usize(1..6)).map(|_| {
        let range = &ranges[random.usize(..ranges.len())];
        let len = random.u64(1..64).min(range.end - range.start);
        let at = random.u64(range.start..=range.end - len) as usize;
        let fill = random.u8(..4);
        for byte in &mut bytes[at..at + len as usize] {
            *byte = match fill {
                0 => 0,
                1 => 0xFF,
                _ => random.u8(..),
            };
        }
        (at, len, fill)
    });
    Places(places.collect())
}

/// Returns the ranges of the headers of the heap: the chunk table, and the start of each chunk, where a superblock may be.
pub(crate) fn heap_headers(geometry: &Geometry) -> Vec<Range<u64>> {
    let extent = geometry.extents()[0];
    let chunks = (extent.start.get() + extent.table_len..extent.end().get()).step_by(CHUNK as usize);
    let table = extent.start.get()..extent.start.get() + 256;
    chunks.map(|chunk| chunk..chunk + 256).chain([table]).collect()
}

/// Returns the range of the log.
pub(crate) fn log(geometry: &Geometry) -> Range<u64> {
    geometry.log_off().get()..geometry.log_off().get() + geometry.log_len()
}
