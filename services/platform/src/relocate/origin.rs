//! The record of a namespace that is about to leave, and the namespace that is made of a record.

use super::record::{Place, Relocation, Stage};
use crate::machine::Handle;
use crate::namespace::{CreateNamespace, MapLocation, Mode, Namespace};
use crate::region::Region;
use lode_nvdimm::PageMapLocation;

/// Returns a record for a namespace that is about to leave; `None` for one without labels.
pub(super) fn record_of(
    (region, namespace): (&Region, &Namespace),
    module: Option<Handle>,
    place: Place,
) -> Option<Relocation> {
    let map = match namespace.page_map().map(|info| info.location) {
        Some(PageMapLocation::Dram) => MapLocation::Mem,
        _ => MapLocation::Dev,
    };
    let sector_size = match namespace.mode() {
        Mode::Devdax => None,
        Mode::Sector => Some(namespace.user_sector_size()),
        // The default of ndctl.
        _ => Some(namespace.sector_size).filter(|size| *size != 512),
    };
    Some(Relocation {
        uuid: namespace.uuid?,
        device: namespace.device(),
        module,
        grow_to: None,
        name: namespace.name.clone(),
        mode: namespace.mode(),
        ways: region.members().len(),
        size: namespace.size,
        usable: namespace.usable(),
        map,
        align: namespace.page_map().map(|info| u64::from(info.align)),
        sector_size,
        place,
        stage: Stage::Leaving,
        returns: false,
        exchanged: None,
        digest: None,
    })
}

/// Returns the parameters of a namespace like this one, without region, size and UUID.
pub(super) fn parameters_of(one: &Relocation) -> CreateNamespace {
    CreateNamespace {
        mode: one.mode,
        map: one.map,
        align: one.align,
        sector_size: one.sector_size,
        name: one.name.clone(),
        ..CreateNamespace::default()
    }
}
