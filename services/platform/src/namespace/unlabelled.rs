//! The namespace of a region without labels: a new mode, or labels for the region.

use super::create::{create, write_info};
use super::error::NamespaceError;
use super::found::Namespace;
use super::info::clear_info;
use super::labels::format_labels;
use super::mode::Mode;
use super::parameters::CreateNamespace;
use super::size::size_rules;
use crate::platform::Platform;
use crate::region::Region;
use crate::state::{LabelVersion, Member};
use uuid::Uuid;

/// Reconfigures the namespace that is a whole region. With `autolabel`, the modules get labels 1.2 and the namespace is
/// created anew, if all modules have label areas. Otherwise the namespace stays the whole region and changes its mode.
///
/// # Errors
/// Fails if a module is part of another active region, which labels would change; or if the parameters need labels or
/// do not fit the region.
pub(super) fn reconfigure_region(
    platform: &mut Platform,
    region: &Region,
    parameters: &CreateNamespace,
    autolabel: bool,
    uuids: &mut dyn FnMut() -> Uuid,
) -> Result<Namespace, NamespaceError> {
    let number = region.number;
    if parameters.size.is_some_and(|size| size != region.size) {
        return Err(NamespaceError::Undivided { region: number });
    }
    if let (Mode::Fsdax | Mode::Devdax | Mode::Raw, Some(size)) = (parameters.mode, parameters.sector_size)
        && size != 512
    {
        return Err(NamespaceError::SectorSize { size });
    }
    clear_info(platform, region, 0);
    let members = region.members();
    let areas = members.iter().filter_map(|member| platform.machine.module(member.module));
    if autolabel && areas.map(|module| module.label_area).all(|size| size > 0) {
        label(platform, region, members)?;
        let parameters =
            CreateNamespace { region: Some(number), size: Some(region.size), ..parameters.clone() };
        return create(platform, &parameters, uuids);
    }
    parameters.check()?;
    let rules = size_rules(platform, region);
    let (size, unit) = (region.size, rules.unit(parameters)?);
    if !size.is_multiple_of(unit) {
        let fitting = size.next_multiple_of(unit);
        return Err(NamespaceError::Misaligned { size, ways: rules.ways, unit, fitting });
    }
    // Without labels there is no namespace UUID that the info block could name.
    write_info(platform, region, parameters, Uuid::nil(), uuids(), 0..size)?;
    let made = platform.namespaces(region).into_iter().next();
    Ok(made.expect("a region without labels is a namespace"))
}

/// Initializes the labels of a region's modules.
fn label(platform: &mut Platform, region: &Region, members: &[Member]) -> Result<(), NamespaceError> {
    let regions = platform.regions();
    let others = || regions.iter().filter(|other| other.number != region.number && other.enabled);
    for member in members {
        if let Some(other) = others().find(|other| other.has(member.module)) {
            let (module, region, other) = (member.module, region.number, other.number);
            return Err(NamespaceError::Autolabel { region, module, other });
        }
    }
    for member in members {
        let module = member.module;
        format_labels(platform, module, LabelVersion::V1_2)
            .map_err(|error| NamespaceError::Labels { module, error })?;
    }
    let modules: Vec<_> = members.iter().map(|member| member.module).collect();
    let of_region = |member: &Member| modules.contains(&member.module);
    let sets = platform.state.sets.iter_mut().filter(|set| set.members.iter().any(of_region));
    sets.for_each(|set| set.labels = LabelVersion::V1_2);
    Ok(())
}
