//! Files with holes, and the progress and errors of their copies.

pub(crate) mod error;
pub(crate) mod progress;
pub(crate) mod sparse;
