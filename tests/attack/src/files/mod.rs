//! Hostile files: damaged pools, from which every answer must be right or an error.
//!
//! ```text
//!   TargetPool a pool of known keys and values, as bytes, and where its objects lie
//!   Damage     what is changed: bits, lines, pages, digits, the length
//!   PoolAccess how the pool is used: the library in this process, or the program
//!   verify     each result against the known content: exit 0 means that it is complete and right
//! ```

mod access;
mod damage;
mod library;
mod program;
mod target;
mod verify;

pub use access::{Failure, KeyBound, Pair, PoolAccess, RepairResult, Response, ScanRequest};
pub use damage::{Damage, Kind};
pub use library::Library;
pub use program::Program;
pub use target::TargetPool;

use crate::Finding;
use crate::progress::StepRecorder;
use crate::scratch_folder;
use anyhow::Result;
use fastrand::Rng;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Victims whose seeds differ by a multiple of this are of the same kind: large or small, closed or not.
pub const TARGET_KINDS: u64 = 6;

/// The samples of a run, and the folder for those with findings.
#[derive(Clone, Debug)]
pub struct Samples {
    /// The seed from which everything follows.
    pub seed: u64,
    /// Numbers of the samples.
    pub numbers: Range<u64>,
    /// Folder for copies of the damaged pools that gave a finding.
    pub keep: Option<PathBuf>,
}

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Number of damaged files.
    pub samples: u64,
    /// Number of those that could still be exported whole.
    pub exported: u64,
    /// Number of those in which the check found damage.
    pub detected: u64,
    /// Number of those that were repaired.
    pub repaired: u64,
}

/// Damages pools, uses each in one `access`, and passes each wrong result to `found`.
///
/// # Errors
/// Fails if a pool or a file can't be made.
pub fn attack(
    samples: &Samples,
    access: &dyn PoolAccess,
    steps: &mut StepRecorder<'_>,
    found: &mut dyn FnMut(Finding),
) -> Result<Tally> {
    let folder = scratch_folder()?;
    let path = folder.path().join("victim.pool");
    let target = TargetPool::make(samples.seed, &path)?;
    let mut tally = Tally::default();
    for number in samples.numbers.clone() {
        let mut rng = sample_rng(samples.seed, number);
        let damage = Damage::draw(&mut rng, &target);
        steps.begin(format_args!("sample {number} of seed {}: {damage}", samples.seed));
        let image = damage.apply(&target.image);
        fs::write(&path, &image)?;
        tally.samples += 1;
        let mut kept = None;
        verify::verify_pool(&mut rng, &target, &damage, &path, access, &mut tally, &mut |class, what| {
            kept = kept.take().or_else(|| keep(samples, number, &image));
            let file =
                kept.as_deref().map_or(String::new(), |path| format!("; the file: {}", path.display()));
            let repeat = format!("--seed {} --sample {number}", samples.seed);
            found(Finding::new(class, format_args!("{what} ({damage}; {repeat}{file})")));
        })?;
    }
    Ok(tally)
}

/// Returns the generator for one sample, which does not depend on the samples before it.
fn sample_rng(seed: u64, number: u64) -> Rng {
    Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ number)
}

/// Copies the damaged pool to the folder for findings.
fn keep(samples: &Samples, number: u64, image: &[u8]) -> Option<PathBuf> {
    let folder: &Path = samples.keep.as_deref()?;
    let path = folder.join(format!("damaged-{}-{number}.pool", samples.seed));
    fs::create_dir_all(folder).and_then(|()| fs::write(&path, image)).ok().map(|()| path)
}
