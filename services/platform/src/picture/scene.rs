//! Objects of a picture, in the order in which they are drawn.

use crate::machine::Handle;
use crate::namespace::Mode;
use crate::plan::amount::rounded;
use uuid::Uuid;

/// A machine to draw: an emulated one, or a real one as its kernel shows it. It has no values that the machine does not
/// tell.
#[derive(Clone, Debug)]
pub struct Scene {
    pub(super) name: String,
    /// Number of modules, and capacity by use.
    pub(super) summary: Vec<String>,
    pub(super) sockets: Vec<SocketView>,
    /// Capacity of the largest module, in bytes.
    pub(super) largest: u64,
    /// True if DRAM is known to be a cache of volatile memory.
    pub(super) is_cache: bool,
    /// A line for each CXL device.
    pub(super) cxl: Vec<String>,
}

/// Place of modules and regions. They are drawn in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Socket(u16),
    /// A NUMA node whose socket is unknown.
    Node(u64),
    Unknown,
}

/// A socket, or another place, with its modules and regions.
#[derive(Clone, Debug)]
pub(super) struct SocketView {
    pub(super) place: Place,
    /// Bytes of its DRAM; `None` if unknown.
    pub(super) dram: Option<u64>,
    /// Bytes of volatile memory on its modules, as far as it is known.
    pub(super) memory: u64,
    /// Modules by controller, channel and slot.
    pub(super) modules: Vec<ModuleView>,
    pub(super) regions: Vec<RegionView>,
}

/// A module with the use of its capacity.
#[derive(Clone, Debug)]
pub(super) struct ModuleView {
    /// N of nmemN.
    pub(super) number: usize,
    pub(super) handle: Option<Handle>,
    /// Name of the slot; empty if unknown.
    pub(super) locator: String,
    /// Capacity in bytes; 0 if unknown.
    pub(super) capacity: u64,
    /// True if the capacity is only that of known parts.
    pub(super) is_partial: bool,
    /// Parts from the start of the media to its end.
    pub(super) parts: Vec<Part>,
    /// The condition in a few words.
    pub(super) condition: String,
    /// True if the condition is normal.
    pub(super) well: bool,
    pub(super) is_dead: bool,
    pub(super) is_locked: bool,
    /// True if the condition is more important than the use of the capacity.
    pub(super) has_news: bool,
    /// Further values, for tooltips.
    pub(super) details: Vec<String>,
}

/// A part of a module's capacity.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) what: Use,
    /// Size in bytes.
    pub(super) size: u64,
}

/// Use of capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Memory,
    /// Persistent memory in the region with this number.
    Region(u32),
    Reserved,
    Unconfigured,
    /// Kept by firmware, or less than its alignment.
    Inaccessible,
    /// In no region. The kernel does not tell its use.
    Unknown,
}

/// A region with its namespaces.
#[derive(Clone, Debug)]
pub(super) struct RegionView {
    /// N of regionN.
    pub(super) number: u32,
    /// First physical address; `None` if unknown.
    pub(super) base: Option<u64>,
    /// Size in bytes; `None` if unknown.
    pub(super) size: Option<u64>,
    /// The id of its interleave set.
    pub(super) set: Option<u64>,
    /// The backing of a region without modules.
    pub(super) origin: String,
    /// Its modules by position: N of nmemN, and the name.
    pub(super) members: Vec<(usize, String)>,
    pub(super) enabled: bool,
    /// Pieces from its start to its end.
    pub(super) pieces: Vec<Piece>,
}

/// A part of a region.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) content: Content,
    /// Size in bytes; 0 if unknown.
    pub(super) size: u64,
}

/// Content of a part of a region.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Namespace(NamespaceView),
    Free,
    /// The kernel does not show it, since the region is disabled.
    Unknown,
}

/// A namespace.
#[derive(Clone, Debug)]
pub(super) struct NamespaceView {
    /// X of namespaceX.Y, the number of its region.
    pub(super) region: u32,
    /// Y of namespaceX.Y.
    pub(super) number: u32,
    pub(super) mode: Mode,
    /// Size in bytes, including page map and BTT metadata; `None` if unknown.
    pub(super) size: Option<u64>,
    /// Bytes that are available to its user; `None` if unknown.
    pub(super) usable: Option<u64>,
    /// Names in /dev.
    pub(super) devices: Vec<String>,
    /// The user's name.
    pub(super) name: String,
    pub(super) uuid: Option<Uuid>,
    pub(super) enabled: bool,
}

