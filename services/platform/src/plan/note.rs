//! Remarks on a plan, other than its steps and losses.

use super::amount::brief;
use super::assignment::Assignment;
use super::group::Group;
use super::impossible::Unusable;
use super::request::{PlanRequest, Rest};
use crate::machine::Handle;
use crate::namespace::free;
use crate::platform::Platform;
use std::fmt;

/// A remark on a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// A module is not used.
    LeftOut(Unusable),
    /// The rest of a socket could not get the requested use.
    RestStays {
        /// The socket.
        socket: u16,
        /// The requested use.
        rest: Rest,
        /// Bytes of firmware's alignment.
        alignment: u64,
    },
    /// DRAM becomes a cache and loses its addresses.
    DramBecomesCache {
        /// Bytes of DRAM on all sockets.
        size: u64,
    },
    /// DRAM gets addresses again.
    DramIsMemory {
        /// Bytes of DRAM on all sockets.
        size: u64,
    },
    /// Earlier goals take effect at the same reboot.
    GoalsTakeEffect {
        /// The modules of these goals.
        modules: Vec<Handle>,
    },
}

/// Returns the remarks on a plan that leads to `after`.
pub(super) fn notes(
    platform: &Platform,
    request: &PlanRequest,
    assignment: &Assignment<'_>,
    after: &Platform,
) -> Vec<Note> {
    let mut notes = Vec::new();
    for (socket, plan) in &assignment.sockets {
        let here = platform.machine.modules.iter().filter(|module| module.handle.socket() == *socket);
        if !plan.groups.is_empty() {
            notes.extend(here.filter_map(Unusable::of).map(Note::LeftOut));
        }
        let free = |group: &Group| {
            let regions = after.regions().into_iter();
            let ours = regions.filter(|one| group.modules.iter().any(|module| one.has(*module)));
            ours.map(|region| free(after, &region)).sum::<u64>()
        };
        let nothing = |group: &Group| group.memory_percent + group.reserved_percent == 0 && free(group) > 0;
        if let Some(rest @ (Rest::MemoryMode | Rest::Unconfigured)) = request.rest
            && plan.groups.iter().any(nothing)
        {
            let alignment = platform.machine.alignment;
            notes.push(Note::RestStays { socket: *socket, rest, alignment });
        }
    }
    let size = platform.machine.dram.iter().map(|dram| dram.capacity).sum();
    match (platform.memory_mode(), after.memory_mode()) {
        (false, true) => notes.push(Note::DramBecomesCache { size }),
        (true, false) => notes.push(Note::DramIsMemory { size }),
        _ => {}
    }
    let is_repartitioned = |module: &Handle| {
        assignment.sockets.values().flat_map(|plan| &plan.groups).any(|one| one.modules.contains(module))
    };
    let waiting = platform.state.goals.iter().map(|goal| goal.module);
    let modules: Vec<Handle> = waiting.filter(|module| !is_repartitioned(module)).collect();
    if after.state.boots > platform.state.boots && !modules.is_empty() {
        notes.push(Note::GoalsTakeEffect { modules });
    }
    notes
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::LeftOut(unusable) => write!(f, "{unusable}: it is left out"),
            Note::RestStays { socket, rest: Rest::Unconfigured, alignment } => write!(
                f,
                "the rest of socket {socket} is mapped and stays free: firmware leaves out whole multiples of {} of \
                 each module",
                brief(*alignment)
            ),
            Note::RestStays { socket, alignment, .. } => write!(
                f,
                "the rest of socket {socket} stays free persistent memory: firmware gives whole multiples of {} of \
                 each module",
                brief(*alignment)
            ),
            Note::DramBecomesCache { size } => {
                write!(
                    f,
                    "the {} of DRAM become a cache of the modules and are no memory by themselves",
                    brief(*size)
                )
            }
            Note::DramIsMemory { size } => {
                write!(f, "the {} of DRAM are memory by themselves again, and no cache", brief(*size))
            }
            Note::GoalsTakeEffect { modules } => {
                let modules: Vec<String> = modules.iter().map(Handle::to_string).collect();
                write!(f, "goals that were made before take effect, too, on {}", modules.join(", "))
            }
        }
    }
}
