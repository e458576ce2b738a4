//! Errors of character devices.

use super::device::DeviceId;
use thiserror::Error;

/// A character device does not exist, or can't be changed as requested.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DaxError {
    /// The device does not exist.
    #[error("there is no device {device}")]
    UnknownDevice {
        /// Its name.
        device: DeviceId,
    },
    /// The region does not exist.
    #[error("there is no region {region} of character devices")]
    UnknownRegion {
        /// Its number.
        region: u32,
    },
    /// Commands on memory need a device in mode system-ram.
    #[error(
        "{device}: memory operations are not applicable in devdax mode; reconfigure it to system-ram first"
    )]
    NotMemory {
        /// The device.
        device: DeviceId,
    },
    /// The device is in mode system-ram.
    #[error("{device}: status operations are only applicable in devdax mode; reconfigure it to devdax first")]
    IsMemory {
        /// The device.
        device: DeviceId,
    },
    /// The kernel uses the memory of the device.
    #[error("{device} is busy: {blocks} of its memory blocks are online; take them offline first")]
    Online {
        /// The device.
        device: DeviceId,
        /// Memory blocks that are online.
        blocks: u64,
    },
    /// The device has no whole memory block.
    #[error(
        "{device} can't be memory: the kernel takes memory in whole blocks of {block} bytes, and its {size} bytes \
         have none; take a larger device"
    )]
    NoBlock {
        /// The device.
        device: DeviceId,
        /// Its size in bytes.
        size: u64,
        /// Size of a memory block in bytes.
        block: u64,
    },
    /// A driver is bound to the device.
    #[error("{device} is active; disable it first")]
    Active {
        /// The device.
        device: DeviceId,
    },
    /// The device has no size.
    #[error("{device} can't be enabled: its size is 0; give it a size first")]
    Empty {
        /// The device.
        device: DeviceId,
    },
    /// The device was emptied and stays.
    #[error(
        "{device} is empty now, and stays: the kernel keeps the first device of each region; give it a size"
    )]
    First {
        /// The device.
        device: DeviceId,
    },
    /// The device is a namespace, whose size and alignment it has.
    #[error(
        "{device} has the size and the alignment of its namespace; reconfigure the namespace, which loses its data"
    )]
    OfNamespace {
        /// The device.
        device: DeviceId,
    },
    /// The region is a namespace, which has one device.
    #[error("region {region} is of namespaces, which have one device each; create another namespace")]
    Undivided {
        /// Number of the region.
        region: u32,
    },
    /// The region has too little space.
    #[error(
        "{want} bytes are not free in region {region}: it has {available}; take less, or shrink a device"
    )]
    NoSpace {
        /// Number of the region.
        region: u32,
        /// Bytes that are required.
        want: u64,
        /// Free bytes of the region.
        available: u64,
    },
    /// A requested range is not free.
    #[error("the addresses {start:#x} to {end:#x} are not free in region {region}; take others")]
    Taken {
        /// Number of the region.
        region: u32,
        /// First address of the range.
        start: u64,
        /// First address after the range.
        end: u64,
    },
    /// The size is not a multiple of the alignment.
    #[error("the size of {device} can't be {size} bytes: it is a multiple of {unit} bytes")]
    Misaligned {
        /// The device.
        device: DeviceId,
        /// The size in bytes.
        size: u64,
        /// The unit in bytes.
        unit: u64,
    },
    /// The kernel has no pages of this size.
    #[error("mappings of {device} can't be aligned to {align} bytes: pages have 4K, 2M or 1G")]
    Align {
        /// The device.
        device: DeviceId,
        /// The alignment in bytes.
        align: u64,
    },
}
