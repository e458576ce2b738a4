//! Errors of CXL memory.

use super::stored::CxlKind;
use std::fmt;
use thiserror::Error;

/// An object of CXL memory does not exist, or can't be changed as requested.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CxlError {
    /// The root decoder does not exist.
    #[error("{name} not found in CXL topology")]
    UnknownDecoder {
        /// Its name.
        name: String,
    },
    /// The region does not exist.
    #[error("there is no region{region} of CXL memory")]
    UnknownRegion {
        /// Its number.
        region: u32,
    },
    /// The device does not exist.
    #[error("there is no mem{device}")]
    UnknownDevice {
        /// Its number.
        device: u32,
    },
    /// No enabled device matches.
    #[error("no active memdevs found: decoder: {decoder} filter: {filter}")]
    NoDevices {
        /// The root decoder.
        decoder: String,
        /// The names, with commas between; `none` for all.
        filter: String,
    },
    /// There are not as many devices as the region interleaves.
    #[error(
        "Interleave ways {ways} is {} than number of memdevs {}: {devices}",
        if ways > devices { "greater" } else { "less" },
        if *specified { "specified" } else { "found" }
    )]
    Ways {
        /// Devices that the region needs.
        ways: usize,
        /// Devices that there are.
        devices: usize,
        /// True if the devices were named.
        specified: bool,
    },
    /// The window does not take memory of this kind.
    #[error("{decoder} is not {} capable", if *kind == CxlKind::Ram { "volatile" } else { "pmem" })]
    NotCapable {
        /// Its root decoder.
        decoder: String,
        /// The kind of memory.
        kind: CxlKind,
    },
    /// The size can't be divided by the number of devices.
    #[error("size ({size}) is not an integral multiple of interleave-ways ({ways})")]
    Uneven {
        /// The size in bytes.
        size: u64,
        /// Number of devices.
        ways: usize,
    },
    /// A device has no memory of this kind.
    #[error("unable to determine region size: a device has no {} memory, or the window none left", kind.as_str())]
    NoSize {
        /// The kind of memory.
        kind: CxlKind,
    },
    /// The window has too little space.
    #[error("{decoder}: region size {size:#x} exceeds max available space {available:#x}; take less")]
    TooLarge {
        /// Its root decoder.
        decoder: String,
        /// The size in bytes.
        size: u64,
        /// Bytes of the largest free range of the window.
        available: u64,
    },
    /// The version of cxl makes no regions of volatile memory.
    #[error("region type 'ram' not supported yet: cxl has it from version 77 on")]
    NoRamRegions,
    /// A region of volatile memory has no UUID.
    #[error("can't set UUID for ram / volatile regions")]
    UuidOfRam,
    /// A window over several host bridges decides on the granularity.
    #[error("{region}: For an x{ways} root, only root decoder granularity ({granularity}) permitted")]
    Granularity {
        /// The region.
        region: String,
        /// Host bridges of the window.
        ways: usize,
        /// Granularity of the window, in bytes.
        granularity: u64,
    },
    /// A device has no decoder left.
    #[error("could not get a free decoder for mem{device}: each region of a device takes one")]
    NoFreeDecoder {
        /// Its number.
        device: u32,
    },
    /// A device can't have this position in a region.
    #[error("{region}: failed to set target{position} to mem{device}: {why}")]
    Target {
        /// The region.
        region: String,
        /// The position.
        position: usize,
        /// Number of the device.
        device: u32,
        /// The reason.
        why: &'static str,
    },
    /// The kernel refuses a step.
    #[error("{object}: {step}: {errno}: {why}")]
    Refused {
        /// The object.
        object: String,
        /// The step.
        step: &'static str,
        /// The kernel's error.
        errno: CxlErrno,
        /// The reason.
        why: &'static str,
    },
    /// The kernel refuses to poison a line, or to clear it.
    #[error("failed to {verb} poison at mem{device}:{address}: {errno}; {why}")]
    Poison {
        /// `inject` or `clear`.
        verb: &'static str,
        /// Number of the device.
        device: u32,
        /// The address on the device, in hexadecimal digits or as it was typed.
        address: String,
        /// The kernel's error.
        errno: CxlErrno,
        /// The reason.
        why: &'static str,
    },
    /// The region is enabled.
    #[error("{region} active. Disable it or use --force")]
    Active {
        /// The region.
        region: String,
    },
    /// The device is enabled, which cxl takes for a use of it.
    #[error("mem{device} is part of an active region")]
    ActiveDevice {
        /// Its number.
        device: u32,
    },
    /// The port leads to enabled devices, which cxl takes for a use of it.
    #[error(
        "{port} hosts {count} memdev{} which {} part of an active region",
        if *count == 1 { "" } else { "s" },
        if *count == 1 { "is" } else { "are" }
    )]
    ActivePort {
        /// The port.
        port: String,
        /// Number of enabled devices below it.
        count: usize,
    },
    /// The port does not exist.
    #[error("{kind}: {name} not found")]
    UnknownPort {
        /// `port` or `endpoint`.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// The port above the device is disabled.
    #[error("mem{device} can't be enabled: port{port} above it is disabled; enable that first")]
    PortDisabled {
        /// Number of the device.
        device: u32,
        /// Number of the port.
        port: u32,
    },
    /// The device has no free memory of this kind.
    #[error("mem{device}: no available capacity")]
    NoCapacity {
        /// Its number.
        device: u32,
    },
    /// The request is larger than the memory.
    #[error("mem{device}: {size} exceeds available capacity {available}")]
    Exceeds {
        /// Number of the device.
        device: u32,
        /// Requested bytes.
        size: u64,
        /// Available bytes.
        available: u64,
    },
    /// A device has no endpoint while it is disabled.
    #[error("mem{device}: CXL operation disabled; enable the device first")]
    Disabled {
        /// Its number.
        device: u32,
    },
    /// The device has no decoder of this name.
    #[error("mem{device}: no match for decoder: '{decoder}'")]
    NoSuchDecoder {
        /// Number of the device.
        device: u32,
        /// The name.
        decoder: String,
    },
    /// Decoders of a device take memory in their order, and free it in the reverse one.
    #[error("mem{device}: {decoder} is out of sequence")]
    OutOfSequence {
        /// Number of the device.
        device: u32,
        /// The decoder.
        decoder: String,
    },
    /// No decoder of the device can take or free memory.
    #[error("mem{device}: no suitable decoder found")]
    NoSuitableDecoder {
        /// Its number.
        device: u32,
    },
    /// The size of a partition is no multiple of the unit.
    #[error("mem{device}: size {size} is not partition aligned {alignment}; --align rounds it")]
    Unaligned {
        /// Number of the device.
        device: u32,
        /// Bytes of volatile memory.
        size: u64,
        /// The unit in bytes.
        alignment: u64,
    },
    /// Labels can't be changed while the kernel uses them.
    #[error("mem{device}: has active nvdimm bridge, abort label write")]
    LabelsInUse {
        /// Number of the device.
        device: u32,
    },
    /// Labels have no such part.
    #[error("mem{device}: the label area has {size} bytes, and {len} from {off} on are not all in it")]
    LabelExtent {
        /// Number of the device.
        device: u32,
        /// Bytes of the area.
        size: u64,
        /// Offset of the part.
        off: u64,
        /// Bytes of the part.
        len: u64,
    },
    /// A file is larger than the label area.
    #[error("mem{device}: File size ({len}) greater than label area size ({size}), aborting")]
    LabelsTooLarge {
        /// Number of the device.
        device: u32,
        /// Bytes of the file.
        len: u64,
        /// Bytes of the area.
        size: u64,
    },
    /// The file of a label area is not one that this program wrote.
    #[error(
        "{path}: it has other than hexadecimal digits, or too many; remove it to have a blank label area"
    )]
    CorruptLabels {
        /// The file.
        path: String,
    },
}

/// An error of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CxlErrno {
    /// `EINVAL`
    Invalid,
    /// `EBUSY`
    Busy,
    /// `ENXIO`
    NoDevice,
    /// `ENOSPC`
    NoSpace,
    /// `ERANGE`
    Range,
}

impl fmt::Display for CxlErrno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CxlErrno::Invalid => "Invalid argument",
            CxlErrno::Busy => "Device or resource busy",
            CxlErrno::NoDevice => "No such device or address",
            CxlErrno::NoSpace => "No space left on device",
            CxlErrno::Range => "Numerical result out of range",
        })
    }
}
