//! Wishes that can't be fulfilled, with the reason and the nearest one that can.

use super::amount::{brief, exact};
use super::assignment::Assignment;
use super::trial::Uuids;
use super::wish::Wish;
use crate::error::PlatformError;
use crate::goal::PersistentKind;
use crate::machine::{Health, Module};
use crate::platform::Platform;
use std::collections::BTreeSet;
use std::fmt;

/// A wish that can't be fulfilled.
#[derive(Debug)]
pub struct Impossible {
    /// The wish; `None` if the failure is not due to a single one.
    pub wish: Option<Wish>,
    /// The obstacle.
    pub obstacle: Obstacle,
    /// The nearest wish that can be fulfilled.
    pub nearest: Option<Wish>,
}

/// Obstacle to a wish.
#[derive(Debug)]
#[non_exhaustive]
pub enum Obstacle {
    /// The socket does not exist.
    NoSocket {
        /// The number that was given.
        socket: u16,
        /// The existing sockets.
        sockets: Vec<u16>,
    },
    /// No module can be used.
    NoModules {
        /// The socket; `None` if all were tried.
        socket: Option<u16>,
        /// The modules that are present and can't be used.
        unusable: Vec<Unusable>,
    },
    /// Only one module can be used, so interleaving is impossible.
    OneModule {
        /// The socket; `None` if all were tried.
        socket: Option<u16>,
        /// The modules that are present and can't be used.
        unusable: Vec<Unusable>,
    },
    /// On a real machine: no region has the required kind, and none can be made.
    NoRegion {
        /// The socket; `None` if all were tried.
        socket: Option<u16>,
        /// The required kind.
        kind: Option<PersistentKind>,
        /// Regions and devices that are present and can't be used.
        unusable: Vec<Unusable>,
    },
    /// The capacity does not suffice.
    Capacity {
        /// Bytes that were requested; `None` for as much as possible.
        want: Option<u64>,
        /// Bytes that are available.
        largest: u64,
        /// The socket; `None` if all were tried.
        socket: Option<u16>,
        /// Modules, regions and devices that are present and can't be used.
        unusable: Vec<Unusable>,
        /// True if other wishes take the missing capacity.
        shared: bool,
    },
    /// A rule other than capacity: alignment, label space, sector sizes.
    Rule(
        /// The violation.
        Box<PlatformError>,
    ),
}

/// A module that can't be used, or on a real machine a region or a CXL device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// Name of the object.
    pub what: String,
    /// The reason: its state.
    pub why: &'static str,
}

impl Unusable {
    /// Returns the reason that a module can't be used; `None` if it can.
    pub(crate) fn of(module: &Module) -> Option<Unusable> {
        let why = if module.health == Health::NonFunctional { "dead" } else { "locked" };
        let what = format!("module {} ({})", module.handle, module.locator);
        (!module.usable()).then_some(Unusable { what, why })
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}", self.what, self.why)
    }
}

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(wish) = &self.wish {
            write!(f, "{} is impossible: ", wish.options())?;
        }
        self.obstacle.fmt(f)?;
        match &self.nearest {
            Some(nearest) => {
                let size = nearest.namespace.size.map_or(String::new(), |size| format!(" ({})", brief(size)));
                write!(f, "; the nearest that is possible is {}{size}", nearest.options())
            }
            None => Ok(()),
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::NoSocket { socket, sockets } => {
                let known: Vec<String> = sockets.iter().map(u16::to_string).collect();
                write!(f, "there is no socket {socket}; the machine has {}", known.join(", "))
            }
            Obstacle::NoModules { socket, unusable } => {
                let (who, none) = (who(*socket), if socket.is_some() { "no" } else { "a" });
                write!(f, "{who} has {none} module that could be used{}", because(unusable))
            }
            Obstacle::OneModule { socket, unusable } => {
                let (who, no) = (who(*socket), no(*socket));
                write!(f, "{who} has {no}two modules to interleave{}", because(unusable))
            }
            Obstacle::NoRegion { socket, kind, unusable } => {
                let (who, none) = (who(*socket), if socket.is_some() { "no" } else { "a" });
                let kind = match kind {
                    None => "",
                    Some(PersistentKind::AppDirect) => " over several modules",
                    Some(PersistentKind::AppDirectNotInterleaved) => " on one module",
                };
                write!(f, "{who} has {none} region{kind} that could be used{}", because(unusable))
            }
            Obstacle::Capacity { want, largest, socket, unusable, shared } => {
                let (who, no, because) = (who(*socket), no(*socket), because(unusable));
                let left = if *shared { " left beside the other wishes" } else { "" };
                match (want.map(brief), largest) {
                    (None, _) => write!(f, "{who} has {no}space{left}{because}"),
                    (Some(want), 0) => write!(f, "{who} has {no}{want}{left}{because}"),
                    (Some(want), most) => {
                        write!(f, "{who} has {no}{want} for it, but at most {}{left}{because}", brief(*most))
                    }
                }
            }
            Obstacle::Rule(error) => match &**error {
                PlatformError::Misaligned { size, ways: 1, unit, .. } => {
                    write!(f, "{} is not a multiple of {}", exact(*size), exact(*unit))
                }
                PlatformError::Misaligned { size, ways, unit, .. } => {
                    let (size, unit) = (exact(*size), exact(*unit));
                    write!(f, "{size} over {ways} modules is not a multiple of {unit}")
                }
                error => error.fmt(f),
            },
        }
    }
}

fn who(socket: Option<u16>) -> String {
    socket.map_or("no socket".to_owned(), |socket| format!("socket {socket}"))
}

/// Returns the word before an item; empty without a socket, since `no socket` already has it.
fn no(socket: Option<u16>) -> &'static str {
    if socket.is_some() { "no " } else { "" }
}

