//! Remarks on a plan, other than its steps and losses.

use super::amount::{brief, exact};
use super::assignment::Assignment;
use super::group::Group;
use super::impossible::Unusable;
use super::request::{NamespaceRequest, PlanRequest, Rest};
use crate::goal::PersistentKind;
use crate::machine::{Handle, IpmctlGeneration};
use crate::namespace::free;
use crate::platform::Platform;
use std::fmt;

/// A remark on a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// An existing namespace fulfils a request.
    Fulfilled {
        /// The request.
        request: Box<NamespaceRequest>,
        /// The kernel's name of the namespace.
        device: String,
    },
    /// A size is rounded up to a valid one, or exceeds the usable bytes.
    Size {
        /// The request.
        request: Box<NamespaceRequest>,
        /// Bytes of the namespace.
        size: u64,
    },
    /// Modules of different sizes, or of a number over which controllers can't interleave: a part of a module is a region by
    /// itself.
    NotInterleaved {
        /// The module.
        module: Handle,
        /// Bytes of the part.
        size: u64,
        /// True if the rest of the module is interleaved.
        beyond: bool,
    },
    /// The rest of a socket can't be memory, since it is less than DRAM.
    LessThanDram {
        /// The socket.
        socket: u16,
        /// Bytes of DRAM.
        dram: u64,
    },
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

impl Note {
    /// Returns the remark on the size of a namespace for a request; `None` if it is as requested.
    pub(super) fn of_size(request: &NamespaceRequest, size: u64) -> Option<Note> {
        let differs = request.usable.is_some() || request.want().is_some_and(|want| want != size);
        differs.then(|| Note::Size { request: Box::new(request.clone()), size })
    }
}

/// Returns the remarks on a plan that leads to `after`, other than those on single requests.
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
            let regions = after.module_regions().into_iter();
            let ours = regions.filter(|one| group.modules.iter().any(|module| one.has(*module)));
            ours.map(|region| free(after, &region)).sum::<u64>()
        };
        let nothing = |group: &Group| group.memory_percent + group.reserved_percent == 0 && free(group) > 0;
        if let Some(rest @ (Rest::MemoryMode | Rest::Unconfigured)) = request.rest
            && plan.groups.iter().any(nothing)
        {
            let machine = &platform.machine;
            let (alignment, dram) = (machine.alignment, machine.dram_capacity(*socket));
            let refuses = machine.profile.ipmctl == IpmctlGeneration::Three;
            let largest: u64 = plan.groups.iter().filter(|one| nothing(one)).map(free).sum();
            notes.push(if rest == Rest::MemoryMode && refuses && largest < dram {
                Note::LessThanDram { socket: *socket, dram }
            } else {
                Note::RestStays { socket: *socket, rest, alignment }
            });
        }
        for group in plan.groups.iter().filter(|one| one.kind == PersistentKind::AppDirect) {
            notes.extend(not_interleaved(group, after));
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

/// Returns the parts of a group's modules that could not be interleaved.
fn not_interleaved(group: &Group, after: &Platform) -> Vec<Note> {
    let mut notes = Vec::new();
    for set in after.state.sets.iter().filter(|_| group.modules.len() > 1) {
        if let [member] = set.members.as_slice()
            && group.modules.contains(&member.module)
        {
            let (module, size) = (member.module, set.share);
            let beyond = after.state.sets_of(module).any(|(set, _)| set.members.len() > 1);
            notes.push(Note::NotInterleaved { module, size, beyond });
        }
    }
    notes
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Fulfilled { request, device } => write!(f, "{} is there: {device}", request.options()),
            Note::Size { request, size } if request.usable.is_some() => {
                write!(f, "{} takes {} of its region", request.options(), exact(*size))
            }
            Note::Size { request, size } => write!(
                f,
                "{} is rounded up to {}, which its modules share evenly; --exact refuses it",
                request.options(),
                exact(*size)
            ),
            Note::NotInterleaved { module, size, beyond: true } => write!(
                f,
                "{} of module {module} are a region by themselves: the other modules have nothing to interleave them with",
                brief(*size)
            ),
            Note::NotInterleaved { module, size, beyond: false } => write!(
                f,
                "module {module} ({}) is a region by itself: controllers interleave 2, 3, 4, 6, 8, 12 or 16 modules",
                brief(*size)
            ),
            Note::LessThanDram { socket, dram } => write!(
                f,
                "the rest of socket {socket} stays free persistent memory: memory on modules must not be less than the {} \
                 of DRAM that become its cache",
                brief(*dram)
            ),
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
