//! Workloads for the crash explorer, with the states that a power cut may leave of them.

mod heap;
mod log;

pub use heap::HeapSubject;
pub use log::LogSubject;
