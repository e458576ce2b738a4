//! Trials: a plan finds out if a wish can be fulfilled by fulfilling it on a copy of the machine.

use super::wish::Wish;
use crate::error::PlatformError;
use crate::goal::PersistentKind;
use crate::machine::{Handle, Machine};
use crate::namespace::{CreateNamespace, Namespace};
use crate::platform::Platform;
use crate::region::{Origin, Region};
use uuid::Uuid;

/// Generates unused UUIDs.
pub(super) type Uuids<'u> = &'u mut dyn FnMut() -> Uuid;

/// A namespace and the parameters that it was made with.
#[derive(Clone, Debug)]
pub(super) struct Made {
    /// Parameters that make it again, with region and size.
    pub(super) wanted: CreateNamespace,
    /// The namespace.
    pub(super) namespace: Namespace,
    /// The socket of its region.
    pub(super) socket: u16,
}

impl Platform {
    /// Returns a machine in its factory state that has only these modules.
    pub(super) fn with_only(&self, modules: &[Handle]) -> Platform {
        let machine = &self.machine;
        let kept = machine.modules.iter().filter(|module| modules.contains(&module.handle));
        Platform::new(Machine {
            name: machine.name.clone(),
            profile: machine.profile,
            alignment: machine.alignment,
            modules: kept.cloned().collect(),
            dram: Vec::new(),
            memmap: Vec::new(),
            firmware_scrubs: machine.firmware_scrubs,
        })
    }

    /// Makes the namespace of a wish in the first region that takes it. A namespace without a size goes to the region
    /// with the largest free range. Regions with pending goals are skipped.
    ///
    /// # Errors
    /// The error of the region that came nearest.
    pub(super) fn grant(&mut self, wish: &Wish, uuids: Uuids<'_>) -> Result<Made, PlatformError> {
        let mut regions: Vec<Region> =
            self.regions().into_iter().filter(|region| self.suits(region, wish)).collect();
        if wish.namespace.size.is_none() {
            regions.sort_by_key(|region| std::cmp::Reverse(self.largest_free(region)));
        }
        let want = wish.namespace.size.unwrap_or(1);
        let mut nearest = PlatformError::NoSpace { region: None, want, largest: 0 };
        for region in regions {
            let mut attempt = self.clone();
            let mut wanted = CreateNamespace { region: Some(region.number), ..wish.namespace.clone() };
            match attempt.create_namespace(&wanted, uuids) {
                Ok(namespace) => {
                    *self = attempt;
                    wanted.size = Some(namespace.size);
                    return Ok(Made { wanted, namespace, socket: region.socket });
                }
                Err(error) => nearest = nearer(nearest, error),
            }
        }
        Err(nearest)
    }

    fn suits(&self, region: &Region, wish: &Wish) -> bool {
        let members = region.members();
        matches!(region.origin, Origin::Set { .. })
            && region.enabled
            && wish.socket.is_none_or(|socket| socket == region.socket)
            && match wish.kind {
                None => true,
                Some(PersistentKind::AppDirect) => members.len() > 1,
                Some(PersistentKind::AppDirectNotInterleaved) => members.len() == 1,
            }
            && !members.iter().any(|member| self.state.goal(member.module).is_some())
    }
}

/// Returns the more informative error: the larger available space, or an error that more space would not prevent.
pub(super) fn nearer(one: PlatformError, other: PlatformError) -> PlatformError {
    match (&one, &other) {
        (PlatformError::NoSpace { largest: most, .. }, PlatformError::NoSpace { largest, .. })
            if most >= largest =>
        {
            one
        }
        (PlatformError::NoSpace { .. }, _) => other,
        _ => one,
    }
}
