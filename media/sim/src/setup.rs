//! The parameters of an exploration.

use crate::machine::{Cpu, Machine};
use lode_pmem::Durability;

/// Returns a number of images for tests: `images` times the number in the environment variable `LODE_BUDGET`, 10 for a
/// night, 0.1 for a quick look.
pub fn scaled_images(images: u64) -> u64 {
    let factor = std::env::var("LODE_BUDGET").ok().and_then(|text| text.parse::<f64>().ok()).unwrap_or(1.0);
    (images as f64 * factor) as u64
}

/// The parameters of an exploration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// The machine that loses power.
    pub machine: Machine,
    /// Number of logical threads, 1 to 3.
    pub threads: usize,
    /// Number of operations of each logical thread in a run.
    pub operations: u64,
    /// Seed of the first run; each later run uses the next number.
    pub seed: u64,
    /// Number of different images after which an exploration ends; for [`explore_poison`](crate::explore_poison()), of
    /// recoveries. It ends before if many runs in a row bring no new one. The clock ends only a run that hangs.
    pub images: u64,
    /// True if a drain fails in some runs, at durability commit.
    pub failing_drains: bool,
    /// All images of a crash point are tried if they are no more than this.
    pub exhaustive: u64,
    /// Number of images drawn by seed at crash points that have more. The images with no, all, one, and all but one
    /// lines come on top.
    pub samples: u64,
    /// One in this many recoveries is recorded, and power is cut inside of it. With 0, none is.
    pub nested_one_in: u64,
    /// True if the explorer looks for the violation in shorter workloads, too.
    pub shrink: bool,
}

impl Setup {
    /// Returns the default setup for threads that share so many operations. Drains fail in some runs where a drain can fail: at
    /// durability commit.
    pub fn shared(machine: Machine, threads: usize, operations: u64) -> Setup {
        let failing_drains = machine.durability == Durability::Commit;
        Setup {
            machine,
            threads,
            operations: operations / threads as u64,
            failing_drains,
            ..Setup::default()
        }
    }
}

impl Default for Setup {
    /// Returns a setup of a single thread with 20 operations, on an x86 machine of durability line, for 10,000
    /// images.
    fn default() -> Setup {
        Setup {
            machine: Machine { cpu: Cpu::X86, durability: Durability::Line },
            threads: 1,
            operations: 20,
            seed: 1,
            images: 10_000,
            failing_drains: false,
            exhaustive: 1 << 11,
            samples: 32,
            nested_one_in: 256,
            shrink: true,
        }
    }
}
