//! What the explorer needs to know of an engine.

use crate::{Actor, Moment, SimMedium};
use std::fmt::{Debug, Display};
use std::sync::Arc;

/// An engine, a workload for it, and what a power cut may leave of the workload.
///
/// The engine itself runs unmodified: it is generic over [`Medium`](lode_pmem::Medium), and here the medium
/// is a [`SimMedium`]. All methods must be deterministic: what looks random is drawn from
/// [`Actor::rng`] or follows from the medium's content.
pub trait Subject: Sync {
    /// What the logical threads share while they run.
    type Engine: Sync;
    /// An operation, as the history notes it.
    type Operation: Clone + Debug + Send;
    /// All that can be asked of the recovered engine.
    type Contents: PartialEq + Debug;
    /// What is legal at one moment, worked out once for all images of the moment.
    type Legal;
    /// How a recovered content breaks what is legal.
    type Wrong: Display;
    /// Why the engine can't be formatted, started or recovered.
    type Error: Display;

    /// Bytes of the medium, a multiple of 4096.
    fn size(&self) -> u64;

    /// Makes the medium ready. What happens here is durable before the first power cut.
    ///
    /// # Errors
    /// The engine's own, which ends the exploration as a violation.
    fn format(&self, medium: Arc<SimMedium>) -> Result<(), Self::Error>;

    /// Opens the engine for the logical threads. Power may be cut during it.
    ///
    /// # Errors
    /// The engine's own, a violation unless a drain was made to fail.
    fn start(&self, medium: Arc<SimMedium>) -> Result<Self::Engine, Self::Error>;

    /// Runs one logical thread, which notes each operation with `actor`.
    fn run(&self, engine: &Self::Engine, actor: &mut Actor<'_, Self::Operation>);

    /// Recovers the engine from what a power cut left, and asks for all of its contents.
    ///
    /// # Errors
    /// The engine's own: a violation, for a power cut is no damage.
    fn recover(&self, medium: Arc<SimMedium>) -> Result<Self::Contents, Self::Error>;

    /// Works out what is legal after a power cut at `moment`.
    fn legal(&self, moment: &Moment<Self::Operation>) -> Self::Legal;

    /// Compares what was recovered with what is legal.
    ///
    /// # Errors
    /// How they differ.
    fn check(&self, legal: &Self::Legal, contents: &Self::Contents) -> Result<(), Self::Wrong>;
}
