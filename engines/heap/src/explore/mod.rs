//! Workloads for the crash explorer, with the states that a power cut may leave of them.

mod growing;
mod heap;
mod isolation;
mod later;
mod opened;
mod waiting;

pub use growing::GrowingSubject;
pub use heap::HeapSubject;
pub use isolation::{IsolationSubject, look_noted, run_noted};
pub use later::LaterSubject;
pub use lode_redo::explore::LogSubject;
pub use opened::{Unusable, format_heap, format_pool, open_heap, open_pool, shrink_pool};
