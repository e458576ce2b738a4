//! Pools that an earlier build made, in a crate's folder `tests/images`, without their zeros.
//!
//! An image is the length of the pool (8 bytes), then its parts that are not zero, in order: offset and length (4 bytes
//! each), and the bytes. All numbers are little-endian.

use std::fs;
use std::path::{Path, PathBuf};

/// Parts begin and end at multiples of this.
const UNIT: usize = 16;

/// The images of a crate.
#[derive(Clone, Copy, Debug)]
pub struct StoredPools {
    /// The crate's folder, `env!("CARGO_MANIFEST_DIR")`.
    pub manifest_dir: &'static str,
}

impl StoredPools {
    /// Returns the path of the image `name`.
    pub fn path(self, name: &str) -> PathBuf {
        Path::new(self.manifest_dir).join("tests/images").join(name).with_extension("image")
    }

    /// Writes the image `name` of a pool with this content.
    pub fn write(self, name: &str, pool: &[u8]) {
        let mut image = (pool.len() as u64).to_le_bytes().to_vec();
        let is_zero = |unit: &[u8]| unit.iter().all(|byte| *byte == 0);
        let mut units = pool.chunks(UNIT).enumerate().filter(|(_, unit)| !is_zero(unit)).peekable();
        while let Some((first, unit)) = units.next() {
            let mut part = unit.to_vec();
            let mut next = first + 1;
            while let Some((_, unit)) = units.next_if(|(index, _)| *index == next) {
                part.extend_from_slice(unit);
                next += 1;
            }
            for number in [first * UNIT, part.len()] {
                image.extend_from_slice(&u32::try_from(number).unwrap().to_le_bytes());
            }
            image.extend_from_slice(&part);
        }
        fs::write(self.path(name), image).unwrap();
    }

    /// Makes a file with the pool of the image `name` at `to`.
    pub fn unpack(self, name: &str, to: &Path) {
        let path = self.path(name);
        let image = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (len, mut rest) = image.split_first_chunk().unwrap();
        let mut pool = vec![0; u64::from_le_bytes(*len) as usize];
        while !rest.is_empty() {
            let mut number = || {
                let (bytes, after) = rest.split_first_chunk().unwrap();
                rest = after;
                u32::from_le_bytes(*bytes) as usize
            };
            let (at, len) = (number(), number());
            let (part, after) = rest.split_at(len);
            pool[at..at + len].copy_from_slice(part);
            rest = after;
        }
        fs::write(to, pool).unwrap();
    }
}