fn because(unusable: &[Unusable]) -> String {
    unusable.iter().map(|one| format!("; {one}")).collect()
}

impl Platform {
    /// Makes the error of a plan for a socket that does not exist.
    pub(super) fn no_socket(
        &self,
        socket: u16,
        wish: Option<&Wish>,
        anew: bool,
        uuids: Uuids<'_>,
    ) -> PlatformError {
        let sockets = self.machine.sockets();
        let near = sockets.iter().copied().min_by_key(|known| known.abs_diff(socket));
        let moved = wish.zip(near).map(|(wish, near)| Wish { socket: Some(near), ..wish.clone() });
        let nearest = moved.and_then(|wish| {
            let assignment = Assignment::new(self, wish.socket.as_slice(), anew);
            match assignment.clone().add(&wish, uuids) {
                Ok(_) => Some(wish),
                Err(error) => nearest(&assignment, &wish, &error, uuids),
            }
        });
        let obstacle = Obstacle::NoSocket { socket, sockets };
        PlatformError::Impossible(Box::new(Impossible { wish: wish.cloned(), obstacle, nearest }))
    }

    /// Makes the error of a wish that can't be fulfilled together with the assigned ones.
    pub(super) fn impossible(
        &self,
        assignment: &Assignment<'_>,
        wish: &Wish,
        error: PlatformError,
        uuids: Uuids<'_>,
    ) -> PlatformError {
        let nearest = nearest(assignment, wish, &error, uuids);
        let socket = wish.socket;
        let on = |module: &&Module| socket.is_none_or(|socket| socket == module.handle.socket());
        let unusable: Vec<Unusable> =
            self.machine.modules.iter().filter(on).filter_map(Unusable::of).collect();
        let counts = assignment.sockets.iter().filter(|(known, _)| socket.is_none_or(|one| one == **known));
        let most = counts.map(|(_, plan)| plan.modules.len()).max().unwrap_or(0);
        let together = wish.kind == Some(PersistentKind::AppDirect);
        let obstacle = match error {
            _ if most == 0 => Obstacle::NoModules { socket, unusable },
            _ if together && most == 1 => Obstacle::OneModule { socket, unusable },
            PlatformError::NoSpace { largest, .. } => Obstacle::Capacity {
                want: wish.namespace.size,
                largest: largest_of(&nearest, wish, largest),
                socket,
                unusable,
                shared: assignment.sockets.values().any(|plan| !plan.wishes.is_empty()),
            },
            error => Obstacle::Rule(Box::new(error)),
        };
        PlatformError::Impossible(Box::new(Impossible { wish: Some(wish.clone()), obstacle, nearest }))
    }
}

/// Returns the bytes of the nearest wish, else the free bytes; 0 if neither is less than the requested size.
pub(super) fn largest_of(nearest: &Option<Wish>, wish: &Wish, free: u64) -> u64 {
    let less = |size: &u64| wish.namespace.size.is_none_or(|want| *size < want);
    let offered = nearest.as_ref().and_then(|wish| wish.namespace.size);
    offered.filter(less).or(Some(free).filter(less)).unwrap_or(0)
}

/// Returns the nearest wish that can be fulfilled together with the assigned ones.
fn nearest(
    assignment: &Assignment<'_>,
    wish: &Wish,
    error: &PlatformError,
    uuids: Uuids<'_>,
) -> Option<Wish> {
    nearest_by(wish, error, &mut |wish| assignment.clone().add(wish, uuids))
}

/// Finds the nearest wish that can be fulfilled, by trying. `attempt` returns the bytes that the wish would get.
pub(super) fn nearest_by(
    wish: &Wish,
    error: &PlatformError,
    attempt: &mut dyn FnMut(&Wish) -> Result<u64, PlatformError>,
) -> Option<Wish> {
    let want = wish.namespace.size.unwrap_or(0);
    let sized = |size: Option<u64>| {
        let mut wish = wish.clone();
        wish.namespace.size = size;
        wish
    };
    let mut open: Vec<u64> = match error {
        PlatformError::Misaligned { unit, fitting, .. } => vec![*fitting, fitting.saturating_sub(*unit)],
        PlatformError::TooSmall { size_min, .. } => vec![*size_min],
        PlatformError::NoSpace { largest, .. } => vec![*largest],
        _ => Vec::new(),
    };
    let (mut tried, mut sizes) = (BTreeSet::new(), Vec::new());
    // An aligned size may be too small or not available, and the minimum size may have to be aligned.
    while let Some(size) = open.pop() {
        if size == 0 || !tried.insert(size) {
            continue;
        }
        match attempt(&sized(Some(size))) {
            Ok(_) => sizes.push(size),
            Err(PlatformError::Misaligned { fitting, unit, .. }) => {
                open.extend([fitting, fitting.saturating_sub(unit)]);
            }
            Err(PlatformError::TooSmall { size_min, .. }) => open.push(size_min),
            Err(PlatformError::NoSpace { largest, .. }) => open.push(largest),
            Err(_) => {}
        }
    }
    if sizes.is_empty() && wish.namespace.size.is_some() {
        sizes.extend(attempt(&sized(None)));
    }
    if let Some(size) = sizes.into_iter().min_by_key(|size| size.abs_diff(want)) {
        return Some(sized(Some(size)));
    }
    if wish.kind == Some(PersistentKind::AppDirect) {
        let mut other = Wish { kind: None, ..wish.clone() };
        for size in [wish.namespace.size, None] {
            other.namespace.size = size;
            if let Ok(size) = attempt(&other) {
                other.namespace.size = Some(size);
                return Some(other);
            }
        }
    }
    None
}
