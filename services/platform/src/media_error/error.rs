//! Errors of reads and injections of poisoned media.

use crate::machine::Handle;
use crate::namespace::error::NamespaceError;
use thiserror::Error;

/// Media can't be read, or an injection of media errors is invalid.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MediaFault {
    /// The memory is poisoned: the medium can't return the data.
    #[error(
        "{of}: the range of {len} bytes at {offset:#x} can't be read: the memory is poisoned, on module {module}"
    )]
    Poisoned {
        /// The region or module that is read.
        of: String,
        /// Offset of the range in it, in bytes.
        offset: u64,
        /// Length in bytes.
        len: u64,
        /// The module that holds the range.
        module: Handle,
    },
    /// The sectors are not in the namespace.
    #[error("{name} has {has} sectors of 512 bytes: it can't be {count} from {first} on")]
    NoSuchSectors {
        /// The namespace.
        name: String,
        /// The first sector.
        first: u64,
        /// Number of sectors.
        count: u64,
        /// Sectors that the namespace has.
        has: u64,
    },
    /// The sectors are more than can be injected or found at a time.
    #[error("{count} sectors are too many at a time: {most} are the most")]
    TooManySectors {
        /// Number of sectors.
        count: u64,
        /// The limit.
        most: u64,
    },
    /// The region is not made of modules.
    #[error("region{region} is RAM that stands in for modules: it has no media errors")]
    NoModules {
        /// The region.
        region: u32,
    },
    /// The region is CXL memory, whose bus neither injects nor clears media errors.
    #[error(
        "region{region} is CXL memory: the bus CXL takes no command that injects, finds or clears media errors; choose a \
         namespace on the bus ACPI.NFIT"
    )]
    OfCxl {
        /// The region.
        region: u32,
    },
    /// Errors of a namespace in mode sector can't be cleared: a BTT moves its blocks.
    #[error(
        "{name} is in mode sector, in which errors are not cleared; write the sectors, or make it a raw one"
    )]
    SectorMode {
        /// The namespace.
        name: String,
    },
    /// The namespace does not exist.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
}
