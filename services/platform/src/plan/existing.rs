//! Existing namespaces that fulfil requests.

use super::amount::{brief, exact};
use super::fit::Extent;
use super::request::NamespaceRequest;
use crate::goal::PersistentKind;
use crate::namespace::{MapLocation, Mode, SizeRules};

/// Bytes of a section, to which kernels round page maps.
const SECTION: u64 = 128 << 20;

/// A namespace that exists before the plan.
#[derive(Clone, Debug)]
pub(super) struct Existing {
    /// The kernel's name.
    pub(super) device: String,
    pub(super) mode: Mode,
    pub(super) extent: Extent,
    pub(super) socket: u16,
    /// The rules of its region.
    pub(super) rules: SizeRules,
    /// Place of its page map; `None` if unknown, or it has none.
    pub(super) map: Option<MapLocation>,
    /// Alignment of its page map, in bytes; `None` if unknown, or it has none.
    pub(super) align: Option<u64>,
    /// Sector size in bytes; `None` if unknown.
    pub(super) sector_size: Option<u64>,
    /// The reason that its user has no access to it, or will lose it; `None` if there is none.
    pub(super) fault: Option<&'static str>,
}

impl Existing {
    /// Returns how the namespace differs from a request for its name; `None` if it fulfils the request.
    pub(super) fn difference(&self, request: &NamespaceRequest) -> Option<String> {
        let wanted = &request.namespace;
        if let Some(fault) = self.fault {
            return Some(fault.to_owned());
        }
        if self.mode != wanted.mode {
            return Some(format!("is in mode {}", self.mode.as_str()));
        }
        if request.socket.is_some_and(|socket| socket != self.socket) {
            return Some(format!("is on socket {}", self.socket));
        }
        match (request.kind, self.rules.ways) {
            (Some(PersistentKind::AppDirect), ..=1) => return Some("is on one module".to_owned()),
            (Some(PersistentKind::AppDirectNotInterleaved), ways @ 2..) => {
                return Some(format!("is interleaved over {ways} modules"));
            }
            _ => {}
        }
        if let Some(map) = self.map.filter(|map| *map != wanted.map) {
            let place = if map == MapLocation::Mem { "DRAM" } else { "itself" };
            return Some(format!("has its page map in {place}"));
        }
        if let (Some(found), Some(align)) = (self.align, wanted.align)
            && found != align
        {
            return Some(format!("has the alignment {}", exact(found)));
        }
        if let (Some(found), Some(size)) = (self.sector_size, wanted.sector_size)
            && found != size
        {
            return Some(format!("has sectors of {found} bytes"));
        }
        let Extent { size, usable } = self.extent;
        (!self.fits(request))
            .then(|| format!("has {}, of which its user gets {}", brief(size), brief(usable)))
    }

    /// Returns true if the planner gives the request a namespace of this size.
    fn fits(&self, request: &NamespaceRequest) -> bool {
        let (wanted, Extent { size, usable }) = (&request.namespace, self.extent);
        match (request.usable, wanted.size) {
            (Some(want), _) => {
                // The least size that gives the bytes exceeds them by less than a unit, and by the rounding of start and
                // end of the data, which depends on the place.
                let rounding = 2 * SECTION.max(wanted.align.unwrap_or(0));
                let excess_max = self.rules.unit(wanted).unwrap_or(0).saturating_add(rounding);
                usable.checked_sub(want).is_some_and(|excess| excess <= excess_max)
            }
            (None, Some(want)) if request.exact => size == want,
            (None, Some(want)) => {
                let rounded = self.rules.rounded_up(wanted, want).unwrap_or(want);
                (want..=rounded).contains(&size)
            }
            (None, None) => true,
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::namespace::CreateNamespace;

    const GIB: u64 = 1 << 30;

    fn existing() -> Existing {
        Existing {
            device: "namespace0.0".to_owned(),
            mode: Mode::Fsdax,
            extent: Extent { size: 102_408 << 20, usable: 100_806 << 20 },
            socket: 0,
            rules: SizeRules { region: 0, ways: 6, align: None, largest: 0 },
            map: Some(MapLocation::Dev),
            align: Some(2 << 20),
            sector_size: Some(512),
            fault: None,
        }
    }

    fn sized(size: Option<u64>) -> NamespaceRequest {
        NamespaceRequest {
            namespace: CreateNamespace { size, ..CreateNamespace::default() },
            ..NamespaceRequest::default()
        }
    }

    #[test]
    fn rounded_size_and_usable_bytes_fulfil() {
        let is_fulfilled = |request: &NamespaceRequest| existing().difference(request).is_none();
        let usable = |bytes| NamespaceRequest { usable: Some(bytes), ..NamespaceRequest::default() };
        assert!(is_fulfilled(&sized(None)));
        assert!(is_fulfilled(&sized(Some(100 * GIB))));
        assert!(is_fulfilled(&sized(Some(102_408 << 20))));
        assert!(!is_fulfilled(&sized(Some((102_408 << 20) + 1))));
        assert!(!is_fulfilled(&sized(Some(102_396 << 20))), "this size would not be rounded up");
        assert!(!is_fulfilled(&NamespaceRequest { exact: true, ..sized(Some(100 * GIB)) }));
        assert!(is_fulfilled(&usable(100_806 << 20)));
        assert!(!is_fulfilled(&usable((100_806 << 20) + 1)));
        assert!(!is_fulfilled(&usable(98 * GIB)));
    }

    #[test]
    fn difference_is_named() {
        let difference = |change: fn(&mut NamespaceRequest)| {
            let mut request = sized(Some(100 * GIB));
            change(&mut request);
            existing().difference(&request).unwrap()
        };
        assert_eq!(difference(|one| one.namespace.mode = Mode::Sector), "is in mode fsdax");
        assert_eq!(difference(|one| one.socket = Some(1)), "is on socket 0");
        let alone = difference(|one| one.kind = Some(PersistentKind::AppDirectNotInterleaved));
        assert_eq!(alone, "is interleaved over 6 modules");
        assert_eq!(difference(|one| one.namespace.map = MapLocation::Mem), "has its page map in itself");
        assert_eq!(difference(|one| one.namespace.align = Some(GIB)), "has the alignment 2MiB");
        assert_eq!(difference(|one| one.namespace.sector_size = Some(4096)), "has sectors of 512 bytes");
        let size = difference(|one| one.namespace.size = Some(GIB));
        assert_eq!(size, "has 100 GiB, of which its user gets 98.44 GiB");
        let off = Existing { fault: Some("is disabled"), ..existing() };
        assert_eq!(off.difference(&sized(None)).unwrap(), "is disabled");
    }
}
