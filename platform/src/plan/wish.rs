//! What is wanted of a machine.

use super::amount::exact;
use crate::goal::PersistentKind;
use crate::namespace::{CreateNamespace, MapPlace};

/// What is wanted of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanRequest {
    /// The namespaces that are wanted.
    pub wishes: Vec<Wish>,
    /// Where there are no wishes: the sockets that the plan is about, all if none is named. Wishes name their own, and
    /// sockets that no wish names stay as they are, unless a wish leaves the socket open.
    pub sockets: Vec<u16>,
    /// What becomes of the capacity that no wish needs. Without it what fits into free ranges is made there, and where
    /// modules must be divided anew the rest stays what it was: memory where they gave any, else persistent.
    pub rest: Option<Rest>,
}

/// A namespace that is wanted, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// The namespace. Its region is the plan's affair, and without a size it is as large as possible.
    pub namespace: CreateNamespace,
    /// On this socket; on the first one where it fits if none is named.
    pub socket: Option<u16>,
    /// Over several modules, or on one; as it comes if nobody says.
    pub kind: Option<PersistentKind>,
}

/// What becomes of capacity that no wish needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Volatile memory, with DRAM as its cache.
    MemoryMode,
    /// Persistent memory without namespaces.
    AppDirect,
    /// Nothing: it is not mapped.
    Unconfigured,
}

impl Rest {
    /// The word on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Rest::MemoryMode => "memory-mode",
            Rest::AppDirect => "app-direct",
            Rest::Unconfigured => "unconfigured",
        }
    }
}

impl Wish {
    /// The wish as options of `lode platform plan`.
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
            text += &format!(" --name={}", super::command::word(&wanted.name));
        }
        text
    }
}
