//! The parameters of an exploration.

use crate::machine::{Cpu, Machine};
use lode_pmem::Durability;

/// The limits that end an exploration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Number of different images to try.
    pub images: u64,
    /// Seconds to try them in.
    pub seconds: f64,
}

impl Budget {
    /// Returns a budget for tests. A number in the environment variable `LODE_BUDGET` multiplies the images, and if it
    /// is above 1 also the seconds: 10 for a night, 0.1 for a quick look.
    pub fn scaled(images: u64, seconds: f64) -> Budget {
        let factor =
            std::env::var("LODE_BUDGET").ok().and_then(|text| text.parse::<f64>().ok()).unwrap_or(1.0);
        Budget { images: (images as f64 * factor) as u64, seconds: seconds * factor.max(1.0) }
    }
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
    /// Limits that end the exploration.
    pub budget: Budget,
    /// True if a drain fails in some runs, at durability commit.
    pub failing_drains: bool,
    /// All images of a crash point are tried if they are no more than this.
    pub exhaustive: u64,
    /// Number of images drawn by seed at crash points that have more. The images with no, all, one, and all but one
    /// lines come on top.
    pub samples: u64,
    /// One in this many recoveries is recorded, and power is cut inside of it. With 0, none is.
    pub nested_one_in: u64,
    /// True if the explorer looks for the violation in shorter workloads, too, which takes up to a second for each.
    pub shrink: bool,
}

impl Default for Setup {
    /// Returns a setup of a single thread with 20 operations, on an x86 machine of durability line, for 10,000 images
    /// and at most a minute.
    fn default() -> Setup {
        Setup {
            machine: Machine { cpu: Cpu::X86, durability: Durability::Line },
            threads: 1,
            operations: 20,
            seed: 1,
            budget: Budget { images: 10_000, seconds: 60.0 },
            failing_drains: false,
            exhaustive: 1 << 11,
            samples: 32,
            nested_one_in: 256,
            shrink: true,
        }
    }
}
