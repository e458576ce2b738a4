//! Trying: whether a wish can be met is found out by meeting it, on a copy of the machine.

use super::wish::Wish;
use crate::error::PlatformError;
use crate::goal::PersistentKind;
use crate::machine::{Handle, Machine};
use crate::namespace::{CreateNamespace, Namespace};
use crate::platform::Platform;
use crate::region::{Origin, Region};
use uuid::Uuid;

/// Makes identities that nobody has.
pub(super) type Uuids<'u> = &'u mut dyn FnMut() -> Uuid;

/// A namespace that was made, and what it was made by.
#[derive(Clone, Debug)]
pub(super) struct Made {
    /// What makes it again: with region and size.
    pub(super) wanted: CreateNamespace,
    /// The namespace.
    pub(super) namespace: Namespace,
    /// The socket of its region.
    pub(super) socket: u16,
}

impl Platform {
    /// A machine fresh from the factory that has these modules and nothing else.
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

    /// Makes the namespace of a wish in the first region that takes it; one as large as possible where most is free.
    /// Regions that a goal is going to change are passed over.
    ///
    /// # Errors
    /// That of the region that came nearest.
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

/// Of two errors the one that says more: how much space there is at most, or that space alone would not help.
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
