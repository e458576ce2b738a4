//! Destroys, reconfigures, enables and disables namespaces.

use super::create::create_in;
use super::error::NamespaceError;
use super::found::{Namespace, Personality};
use super::info::clear_info;
use super::labels::remove_labels;
use super::mode::MapLocation;
use super::parameters::CreateNamespace;
use super::unlabelled::reconfigure_region;
use crate::dax;
use crate::platform::Platform;
use crate::region::Region;
use crate::state::NamespaceState;
use lode_nvdimm::PageMapLocation;
use uuid::Uuid;

/// Destroys a namespace. Its data becomes inaccessible.
///
/// # Errors
/// Fails if the namespace does not exist or has no labels, if it is active and `force` is not set, or if the kernel uses
/// it as memory.
pub fn destroy(platform: &mut Platform, name: &str, force: bool) -> Result<(), NamespaceError> {
    let (region, namespace) = platform.namespace(name)?;
    let Some(uuid) = namespace.uuid else {
        return Err(NamespaceError::NoLabels { region: region.number });
    };
    if namespace.enabled && !force {
        return Err(NamespaceError::NamespaceActive { name: name.to_owned() });
    }
    dax::release(&mut platform.state, region.number, Some(namespace.number))?;
    keep_numbers(platform, &region);
    clear_info(platform, &region, namespace.offset);
    remove_labels(platform, &region, uuid)?;
    platform.state.namespaces.retain(|known| known.uuid != uuid);
    Ok(())
}

/// Records the numbers of a region's namespaces. Until the next reboot they stay, even if other namespaces change.
fn keep_numbers(platform: &mut Platform, region: &Region) {
    for namespace in platform.namespaces(region) {
        let Some(uuid) = namespace.uuid else { continue };
        if !platform.state.namespaces.iter().any(|known| known.uuid == uuid) {
            platform.state.namespaces.push(NamespaceState {
                uuid,
                number: namespace.number,
                disabled: false,
            });
        }
    }
}

/// Reconfigures a namespace. Values that `parameters` does not set stay, and so does its number. The data is lost. With `autolabel`, the
/// modules of a region without labels get labels, if they can; without, only the mode of its namespace changes.
///
/// # Errors
/// Those of [`destroy`] and [`create`](super::create()). Fails also if a module that would get labels is part of another active region,
/// or if the namespace of a region without labels is to have another size than the region.
pub fn reconfigure(
    platform: &mut Platform,
    name: &str,
    parameters: &CreateNamespace,
    force: bool,
    autolabel: bool,
    uuids: &mut dyn FnMut() -> Uuid,
) -> Result<Namespace, NamespaceError> {
    let (region, namespace) = platform.namespace(name)?;
    if namespace.uuid.is_none() && !region.members().is_empty() {
        if namespace.enabled && !force {
            return Err(NamespaceError::NamespaceActive { name: name.to_owned() });
        }
        dax::release(&mut platform.state, region.number, None)?;
        return reconfigure_region(platform, &region, parameters, autolabel, uuids);
    }
    destroy(platform, name, force)?;
    let mut parameters = parameters.clone();
    parameters.region = Some(region.number);
    parameters.size = parameters.size.or(Some(namespace.size));
    if parameters.name.is_empty() {
        parameters.name.clone_from(&namespace.name);
    }
    if let Personality::PageMap(info) = &namespace.personality
        && info.location == PageMapLocation::Dram
    {
        parameters.map = MapLocation::Mem;
    }
    create_in(platform, &region, &parameters, Some(&namespace), uuids)
}

/// Enables or disables a namespace until the next reboot. Returns true if this changed its state.
///
/// # Errors
/// Fails if the namespace does not exist or has no labels, if it is to be enabled while its region is disabled, or if it
/// is to be disabled while the kernel uses it as memory.
pub fn enable(platform: &mut Platform, name: &str, enable: bool) -> Result<bool, NamespaceError> {
    let (region, namespace) = platform.namespace(name)?;
    let Some(uuid) = namespace.uuid else {
        return Err(NamespaceError::NoLabels { region: region.number });
    };
    if enable && !region.enabled {
        return Err(NamespaceError::RegionDisabled { region: region.number });
    }
    if !enable {
        dax::release(&mut platform.state, region.number, Some(namespace.number))?;
    }
    platform.state.namespaces.retain(|known| known.uuid != uuid);
    platform.state.namespaces.push(NamespaceState { uuid, number: namespace.number, disabled: !enable });
    Ok(namespace.enabled != enable)
}
