//! Requests of a plan.

use super::amount::exact;
use super::shell::word;
use crate::goal::PersistentKind;
use crate::namespace::{CreateNamespace, MapPlace};

/// Request for a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanRequest {
    /// The requested namespaces.
    pub wishes: Vec<Wish>,
    /// Sockets that the plan applies to if there are no wishes; all if empty. With wishes, the plan applies to the
    /// sockets that they name, or to all if a wish names none.
    pub sockets: Vec<u16>,
    /// Use of the remaining capacity. With `None`, the plan uses free ranges if the wishes fit there. If it must
    /// partition modules again, the rest becomes memory if they provided any before, else persistent memory.
    pub rest: Option<Rest>,
}

/// A requested namespace and its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// The namespace. The plan chooses its region. Without a size it becomes as large as possible.
    pub namespace: CreateNamespace,
    /// Its socket; `None` takes the first one where it fits.
    pub socket: Option<u16>,
    /// Interleaved or not; `None` takes either.
    pub kind: Option<PersistentKind>,
}

/// Use of the capacity that no wish needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Volatile memory, with DRAM as its cache (Memory Mode).
    MemoryMode,
    /// Persistent memory without namespaces.
    AppDirect,
    /// Unmapped capacity.
    Unconfigured,
}

impl Rest {
    /// Returns the word on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Rest::MemoryMode => "memory-mode",
            Rest::AppDirect => "app-direct",
            Rest::Unconfigured => "unconfigured",
        }
    }
}

impl Wish {
    /// Formats the wish as options of `lode platform plan`.
    pub fn options(&self) -> String {
        let wanted = &self.namespace;
        let mut text = format!("--{}", wanted.mode.word());
        text += &format!(" {}", wanted.size.map_or("max".to_owned(), exact));
        if let Some(socket) = self.socket {
            text += &format!(" --socket {socket}");
        }
        match self.kind {
            Some(PersistentKind::AppDirect) => text += " --interleaved",
            Some(PersistentKind::AppDirectNotInterleaved) => text += " --not-interleaved",
            None => {}
        }
        if wanted.map == MapPlace::Mem {
            text += " --map mem";
        }
        for (option, bytes) in [("--align", wanted.align), ("--sector-size", wanted.sector_size)] {
            if let Some(bytes) = bytes {
                text += &format!(" {option} {}", exact(bytes));
            }
        }
        if !wanted.name.is_empty() {
            text += &format!(" --name={}", word(&wanted.name));
        }
        text
    }
}