impl Place {
    /// Returns the name of the place.
    pub(super) fn name(self) -> String {
        match self {
            Place::Socket(number) => format!("socket {number}"),
            Place::Node(number) => format!("NUMA node {number}"),
            Place::Unknown => "unknown socket".to_owned(),
        }
    }

    /// Returns the socket's number, or the name of the place.
    pub(super) fn short_name(self) -> String {
        match self {
            Place::Socket(number) => number.to_string(),
            other => other.name(),
        }
    }
}

impl ModuleView {
    /// Returns the kernel's name.
    pub(super) fn device(&self) -> String {
        format!("nmem{}", self.number)
    }

    /// Returns the handle, or the kernel's name without one.
    pub(super) fn name(&self) -> String {
        self.handle.map_or_else(|| self.device(), |handle| handle.to_string())
    }

    /// Returns the memory controller, from 0.
    pub(super) fn controller(&self) -> u16 {
        self.handle.map_or(0, Handle::controller)
    }

    /// Returns the capacity for users.
    pub(super) fn capacity_text(&self) -> String {
        match self.capacity {
            0 => "does not tell".to_owned(),
            bytes if self.is_partial => format!("≥ {}", amount(bytes)),
            bytes => amount(bytes),
        }
    }
}

impl RegionView {
    /// Returns the kernel's name.
    pub(super) fn name(&self) -> String {
        format!("region{}", self.number)
    }

    /// Returns true if the region has no namespace.
    pub(super) fn is_free(&self) -> bool {
        self.pieces.iter().all(|piece| matches!(piece.content, Content::Free))
    }

    /// Returns true if a module is part of the region.
    pub(super) fn has(&self, module: usize) -> bool {
        self.members.iter().any(|(number, _)| *number == module)
    }

    /// Describes the backing of the region.
    pub(super) fn made_of(&self) -> String {
        match self.members.len() {
            0 => self.origin.clone(),
            1 => "one module".to_owned(),
            count => format!("{count} modules"),
        }
    }
}

impl Piece {
    pub(super) fn namespace(&self) -> Option<&NamespaceView> {
        match &self.content {
            Content::Namespace(namespace) => Some(namespace),
            Content::Free | Content::Unknown => None,
        }
    }
}

impl NamespaceView {
    /// Returns the kernel's name.
    pub(super) fn device(&self) -> String {
        format!("namespace{}.{}", self.region, self.number)
    }

    /// Returns the paths of its devices.
    pub(super) fn paths(&self) -> Vec<String> {
        self.devices.iter().map(|device| format!("/dev/{device}")).collect()
    }

    /// Returns the size for users.
    pub(super) fn size_text(&self) -> String {
        size_text(self.size)
    }
}

/// Formats a size for users.
pub(super) fn size_text(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "unknown size".to_owned(), amount)
}

/// Formats bytes for users.
pub(super) fn amount(bytes: u64) -> String {
    rounded(bytes)
}

/// Divides `width` into parts in proportion to `sizes`. Each part is at least `least` wide if there is room for that.
/// The sum is exactly `width`.
pub(super) fn divide(width: usize, sizes: &[u64], least: usize) -> Vec<usize> {
    let total: u128 = sizes.iter().map(|size| u128::from(*size)).sum();
    if sizes.is_empty() || total == 0 {
        return vec![0; sizes.len()];
    }
    let least = least.min(width / sizes.len());
    let share = |size: u64| (u128::from(size) * width as u128 / total) as usize;
    let mut parts: Vec<usize> = sizes.iter().map(|size| share(*size).max(least)).collect();
    // The largest part absorbs the rounding differences.
    loop {
        let sum: usize = parts.iter().sum();
        let Some(most) = (0..parts.len()).max_by_key(|index| parts[*index]) else { return parts };
        match sum.cmp(&width) {
            std::cmp::Ordering::Equal => return parts,
            std::cmp::Ordering::Less => parts[most] += width - sum,
            std::cmp::Ordering::Greater => parts[most] -= 1,
        }
    }
}

#[cfg(test)]
mod test {
    use super::divide;

    #[test]
    fn parts_are_to_scale() {
        assert_eq!(divide(10, &[1, 1], 1), [5, 5]);
        assert_eq!(divide(10, &[999, 1], 1), [9, 1]);
        assert_eq!(divide(10, &[u64::MAX, u64::MAX, 0], 1), [5, 4, 1]);
        assert_eq!(divide(3, &[1; 5], 2).iter().sum::<usize>(), 3);
        assert_eq!(divide(7, &[3], 9), [7]);
        assert_eq!(divide(7, &[], 9), []);
        assert_eq!(divide(7, &[0, 0], 1), [0, 0]);
    }
}
