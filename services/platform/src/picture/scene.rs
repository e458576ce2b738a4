//! Objects of a picture, in the order in which they are drawn.

use crate::machine::{Health, Module, Security};
use crate::namespace::Namespace;
use crate::plan::amount::brief;
use crate::platform::Platform;
use crate::region::{Origin, Region};

/// A machine to draw.
pub(super) struct Scene<'p> {
    pub(super) platform: &'p Platform,
    pub(super) sockets: Vec<SocketView<'p>>,
    /// Capacity of the largest module, in bytes.
    pub(super) largest: u64,
}

/// A socket with its modules and regions.
pub(super) struct SocketView<'p> {
    pub(super) number: u16,
    /// Bytes of its DRAM.
    pub(super) dram: u64,
    /// Bytes of volatile memory on its modules.
    pub(super) memory: u64,
    /// Modules by controller, channel and slot.
    pub(super) modules: Vec<ModuleView<'p>>,
    pub(super) regions: Vec<RegionView>,
}

/// A module with the use of its capacity.
pub(super) struct ModuleView<'p> {
    pub(super) module: &'p Module,
    /// N of nmemN.
    pub(super) index: usize,
    /// Parts from the start of the media to its end.
    pub(super) parts: Vec<Part>,
    /// True if the module has a pending goal.
    pub(super) has_goal: bool,
}

/// A part of a module's capacity.
pub(super) struct Part {
    pub(super) what: Use,
    /// Size in bytes.
    pub(super) size: u64,
}

/// Use of capacity.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Memory,
    /// Persistent memory in the region with this number.
    Region(u32),
    Reserved,
    Unconfigured,
    /// Kept by firmware, or less than its alignment.
    Inaccessible,
}

/// A region with its namespaces.
pub(super) struct RegionView {
    pub(super) region: Region,
    /// Pieces from its start to its end.
    pub(super) pieces: Vec<Piece>,
}

/// A part of a region.
pub(super) struct Piece {
    /// The namespace; `None` for a free range.
    pub(super) namespace: Option<Namespace>,
    /// Size in bytes.
    pub(super) size: u64,
}

impl<'p> Scene<'p> {
    pub(super) fn of(platform: &'p Platform) -> Scene<'p> {
        let machine = &platform.machine;
        let regions = platform.regions();
        let sockets = machine.sockets().into_iter().map(|number| {
            let here = machine.modules.iter().enumerate().filter(|(_, one)| one.handle.socket() == number);
            let view = |(index, module)| ModuleView::of(platform, &regions, index, module);
            let mut modules: Vec<ModuleView<'p>> = here.map(view).collect();
            modules.sort_by_key(|one| one.module.handle);
            let own = regions.iter().filter(|region| region.socket == number);
            SocketView {
                number,
                dram: machine.dram_capacity(number),
                memory: platform.memory_on(number),
                modules,
                regions: own.map(|region| RegionView::of(platform, region)).collect(),
            }
        });
        let largest = machine.modules.iter().map(|module| module.capacity).max().unwrap_or(0);
        Scene { platform, sockets: sockets.collect(), largest }
    }

    /// Summarizes the machine: number of modules, and capacity by use.
    pub(super) fn summary(&self) -> Vec<String> {
        let uses = self.platform.all_capacities();
        let count = self.platform.machine.modules.len();
        let plural = if count == 1 { "" } else { "s" };
        let mut parts = vec![format!("{count} module{plural}, {}", brief(uses.total))];
        let all = [
            (uses.app_direct, "persistent"),
            (uses.memory, "volatile"),
            (uses.reserved, "reserved"),
            (uses.unconfigured, "not configured"),
        ];
        let used = all.into_iter().filter(|(bytes, _)| *bytes > 0);
        parts.extend(used.map(|(bytes, what)| format!("{} {what}", brief(bytes))));
        let boots = self.platform.state.boots;
        parts.push(format!("started {boots} time{}", if boots == 1 { "" } else { "s" }));
        parts
    }
}

impl<'p> ModuleView<'p> {
    fn of(platform: &Platform, regions: &[Region], index: usize, module: &'p Module) -> ModuleView<'p> {
        let uses = platform.capacities(module);
        let mut parts = vec![Part { what: Use::Memory, size: uses.memory }];
        for region in regions {
            if let Origin::Set { share, .. } = region.origin
                && region.has(module.handle)
            {
                parts.push(Part { what: Use::Region(region.number), size: share });
            }
        }
        parts.push(Part { what: Use::Reserved, size: uses.reserved });
        parts.push(Part { what: Use::Unconfigured, size: uses.unconfigured });
        parts.push(Part { what: Use::Inaccessible, size: uses.inaccessible });
        parts.retain(|part| part.size > 0);
        let has_goal = platform.state.goal(module.handle).is_some();
        ModuleView { module, index, parts, has_goal }
    }

    /// Returns the condition of the module in a few words, and true if it is normal.
    pub(super) fn condition(&self) -> (String, bool) {
        let mut words = Vec::new();
        match self.module.health {
            Health::Healthy => {}
            Health::NonFunctional => words.push("dead"),
            other => words.push(other.as_str()),
        }
        if self.module.security == Security::Locked {
            words.push("locked");
        }
        let well = words.is_empty();
        if well {
            words.push("healthy");
        }
        if self.has_goal {
            words.push("goal waits");
        }
        (words.join(", "), well)
    }
}

impl RegionView {
    fn of(platform: &Platform, region: &Region) -> RegionView {
        let mut pieces = Vec::new();
        let mut at = 0;
        for namespace in platform.namespaces(region) {
            if namespace.offset > at {
                pieces.push(Piece { namespace: None, size: namespace.offset - at });
            }
            at = at.max(namespace.offset.saturating_add(namespace.size));
            pieces.push(Piece { size: namespace.size, namespace: Some(namespace) });
        }
        if at < region.size {
            pieces.push(Piece { namespace: None, size: region.size - at });
        }
        RegionView { region: region.clone(), pieces }
    }

    /// Returns true if the region has no namespace.
    pub(super) fn is_free(&self) -> bool {
        self.pieces.iter().all(|piece| piece.namespace.is_none())
    }

    /// Describes the backing of the region.
    pub(super) fn made_of(&self) -> String {
        match &self.region.origin {
            Origin::Memmap => "DRAM, by memmap=".to_owned(),
            Origin::Set { members, .. } if members.len() == 1 => "one module".to_owned(),
            Origin::Set { members, .. } => format!("{} modules", members.len()),
        }
    }
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
