//! Requests of a plan.

use super::amount::exact;
use super::shell::quote;
use crate::goal::PersistentKind;
use crate::namespace::{CreateNamespace, MapLocation};

/// Request for a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanRequest {
    /// The requested namespaces.
    pub namespaces: Vec<NamespaceRequest>,
    /// Sockets that the plan applies to if there are no requests; all if empty. With requests, the plan applies to the
    /// sockets that they name, or to all if a request names none.
    pub sockets: Vec<u16>,
    /// Use of the remaining capacity. With `None`, the plan uses free ranges if the requests fit there. If it must
    /// partition modules again, the rest becomes memory if they provided any before, else persistent memory.
    pub rest: Option<Rest>,
}

/// A requested namespace and its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceRequest {
    /// The namespace. The plan chooses its region. Without a size it becomes as large as possible.
    pub namespace: CreateNamespace,
    /// Its socket; `None` takes the first one where it fits.
    pub socket: Option<u16>,
    /// Interleaved or not; `None` takes either.
    pub kind: Option<PersistentKind>,
    /// Bytes that its user gets, in place of a size.
    pub usable: Option<u64>,
    /// True if an invalid size is refused. Otherwise it is rounded up.
    pub exact: bool,
    /// True if the namespace is made even if one with its name exists. Otherwise a namespace with the name fulfils the
    /// request, and the request is impossible if that namespace is different.
    pub add: bool,
}

/// Use of the capacity that no request needs.
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
    pub fn as_str(self) -> &'static str {
        match self {
            Rest::MemoryMode => "memory-mode",
            Rest::AppDirect => "app-direct",
            Rest::Unconfigured => "unconfigured",
        }
    }
}

impl NamespaceRequest {
    /// Returns the least bytes that the namespace, or its user, gets; `None` if it is as large as possible.
    pub(super) fn want(&self) -> Option<u64> {
        self.usable.or(self.namespace.size)
    }

    /// Replaces the maximum size by that of `made`. Other sizes are rounded for each region anew.
    pub(super) fn fix_largest(&mut self, made: &CreateNamespace) {
        if self.want().is_none() {
            self.namespace.size = made.size;
        }
    }

    /// Returns the request for a namespace of this size in place of usable bytes; `None` for the maximum size.
    pub(super) fn with(&self, size: Option<u64>) -> NamespaceRequest {
        let namespace = CreateNamespace { size, ..self.namespace.clone() };
        NamespaceRequest { namespace, usable: None, ..self.clone() }
    }

    /// Formats the request as options: `--fsdax 100GiB --socket 0`.
    pub fn options(&self) -> String {
        let parameters = &self.namespace;
        let mut text = match (self.usable, parameters.size) {
            (Some(usable), _) => format!("--usable {}", exact(usable)),
            (None, size) => {
                format!("--{} {}", parameters.mode.as_str(), size.map_or("max".to_owned(), exact))
            }
        };
        if let Some(socket) = self.socket {
            text += &format!(" --socket {socket}");
        }
        match self.kind {
            Some(PersistentKind::AppDirect) => text += " --interleaved",
            Some(PersistentKind::AppDirectNotInterleaved) => text += " --not-interleaved",
            None => {}
        }
        if parameters.map == MapLocation::Mem {
            text += " --map mem";
        }
        for (option, bytes) in [("--align", parameters.align), ("--sector-size", parameters.sector_size)] {
            if let Some(bytes) = bytes {
                text += &format!(" {option} {}", exact(bytes));
            }
        }
        if !parameters.name.is_empty() {
            text += &format!(" --name={}", quote(&parameters.name));
        }
        text
    }
}
