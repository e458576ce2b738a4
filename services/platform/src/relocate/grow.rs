//! Growth of a namespace, which keeps its content.

use super::carry::make_home;
use super::error::RelocateError;
use super::evacuate::{PlannedMove, destroy_home, find};
use super::origin::{parameters_of, record_of};
use super::record::{Place, Relocation, Stage, is_settled};
use crate::dax;
use crate::directory::Directory;
use crate::error::PlatformError;
use crate::file::progress::CopyProgress;
use crate::locate::mappers_of;
use crate::namespace::{Namespace, NamespaceError, largest_free, size_rules};
use crate::platform::Platform;
use crate::region::Region;
use std::path::Path;
use uuid::Uuid;

/// Folder of the data of namespaces that grow, in the directory of the machine.
const FOLDER: &str = "growing";

/// The plan of a growth.
#[derive(Clone, Debug)]
pub struct Growth {
    /// The move into a file and back.
    pub step: PlannedMove,
    /// Size in bytes afterwards.
    pub size: u64,
    /// The machine afterwards.
    pub after: Platform,
}

impl Directory {
    /// Plans the growth of a namespace to `size` bytes, rounded up, or to all that is free for it. `uuids` generates
    /// unused UUIDs. One that was destroyed while it grew is named by its UUID, too.
    ///
    /// # Errors
    /// Fails if the namespace does not exist, has no labels, is not smaller, is used as memory or mapped, or if its region
    /// is disabled or has no room.
    pub fn plan_growth(
        &self,
        name: &str,
        size: Option<u64>,
        uuids: &mut dyn FnMut() -> Uuid,
    ) -> Result<Growth, PlatformError> {
        let platform = self.platform();
        let named = platform.namespace(name).ok().and_then(|(_, namespace)| namespace.uuid);
        let is_named = |one: &Relocation| named.map_or(one.device == name, |uuid| uuid == one.uuid);
        let mut growths = platform.state.relocations.iter().filter(|one| one.is_growth());
        let begun = growths.clone().find(|one| one.uuid.to_string() == name || is_named(one));
        if let Some(begun) = begun {
            self.check_size(begun, size)?;
            return grown(platform, begun.clone(), true, uuids);
        }
        if let Some(other) = growths.find(|one| one.device == name && find(platform, one.uuid).is_none()) {
            return Err(RelocateError::OtherGrows { device: name.to_owned(), uuid: other.uuid }.into());
        }
        let (region, namespace) = platform.namespace(name)?;
        if !region.enabled {
            return Err(NamespaceError::RegionDisabled { region: region.number }.into());
        }
        if region.is_cxl() {
            return Err(NamespaceError::OfCxl { region: region.number }.into());
        }
        let device = namespace.device();
        if namespace.uuid.is_some_and(|uuid| !is_settled(&platform.state.relocations, uuid)) {
            return Err(RelocateError::Unfinished { device }.into());
        }
        self.check_unmapped(&region, &namespace)?;
        // Relative to the directory, which may be copied or get another path.
        let file = format!("{}.img", namespace.uuid.unwrap_or_default());
        let place = Place::File(Path::new(FOLDER).join(file));
        let relocation = record_of((&region, &namespace), None, place);
        let mut relocation =
            relocation.ok_or_else(|| RelocateError::Unlabelled { device: device.clone() })?;
        let mut trial = platform.clone();
        dax::release(&mut trial.state, region.number, Some(namespace.number))?;
        destroy_home(&mut trial, &relocation)?;
        let size = match size {
            Some(size) => size_rules(&trial, &region).rounded_up(&parameters_of(&relocation), size)?,
            None => {
                let unit = size_rules(&trial, &region).unit(&parameters_of(&relocation))?;
                largest_free(&trial, &region) / unit * unit
            }
        };
        if size <= namespace.size {
            return Err(RelocateError::NoGrowth { device, size: namespace.size }.into());
        }
        relocation.grow_to = Some(size);
        grown(platform, relocation, false, uuids)
    }

    /// Lets a namespace grow.
    ///
    /// # Errors
    /// Those of [`evacuate`](Directory::evacuate). What was done stays; a new plan has the rest.
    pub fn grow(
        &mut self,
        plan: &Growth,
        uuids: &mut dyn FnMut() -> Uuid,
        progress: &mut CopyProgress<'_>,
    ) -> Result<(), PlatformError> {
        self.begin_move(&plan.step, uuids)?;
        self.finish_moves(&[plan.step.relocation.uuid], uuids, progress, &mut |_, _| {})
    }

    /// Checks that a growth that has begun is to the size that is asked for.
    fn check_size(&self, begun: &Relocation, size: Option<u64>) -> Result<(), PlatformError> {
        let (Some(wanted), Some(to)) = (size, begun.grow_to) else { return Ok(()) };
        let rounded = match find(self.platform(), begun.uuid) {
            Some((region, _)) => {
                size_rules(self.platform(), &region).rounded_up(&parameters_of(begun), wanted)?
            }
            None => wanted,
        };
        if rounded == to {
            return Ok(());
        }
        Err(RelocateError::OtherGrowth { device: begun.device.clone(), size: to }.into())
    }

    /// Checks that no process maps the media of a namespace.
    pub(super) fn check_unmapped(&self, region: &Region, namespace: &Namespace) -> Result<(), RelocateError> {
        for member in region.members() {
            let path = self.root().join("modules").join(format!("{}.media", member.module));
            if let Some(mapper) = mappers_of(&path).into_iter().next() {
                let device = namespace.device();
                return Err(RelocateError::Mapped { device, pid: mapper.pid, program: mapper.program });
            }
        }
        Ok(())
    }
}

/// Carries the growth out on a copy of the machine.
fn grown(
    platform: &Platform,
    relocation: Relocation,
    begun: bool,
    uuids: &mut dyn FnMut() -> Uuid,
) -> Result<Growth, PlatformError> {
    let mut after = platform.clone();
    if relocation.stage == Stage::Away {
        make_home(&mut after, &relocation, None, uuids)?;
    } else if relocation.stage < Stage::Away {
        let (region, _) = platform.namespace(&relocation.device)?;
        destroy_home(&mut after, &relocation)?;
        make_home(&mut after, &relocation, Some(region.number), uuids)?;
    }
    after.state.relocations.retain(|one| one.uuid != relocation.uuid);
    let size = relocation.grow_to.unwrap_or(relocation.size);
    let step = PlannedMove { relocation, parameters: None, target: String::new(), begun };
    Ok(Growth { step, size, after })
}
