//! Data that a plan loses.

use super::amount::brief;
use crate::machine::Handle;
use crate::namespace::{Mode, Namespace};
use crate::platform::Platform;
use crate::region::{Origin, Region};
use std::fmt;

/// Data that is lost when a plan is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// A namespace with all its data.
    Namespace {
        /// The kernel's name.
        device: String,
        /// The user's name.
        name: String,
        /// Its mode.
        mode: Mode,
        /// Size in bytes.
        size: u64,
    },
    /// The data of a region without labels.
    Unlabelled {
        /// Number of the region.
        region: u32,
        /// Size in bytes.
        size: u64,
    },
    /// Volatile memory.
    Memory {
        /// The socket.
        socket: u16,
        /// Bytes before the plan.
        before: u64,
        /// Bytes after the plan.
        after: u64,
    },
    /// Goals that did not take effect yet.
    Goals {
        /// The modules of these goals.
        modules: Vec<Handle>,
    },
}

impl Loss {
    /// Returns the losses when `before` becomes `after`.
    pub(super) fn between(before: &Platform, after: &Platform) -> Vec<Loss> {
        let mut losses = Vec::new();
        let all = |platform: &Platform| -> Vec<(Region, Vec<Namespace>)> {
            let regions = platform.module_regions().into_iter();
            regions.map(|region| (region.clone(), platform.namespaces(&region))).collect()
        };
        let then = all(after);
        let uuids: Vec<_> = then.iter().flat_map(|(_, namespaces)| namespaces).map(|one| one.uuid).collect();
        for (region, namespaces) in all(before) {
            let same = then.iter().any(|(other, _)| other.origin == region.origin);
            for namespace in namespaces {
                match namespace.uuid {
                    None if same || region.origin == Origin::Memmap => {}
                    None => losses.push(Loss::Unlabelled { region: region.number, size: region.size }),
                    Some(_) if uuids.contains(&namespace.uuid) => {}
                    Some(_) => losses.push(Loss::Namespace {
                        device: namespace.device(),
                        mode: namespace.mode(),
                        size: namespace.size,
                        name: namespace.name,
                    }),
                }
            }
        }
        for socket in before.machine.sockets() {
            let [was, is] = [before, after].map(|platform| platform.memory_on(socket));
            if is < was {
                losses.push(Loss::Memory { socket, before: was, after: is });
            }
        }
        losses
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Namespace { device, name, mode, size } => {
                let called = if name.is_empty() { String::new() } else { format!(" {name:?}") };
                let (size, mode) = (brief(*size), mode.as_str());
                write!(f, "{device}{called} ({mode}, {size}) with all its data")
            }
            Loss::Unlabelled { region, size } => {
                write!(f, "what lies in region{region} ({}), which has no labels", brief(*size))
            }
            Loss::Memory { socket, before, after: 0 } => {
                write!(f, "memory mode on socket {socket}: {} of volatile memory", brief(*before))
            }
            Loss::Memory { socket, before, after } => {
                let (before, after) = (brief(*before), brief(*after));
                write!(f, "volatile memory on socket {socket}: {after} instead of {before}")
            }
            Loss::Goals { modules } => {
                let modules: Vec<String> = modules.iter().map(Handle::to_string).collect();
                write!(f, "the goals that wait for the next start of {}", modules.join(", "))
            }
        }
    }
}
