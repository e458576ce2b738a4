//! Moving the objects of a layout: the receiver of the events, and the reasons why a pool keeps its size.

use lode_heap::OpenError;
use lode_heap::check::Finding;
use std::error::Error;

/// Receiver of the events while a pool shrinks.
pub trait ShrinkEvents {
    /// Reports that this number of objects was moved since the last call.
    fn moved(&self, objects: u64);

    /// Returns true if no more objects are to be moved. It is asked before each transaction.
    fn is_stopped(&self) -> bool;
}

/// No receiver.
impl ShrinkEvents for () {
    fn moved(&self, _: u64) {}

    fn is_stopped(&self) -> bool {
        false
    }
}

/// The reason why a pool did not shrink. It has all its content, and can be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShrinkError {
    /// An error of the pool or its heap.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The layout could not move an object.
    #[error(transparent)]
    Layout(Box<dyn Error + Send + Sync>),
    /// The pool is damaged. A move could overwrite what a repair would find, so nothing was moved.
    #[error("the pool is damaged, so it keeps its size; repair it first: {finding}")]
    Damaged {
        /// The worst finding of the check.
        finding: Box<Finding>,
    },
    /// The objects can't be moved: no registered layout knows all references to them. The pool is as it was.
    #[error(
        "a pool of layout {layout} can't shrink, since its objects would have to move, and only the program that made \
         them knows all references to them; copy its content to a new, smaller pool with that program"
    )]
    Unmovable {
        /// The name of the layout.
        layout: String,
    },
    /// The receiver of the events stopped it.
    #[error("the pool was not shrunk, since it was stopped; what was moved before does no harm")]
    Stopped,
}
