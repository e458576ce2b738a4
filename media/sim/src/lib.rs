//! Layer 2: a medium that loses power, and the explorer that checks every state that a power cut may leave.
//!
//! ```text
//!   subject: engine + workload + what is legal
//!        | start, run: 1 to 3 logical threads            | recover, twice, and check
//!   SimMedium, recorded                             SimMedium, reused for each image
//!        | stores, flushes, drains, in order             ^ lines or sectors laid down
//!      trace ----> model: per line or sector, what is sure and what is pending ----> images
//! ```
//!
//! It does: take the place of a mapping under an unmodified engine; let logical threads take turns at every call of the
//! medium, by a seed; cut the power after every store and drain; make the images that the [machine](Machine) may then
//! leave, all of them if they are few; recover from each twice, and from power cuts inside of sampled recoveries; and
//! name the first loss so that it can be [replayed](replay()). [`explore_poison()`] loses a line at an access. It does
//! not: model time, or reordered loads. It can't run an engine that keeps a lock across a call of the medium outside of
//! [`Medium::wait_while`](lode_pmem::Medium::wait_while), and reports it as a hang.
//!
//! # What a power cut leaves
//! | machine | a store is sure after | of the others |
//! |---|---|---|
//! | x86, line | a flush of its line after it, by any thread, then a drain of that thread | any prefix of the line's stores |
//! | x86, line, past the cache | a drain of its own thread | any words, each with its own stores in order |
//! | Arm, line | the same two | any words, each with its own stores in order |
//! | byte | a drain of any thread; past the cache, of its own | as for line |
//! | commit | a drain of any thread, or a log write of its sector, that did not fail | any version of each sector of 512 bytes |
//!
//! # Use
//! An engine is any code that is generic over [`Medium`](lode_pmem::Medium). Its tests implement [`Subject`] and call
//! [`explore()`]; [`oracle`] defines the legal contents for the histories that most engines have, and [`Blocks`] those of
//! block devices, with a volatile cache or without one. Here is a list whose
//! 8-byte count makes an entry part of it, and the classic mistake:
//!
//! ```
//! use lode_layout::PoolOffset;
//! use lode_pmem::{Fault, Medium};
//! use lode_sim::oracle::{Sequence, SequenceMismatch};
//! use lode_sim::{Actor, HistoryPrefix, Setup, SimMedium, Subject, explore};
//! use std::error::Error;
//! use std::sync::Arc;
//!
//! /// The engine: the count at 0, the entries from 64 on.
//! struct List<M> {
//!     medium: Arc<M>,
//!     forgets_drain: bool,
//! }
//!
//! impl<M: Medium> List<M> {
//!     fn entries(&self) -> Result<Vec<u64>, Fault> {
//!         self.medium.memory().reading(|memory| {
//!             let count = memory.load8(PoolOffset::NULL);
//!             (0..count).map(|index| memory.load8(PoolOffset::new(64 + 8 * index))).collect()
//!         })
//!     }
//!
//!     fn push(&self, entry: u64) -> Result<(), Box<dyn Error>> {
//!         let count = self.medium.memory().reading(|memory| memory.load8(PoolOffset::NULL))?;
//!         let place = PoolOffset::new(64 + 8 * count);
//!         self.medium.store8(place, entry);
//!         self.medium.flush(place, 8);
//!         if !self.forgets_drain {
//!             self.medium.drain()?; // ORDER: the entry is durable before the count says that it is there.
//!         }
//!         self.medium.store8(PoolOffset::NULL, count + 1);
//!         self.medium.flush(PoolOffset::NULL, 8);
//!         Ok(self.medium.drain()?) // ORDER: the count is durable before the caller is told.
//!     }
//! }
//!
//! /// The workload, and the contents that are legal after a power cut.
//! struct ListSubject {
//!     forgets_drain: bool,
//! }
//!
//! impl Subject for ListSubject {
//!     type Engine = List<SimMedium>;
//!     type Operation = u64;
//!     type Contents = Vec<u64>;
//!     type Legal = Sequence<Vec<u64>>;
//!     type Mismatch = SequenceMismatch<Vec<u64>>;
//!     type Error = Box<dyn Error>;
//!
//!     fn size(&self) -> u64 {
//!         4096
//!     }
//!
//!     fn format(&self, _medium: Arc<SimMedium>) -> Result<(), Box<dyn Error>> {
//!         Ok(()) // A medium of zeros is an empty list.
//!     }
//!
//!     fn start(&self, medium: Arc<SimMedium>) -> Result<List<SimMedium>, Box<dyn Error>> {
//!         Ok(List { medium, forgets_drain: self.forgets_drain })
//!     }
//!
//!     fn run(&self, list: &List<SimMedium>, actor: &mut Actor<'_, u64>) {
//!         for _ in 0..actor.operations {
//!             let entry = actor.rng.u64(1..);
//!             let ticket = actor.begin(entry);
//!             match list.push(entry) {
//!                 Ok(()) => actor.returned(ticket),
//!                 Err(_) => return actor.in_doubt(ticket),
//!             }
//!         }
//!     }
//!
//!     fn recover(&self, medium: Arc<SimMedium>) -> Result<Vec<u64>, Box<dyn Error>> {
//!         Ok(self.start(medium)?.entries()?) // This engine has nothing to repair.
//!     }
//!
//!     fn legal(&self, history: &HistoryPrefix<u64>) -> Sequence<Vec<u64>> {
//!         Sequence::new(Vec::new(), history, |entries, entry| entries.push(*entry))
//!     }
//!
//!     fn check(&self, legal: &Sequence<Vec<u64>>, found: &Vec<u64>) -> Result<(), SequenceMismatch<Vec<u64>>> {
//!         legal.check(found)
//!     }
//! }
//!
//! let report = explore(&ListSubject { forgets_drain: false }, &Setup::default());
//! assert!(report.violation.is_none() && report.images > 100, "{report}");
//!
//! let report = explore(&ListSubject { forgets_drain: true }, &Setup::default());
//! let violation = report.violation.expect("an entry that is counted and not there");
//! println!("{violation}");
//! ```
//!
//! # Seeded bugs
//! An explorer that finds nothing is trusted only if it finds the bugs that are known to be there. An engine names
//! lines of its own that can be broken, as statics of [`lode_layout::bug`]. A build with `--cfg lode_bugs` plants each of
//! these bugs and searches it (`find_seeded_bug`).
//!
//! # Cost
//! An image costs the lines that differ from the image before it, two recoveries with the lines that they store to, and
//! the check. The size of the pool does not matter. Hashes of 128 bits tell images apart: of n images, one is skipped
//! by mistake with probability n² / 2^129.
#![forbid(unsafe_code)]

