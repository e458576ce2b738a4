//! A character device.

use super::stored::{Driver, MemoryZone, StoredDevice};
use std::fmt;
use std::ops::Range;

/// The kernel's name of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceId {
    /// X of daxX.Y, the number of its region.
    pub region: u32,
    /// Y of daxX.Y.
    pub number: u32,
}

impl DeviceId {
    /// Parses a name like `dax0.1`, or the numbers alone like `0.1`.
    pub fn parse(name: &str) -> Option<DeviceId> {
        let (region, number) = name.strip_prefix("dax").unwrap_or(name).split_once('.')?;
        let number_of = |digits: &str| {
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| digits.parse().ok())?
        };
        Some(DeviceId { region: number_of(region)?, number: number_of(number)? })
    }

    pub(crate) fn of(stored: &StoredDevice) -> DeviceId {
        DeviceId { region: stored.region, number: stored.number }
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dax{}.{}", self.region, self.number)
    }
}

/// A character device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub id: DeviceId,
    /// Its physical addresses, in the order of its pages.
    pub ranges: Vec<Range<u64>>,
    /// Alignment of mappings, in bytes.
    pub align: u64,
    /// The driver that is bound to it.
    pub driver: Driver,
    /// Zone of its memory; `None` while the memory is offline.
    pub online: Option<MemoryZone>,
}

impl Device {
    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.ranges.iter().map(|range| range.end - range.start).sum()
    }

    /// Returns true if the kernel uses it as memory, online or offline.
    pub fn is_memory(&self) -> bool {
        self.driver == Driver::SystemRam
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn names_are_parsed_as_daxctl_does() {
        for name in ["dax1.2", "1.2"] {
            assert_eq!(DeviceId::parse(name), Some(DeviceId { region: 1, number: 2 }));
        }
        for name in ["", "dax", "dax1", "dax1.", "dax.1", "dax1.2.3", "dax+1.2", "1.-2", "dax1.4294967296"] {
            assert_eq!(DeviceId::parse(name), None, "{name}");
        }
    }
}
