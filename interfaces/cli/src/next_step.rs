//! The commands that do the next step after an error. The libraries say what is needed and know no commands; these
//! texts follow theirs.

use lode_fsck::RepairError;
use lode_heap::{Doubt, HeapError, OpenError};
use lode_index::IndexError;
use lode_kv::KvError;
use lode_pool::PoolError;

/// Returns the text that follows the message of an error of a store.
pub(crate) fn after_store(error: &KvError) -> &'static str {
    match error {
        KvError::Pool(OpenError::Pool(error)) => after_pool(error),
        KvError::Pool(OpenError::Heap { error, .. }) => after_heap(error),
        KvError::Index(error) | KvError::Unproven(error) | KvError::Refused { error, .. } => {
            after_index(error)
        }
        KvError::Count { .. } | KvError::Load { .. } => "; `lode pool check` shows how far",
        KvError::Line { .. } => " with --on-error skip",
        KvError::Cut { .. } => ", as any `lode kv put` does",
        KvError::Threads(_) => ", as by --threads 1",
        _ => "",
    }
}

/// Returns the text that follows the message of an error of a pool's file or headers.
pub(crate) fn after_pool(error: &PoolError) -> &'static str {
    match error.cause() {
        error if error.is_no_pool() => " with `lode pool create`",
        PoolError::CutShort { .. } | PoolError::DirtyShutdown(_) => " (`lode pool repair`)",
        PoolError::Memory { .. } => " (`lode pool check`)",
        PoolError::DurabilityTooWeak { .. } => " with --durability",
        PoolError::NotDurable { .. } => " with --durability none",
        _ => "",
    }
}

/// Returns the text that follows the message of an error of a tree.
pub(crate) fn after_index(error: &IndexError) -> &'static str {
    match error {
        IndexError::Corrupt { .. } => "; `lode pool check` shows how far",
        IndexError::Fault(fault) => after_heap(&HeapError::Fault(*fault)),
        IndexError::Heap(error) => after_heap(error),
        _ => "",
    }
}

/// Returns the text that follows the message of an error of a repair.
pub(crate) fn after_repair(error: &RepairError) -> &'static str {
    match error {
        RepairError::Pool(error) => after_pool(error),
        RepairError::Heap(error) => after_heap(error),
        RepairError::Layout(error) => error.downcast_ref().map_or("", after_index),
        _ => "",
    }
}

fn after_heap(error: &HeapError) -> &'static str {
    match error {
        HeapError::InDoubt(Doubt::Home(_)) => "",
        HeapError::InDoubt(_) => "; look for errors of the device in the kernel's log, then run it again",
        HeapError::Fault(_) => "; run `lode pool check` to see what is affected",
        _ => "",
    }
}
