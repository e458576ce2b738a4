//! Errors of saved listings.

use crate::directory::StateFault;
use crate::machine::Handle;
use thiserror::Error;

/// Saved listings from which no machine can be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}{}: {fault}", if *line == 0 { String::new() } else { format!(", line {line}") })]
pub struct ListingError {
    /// Name of the file.
    pub file: String,
    /// Line, from 1; 0 for the file as a whole.
    pub line: usize,
    /// The fault.
    #[source]
    pub fault: Box<ListingFault>,
}

/// A fault of a saved listing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ListingFault {
    /// A row has another number of cells than the head of its table.
    #[error("a row of {found} cells, below a head of {want}: save the listing again without folded lines")]
    Row {
        /// Number of cells.
        found: usize,
        /// Number of columns.
        want: usize,
    },
    /// The XML is damaged or incomplete.
    #[error("{what}: save the listing again with `-o nvmxml`")]
    Xml {
        /// The damage.
        what: &'static str,
    },
    /// A value is not one that ipmctl prints.
    #[error("{name} can't be `{found}`: it is {want}")]
    Value {
        /// The name of the value.
        name: String,
        /// The value.
        found: String,
        /// Description of valid values.
        want: &'static str,
    },
    /// A line contradicts one before it.
    #[error(
        "{name} of {module} is `{found}`, and `{before}` before: take listings of one machine and one moment"
    )]
    Contradiction {
        /// The name of the value.
        name: String,
        /// The module, or another object.
        module: String,
        /// The value.
        found: String,
        /// The value in a line before.
        before: String,
    },
    /// No module is listed.
    #[error("no module is listed: add what `ipmctl show -a -dimm` and `ipmctl show -topology` print")]
    NoModules,
    /// A module has no handle, only its identity.
    #[error("module {id} has no handle: add what `ipmctl show -a -dimm` prints")]
    NoHandle {
        /// The identity of the module.
        id: String,
    },
    /// A region or a goal names a module that is not listed.
    #[error("there is no module {module} in the listings: add what `ipmctl show -a -dimm` prints")]
    UnknownModule {
        /// The module.
        module: Handle,
    },
    /// The modules of a region are not listed, and can't be derived.
    #[error("the modules of this region are unknown: add what `ipmctl show -a -region` prints")]
    RegionModules,
    /// The use of the modules is not listed, and can't be derived.
    #[error("the use of each module is unknown: add what `ipmctl show -a -dimm` prints")]
    Uses,
    /// The listings show a machine that there can't be.
    #[error("no machine can be as listed: {0}; take listings of one machine and one moment")]
    Impossible(StateFault),
    /// A module can't be as listed.
    #[error("no machine can be as listed: {0}")]
    Machine(String),
}
