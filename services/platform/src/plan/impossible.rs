//! Requests that can't be fulfilled, with the reason and the nearest request that can.

use super::amount::{brief, exact};
use super::request::NamespaceRequest;
use super::rule::RuleError;
use crate::goal::PersistentKind;
use crate::machine::{Health, Module, Security};
use crate::namespace::NamespaceError;
use std::fmt;

/// A request that can't be fulfilled.
#[derive(Debug)]
pub struct Impossible {
    /// The request; `None` if the failure is not due to a single one.
    pub request: Option<NamespaceRequest>,
    /// The obstacle.
    pub obstacle: Obstacle,
    /// The nearest request that can be fulfilled.
    pub nearest: Option<NamespaceRequest>,
}

/// Obstacle to a request.
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
    /// A request before it has the same name.
    SameName,
    /// A namespace that is different has the name.
    NameTaken {
        /// The kernel's name of the namespace.
        device: String,
        /// Its difference from the request, as it follows the name in the message.
        difference: String,
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
        /// True if other requests take the missing capacity.
        shared: bool,
    },
    /// A rule other than capacity: alignment, label space, sector sizes.
    Rule(
        /// The violation.
        Box<RuleError>,
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
        let why = match (module.health, module.security) {
            (Health::NonFunctional, _) => "dead",
            (_, Security::Overwrite) => "overwriting its media",
            _ => "locked",
        };
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
        if let Some(request) = &self.request {
            write!(f, "{} is impossible: ", request.options())?;
        }
        self.obstacle.fmt(f)?;
        match &self.nearest {
            Some(nearest) => {
                let size = nearest.want().map_or(String::new(), |size| format!(" ({})", brief(size)));
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
                let (subject, none) = (subject(*socket), if socket.is_some() { "no" } else { "a" });
                write!(f, "{subject} has {none} module that could be used{}", reasons(unusable))
            }
            Obstacle::OneModule { socket, unusable } => {
                let (subject, no) = (subject(*socket), negation(*socket));
                write!(f, "{subject} has {no}two modules to interleave{}", reasons(unusable))
            }
            Obstacle::NoRegion { socket, kind, unusable } => {
                let (subject, none) = (subject(*socket), if socket.is_some() { "no" } else { "a" });
                let kind = match kind {
                    None => "",
                    Some(PersistentKind::AppDirect) => " over several modules",
                    Some(PersistentKind::AppDirectNotInterleaved) => " on one module",
                };
                write!(f, "{subject} has {none} region{kind} that could be used{}", reasons(unusable))
            }
            Obstacle::SameName => {
                f.write_str("another request has the name, by which a later plan finds its namespace; name it differently")
            }
            Obstacle::NameTaken { device, difference } => write!(
                f,
                "{device} has the name already, and {difference}; request it as it is, choose another name, or destroy \
                 it first"
            ),
            Obstacle::Capacity { want, largest, socket, unusable, shared } => {
                let (subject, no, because) = (subject(*socket), negation(*socket), reasons(unusable));
                let left = if *shared { " left beside the other requests" } else { "" };
                match (want.map(brief), largest) {
                    (None, _) => write!(f, "{subject} has {no}space{left}{because}"),
                    (Some(want), 0) => write!(f, "{subject} has {no}{want}{left}{because}"),
                    (Some(want), most) => {
                        write!(
                            f,
                            "{subject} has {no}{want} for it, but at most {}{left}{because}",
                            brief(*most)
                        )
                    }
                }
            }
            Obstacle::Rule(error) => match &**error {
                RuleError::Namespace(NamespaceError::Misaligned { size, ways: 1, unit, .. }) => {
                    write!(f, "{} is not a multiple of {}", exact(*size), exact(*unit))
                }
                RuleError::Namespace(NamespaceError::Misaligned { size, ways, unit, .. }) => {
                    let (size, unit) = (exact(*size), exact(*unit));
                    write!(f, "{size} over {ways} modules is not a multiple of {unit}")
                }
                error => error.fmt(f),
            },
        }
    }
}

fn subject(socket: Option<u16>) -> String {
    socket.map_or("no socket".to_owned(), |socket| format!("socket {socket}"))
}

/// Returns the word before an item; empty without a socket, since `no socket` already has it.
fn negation(socket: Option<u16>) -> &'static str {
    if socket.is_some() { "no " } else { "" }
}

fn reasons(unusable: &[Unusable]) -> String {
    unusable.iter().map(|one| format!("; {one}")).collect()
}
