//! Errors of locating a byte.

use thiserror::Error;

/// A byte can't be located.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LocateError {
    /// The words name no place.
    #[error(
        "{text}: give an address as 0x1c0000000, DEVICE:SECTOR as pmem0:8, FILE:OFFSET, FILE:NUMBER:OFFSET for an OID, or a device alone"
    )]
    NoPlace {
        /// The words.
        text: String,
    },
    /// The address is not in a region.
    #[error("{address:#x} is in no region of persistent memory{regions}")]
    NotPersistent {
        /// The address.
        address: u64,
        /// The addresses of the regions, as a clause.
        regions: String,
    },
    /// The kernel hides the addresses of regions from the user.
    #[error("only root may read the addresses of regions")]
    HiddenAddresses,
    /// There is no such device.
    #[error("{device} is no device of a namespace; {known}")]
    UnknownDevice {
        /// The device.
        device: String,
        /// The devices that there are, as a clause.
        known: String,
    },
    /// The device has fewer sectors.
    #[error("{device} has {has} sectors of 512 bytes: there is no sector {sector}")]
    NoSuchSector {
        /// The device.
        device: String,
        /// The sector.
        sector: u64,
        /// Sectors that it has.
        has: u64,
    },
    /// A BTT moves the blocks of the device.
    #[error(
        "{device} is in mode sector: its BTT moves blocks at each write, so a sector has no place of its own; {namespace} is at {base:#x}"
    )]
    Moved {
        /// The device.
        device: String,
        /// Its namespace.
        namespace: String,
        /// First address of the namespace.
        base: u64,
    },
    /// The emulated machine has no mounted file systems.
    #[error("{text}: an emulated machine has no files; give an address or DEVICE:SECTOR")]
    NoFiles {
        /// The words.
        text: String,
    },
}