mod block_workload;
mod blocks;
mod explore;
mod explore_poison;
mod history;
mod image;
mod machine;
mod medium;
mod medium_poison;
mod model;
pub mod oracle;
mod orders;
mod pending;
mod poison;
mod recording;
mod report;
mod run;
mod sampling;
mod schedule;
#[cfg(lode_bugs)]
mod seeded_bugs;
mod seen_images;
mod setup;
mod subject;
mod touched_lines;
mod trace;
mod versions;

pub use block_workload::{BlockContent, BlockWorkload};
pub use blocks::{BlockMismatch, BlockRequest, Blocks, WriteCache};
pub use explore::{explore, replay};
pub use explore_poison::{PoisonReport, explore_poison};
pub use history::{Actor, HistoryPrefix, Operation, Outcome, Ticket};
pub use image::RecoveryFailure;
pub use machine::{Cpu, Machine};
pub use medium::SimMedium;
pub use orders::{OrderMismatch, SerialOrders};
pub use recording::Recording;
pub use report::{Cut, Failure, ParseReplayError, Replay, Report, Violation};
pub use schedule::RunAbort;
#[cfg(lode_bugs)]
pub use seeded_bugs::{UndetectedBug, find_seeded_bug, find_seeded_bug_by_poison};
pub use setup::{Setup, scaled_images};
pub use subject::Subject;
