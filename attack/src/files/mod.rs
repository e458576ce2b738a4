//! Hostile files: pools with damage, and whether what is read from them is right or an error.
//!
//! ```text
//!   Victim     a pool of known keys and values, as bytes, and where its objects lie
//!   Damage     what is changed: bits, lines, pages, digits, the length
//!   Way        how the pool is used: the library in this process, or the program
//!   judge      each answer against what is known: exit 0 means all of it and right
//! ```

mod damage;
mod judge;
mod library;
mod program;
mod victim;
mod way;

pub use damage::{Damage, Kind};
pub use library::Library;
pub use program::Program;
pub use victim::Victim;
pub use way::{Answer, End, Pair, Refusal, Repaired, Wanted, Way};

use crate::Finding;
use crate::progress::Steps;
use crate::scratch;
use anyhow::Result;
use fastrand::Rng;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Seeds that differ by this many make victims of the same kind: large or small, closed or not.
pub const SEEDS: u64 = 6;

/// Samples of a run, and where findings are kept.
#[derive(Clone, Debug)]
pub struct Samples {
    /// From which all follows.
    pub seed: u64,
    /// Their numbers.
    pub numbers: Range<u64>,
    /// The folder to which damaged pools are copied on which something was found.
    pub keep: Option<PathBuf>,
}

/// What a run has looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Damaged files.
    pub samples: u64,
    /// Those that could still be exported whole.
    pub exported: u64,
    /// Those in which the check found damage.
    pub noticed: u64,
    /// Those that were repaired.
    pub repaired: u64,
}

/// Damages pools and uses each in one `way`; hands what is wrong to `found`.
///
/// # Errors
/// A victim or a file can't be made.
pub fn attack(
    samples: &Samples,
    way: &dyn Way,
    steps: &mut Steps<'_>,
    found: &mut dyn FnMut(Finding),
) -> Result<Tally> {
    let folder = scratch()?;
    let path = folder.path().join("victim.pool");
    let victim = Victim::make(samples.seed, &path)?;
    let mut tally = Tally::default();
    for number in samples.numbers.clone() {
        let mut rng = sample_rng(samples.seed, number);
        let damage = Damage::draw(&mut rng, &victim);
        steps.begin(format_args!("sample {number} of seed {}: {damage}", samples.seed));
        let image = damage.apply(&victim.image);
        fs::write(&path, &image)?;
        tally.samples += 1;
        let mut kept = None;
        judge::judge(&mut rng, &victim, &damage, &path, way, &mut tally, &mut |class, what| {
            kept = kept.take().or_else(|| keep(samples, number, &image));
            let file =
                kept.as_deref().map_or(String::new(), |path| format!("; the file: {}", path.display()));
            let repeat = format!("--seed {} --sample {number}", samples.seed);
            found(Finding::new(class, format_args!("{what} ({damage}; {repeat}{file})")));
        })?;
    }
    Ok(tally)
}

/// The choices of one sample: the same whatever samples ran before.
fn sample_rng(seed: u64, number: u64) -> Rng {
    Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ number)
}

/// Copies the damaged pool to where it stays.
fn keep(samples: &Samples, number: u64, image: &[u8]) -> Option<PathBuf> {
    let folder: &Path = samples.keep.as_deref()?;
    let path = folder.join(format!("damaged-{}-{number}.pool", samples.seed));
    fs::create_dir_all(folder).and_then(|()| fs::write(&path, image)).ok().map(|()| path)
}
