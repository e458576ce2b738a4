//! Allocation for a request on a copy of the machine, which shows if the request can be fulfilled.

use super::fit::{Extent, fitted};
use super::request::NamespaceRequest;
use super::rule::RuleError;
use super::search::{Uuids, first_success};
use crate::goal::PersistentKind;
use crate::machine::{CxlHardware, Handle, Machine};
use crate::namespace::{self, CreateNamespace, Namespace, largest_free, size_rules};
use crate::platform::Platform;
use crate::region::{Origin, Region};

/// A namespace and the parameters that it was made with.
#[derive(Clone, Debug)]
pub(super) struct Allocation {
    /// Parameters that make it again, with region and size.
    pub(super) parameters: CreateNamespace,
    /// The namespace.
    pub(super) namespace: Namespace,
    /// The socket of its region.
    pub(super) socket: u16,
}

impl Allocation {
    /// Returns the bytes of the namespace.
    pub(super) fn extent(&self) -> Extent {
        Extent { size: self.namespace.size, usable: self.namespace.usable() }
    }
}

/// Returns a machine in its factory state that has only these modules.
pub(super) fn with_only(platform: &Platform, modules: &[Handle]) -> Platform {
    let machine = &platform.machine;
    let kept = machine.modules.iter().filter(|module| modules.contains(&module.handle));
    Platform::new(Machine {
        name: machine.name.clone(),
        profile: machine.profile,
        alignment: machine.alignment,
        modules: kept.cloned().collect(),
        dram: machine.dram.clone(),
        memmap: Vec::new(),
        soft_reserved: Vec::new(),
        cxl: CxlHardware::default(),
        firmware_scrubs: machine.firmware_scrubs,
        firmware_activation: machine.firmware_activation,
    })
}

/// Makes the namespace of a request in the first region that takes it. A namespace without a size goes to the region
/// with the largest free range. Regions that change at the next
/// reboot are skipped.
///
/// # Errors
/// Fails with the error of the region that came nearest.
pub(super) fn allocate(
    platform: &mut Platform,
    request: &NamespaceRequest,
    uuids: Uuids<'_>,
) -> Result<Allocation, RuleError> {
    let mut regions: Vec<Region> = platform
        .module_regions()
        .into_iter()
        .filter(|region| matches_request(platform, region, request))
        .collect();
    if request.want().is_none() {
        regions.sort_by_key(|region| std::cmp::Reverse(largest_free(platform, region)));
    }
    let attempts = regions.into_iter().map(|region| {
        let usable =
            |parameters: &CreateNamespace, size: u64| namespace::usable(platform, &region, parameters, size);
        let mut parameters = fitted(&size_rules(platform, &region), request, usable)?;
        let mut attempt = platform.clone();
        let namespace = namespace::create(&mut attempt, &parameters, uuids)?;
        *platform = attempt;
        parameters.size = Some(namespace.size);
        Ok(Allocation { parameters, namespace, socket: region.socket })
    });
    first_success(request.want().unwrap_or(1), attempts)
}

fn matches_request(platform: &Platform, region: &Region, request: &NamespaceRequest) -> bool {
    let members = region.members();
    matches!(region.origin, Origin::Set { .. })
        && region.enabled
        && request.socket.is_none_or(|socket| socket == region.socket)
        && match request.kind {
            None => true,
            Some(PersistentKind::AppDirect) => members.len() > 1,
            Some(PersistentKind::AppDirectNotInterleaved) => members.len() == 1,
        }
        && !members.iter().any(|member| platform.state.changes_at_reboot(member.module))
}
