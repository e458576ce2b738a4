//! The interface of an engine to the explorer.

use crate::{Actor, HistoryPrefix, SimMedium};
use std::fmt::{Debug, Display};
use std::sync::Arc;

/// An engine, a workload for it, and the contents that a power cut may leave of the workload.
///
/// The engine itself runs unmodified: it is generic over [`Medium`](lode_pmem::Medium), and here the medium is a
/// [`SimMedium`]. All methods must be deterministic: a random choice is drawn from [`Actor::rng`] or follows from the
/// medium's content.
pub trait Subject: Sync {
    /// The state that the logical threads share while they run.
    type Engine: Sync;
    /// An operation, as the history notes it.
    type Operation: Clone + Debug + Send;
    /// All that the recovered engine returns when its whole content is read.
    type Contents: PartialEq + Debug;
    /// The legal contents at one point of the history, computed once for all its images.
    type Legal;
    /// The difference between a recovered content and the legal ones.
    type Mismatch: Display;
    /// The reason why the engine can't be formatted, started or recovered.
    type Error: Display;

    /// Returns the bytes of the medium, a multiple of 4096.
    fn size(&self) -> u64;

    /// Makes the medium ready. All stores of this call are durable before the first power cut.
    ///
    /// # Errors
    /// The error of the engine, which ends the exploration as a violation.
    fn format(&self, medium: Arc<SimMedium>) -> Result<(), Self::Error>;

    /// Opens the engine for the logical threads. Power may be cut during it.
    ///
    /// # Errors
    /// The error of the engine: a violation unless a drain was made to fail.
    fn start(&self, medium: Arc<SimMedium>) -> Result<Self::Engine, Self::Error>;

    /// Runs one logical thread, which notes each operation with `actor`.
    fn run(&self, engine: &Self::Engine, actor: &mut Actor<'_, Self::Operation>);

    /// Recovers the engine from an image that a power cut left, and reads all of its contents.
    ///
    /// # Errors
    /// The error of the engine: a violation, because a power cut is no damage.
    fn recover(&self, medium: Arc<SimMedium>) -> Result<Self::Contents, Self::Error>;

    /// Computes the legal contents after a power cut at `history`.
    fn legal(&self, history: &HistoryPrefix<Self::Operation>) -> Self::Legal;

    /// Computes the legal contents if the process ends at `history` and the memory stays, as a killed server leaves a file.
    /// `None` if kills are not explored.
    fn legal_after_kill(&self, history: &HistoryPrefix<Self::Operation>) -> Option<Self::Legal> {
        let _ = history;
        None
    }

    /// Compares the recovered content with the legal ones.
    ///
    /// # Errors
    /// Fails with the difference.
    fn check(&self, legal: &Self::Legal, contents: &Self::Contents) -> Result<(), Self::Mismatch>;
}
