//! Workloads for the crash explorer, with the states that a power cut may leave of them.

mod heap;

pub use heap::HeapSubject;
pub use lode_redo::explore::LogSubject;
