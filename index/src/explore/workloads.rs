//! What the engines do while the power is cut: the workloads of `lode crash`.

use super::TreeSubject;
use lode_heap::explore::{HeapSubject, LogSubject};
use lode_pool::explore::PoolSubject;
use lode_sim::{Budget, Machine, Report, Setup, explore};

/// Seconds after which an exploration ends though images are left.
const SECONDS_MAX: f64 = 3600.0;

/// An engine that can be explored, by its name.
#[derive(Clone, Copy, Debug)]
pub struct Explored {
    /// The name that `lode crash` gives it.
    pub name: &'static str,
    /// What it does while the power is cut.
    pub workloads: &'static [Workload],
}

/// What an engine does while the power is cut.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// What is explored, for people.
    pub name: &'static str,
    /// Operations of a run, of all threads together.
    operations: u64,
    explore: fn(&Setup) -> Report,
}

/// What of an exploration can be chosen.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Whose power is cut.
    pub machine: Machine,
    /// Logical threads, 1 to 3.
    pub threads: u8,
    /// The seed of the first run.
    pub seed: u64,
    /// Different images to try.
    pub images: u64,
    /// Whether a violation is looked for in shorter workloads.
    pub shrink: bool,
}

impl Workload {
    /// Explores what power cuts leave of it.
    ///
    /// # Panics
    /// As [`explore`].
    pub fn explore(&self, choice: &Choice) -> Report {
        let Choice { machine, threads, seed, images, shrink } = *choice;
        let setup = Setup {
            machine,
            threads: usize::from(threads),
            operations: self.operations / u64::from(threads),
            seed,
            budget: Budget { images, seconds: SECONDS_MAX },
            failing_drains: machine.rung == lode_layout::Rung::Commit,
            shrink,
            ..Setup::default()
        };
        (self.explore)(&setup)
    }
}

/// The engines, lowest layer first.
pub const ENGINES: [Explored; 4] = [
    Explored { name: "log", workloads: &LOG },
    Explored { name: "heap", workloads: &HEAP },
    Explored { name: "pool", workloads: &POOL },
    Explored { name: "tree", workloads: &TREE },
];

const LOG: [Workload; 2] = [
    Workload {
        name: "log of 16 KiB",
        operations: 150,
        explore: |setup| explore(&LogSubject { size: 0x10000, log_len: 0x4000 }, setup),
    },
    Workload {
        name: "log of 32 KiB",
        operations: 150,
        explore: |setup| explore(&LogSubject { size: 0x10000, log_len: 0x8000 }, setup),
    },
];
const HEAP: [Workload; 2] = [
    Workload {
        name: "heap with small objects",
        operations: 120,
        explore: |setup| explore(&HeapSubject { size: 0x30000, sizes: 5 }, setup),
    },
    Workload {
        name: "heap with objects of all sizes",
        operations: 120,
        explore: |setup| explore(&HeapSubject { size: 0x60000, sizes: 6 }, setup),
    },
];
const POOL: [Workload; 2] = [
    Workload {
        name: "pools being made",
        operations: 12,
        explore: |setup| explore(&PoolSubject::Made, setup),
    },
    Workload {
        name: "pool that grows",
        operations: 12,
        explore: |setup| explore(&PoolSubject::Grown, setup),
    },
];
const TREE: [Workload; 1] = [Workload {
    name: "tree",
    operations: 90,
    explore: |setup| explore(&TreeSubject { size: 0x80000 }, setup),
}];
