//! Types of the engine, as all pools with trees use it.

use lode_index::IndexError;
use lode_pmem::Mapping;
use std::sync::Arc;

/// The medium of all such pools.
pub(crate) type Medium = Arc<Mapping>;

/// The result of an operation of the engine.
pub(crate) type EngineResult<T> = Result<T, IndexError>;
