//! Destroys, reconfigures, enables and disables namespaces, and enables and disables regions.

use crate::error::PlatformError;
use crate::namespace::{CreateNamespace, MapPlace, Namespace, Personality};
use crate::platform::Platform;
use crate::region::Region;
use crate::state::NamespaceState;
use lode_nvdimm::{LabelFormat, PageMapPlace};
use uuid::Uuid;

impl Platform {
    /// Returns the namespace with the kernel's name, as `namespace0.0`, and its region.
    ///
    /// # Errors
    /// [`UnknownNamespace`](PlatformError::UnknownNamespace).
    pub fn namespace(&self, name: &str) -> Result<(Region, Namespace), PlatformError> {
        for region in self.regions() {
            let found = self.namespaces(&region).into_iter().find(|namespace| namespace.device() == name);
            if let Some(namespace) = found {
                return Ok((region, namespace));
            }
        }
        Err(PlatformError::UnknownNamespace { name: name.to_owned() })
    }

    /// Returns the names of all namespaces with labels, or of those in one region.
    pub fn labelled_namespaces(&self, region: Option<u32>) -> Vec<String> {
        let regions =
            self.regions().into_iter().filter(|one| region.is_none_or(|number| one.number == number));
        let namespaces = regions.flat_map(|region| self.namespaces(&region));
        namespaces.filter(|namespace| namespace.uuid.is_some()).map(|namespace| namespace.device()).collect()
    }

    /// Destroys a namespace. Its data becomes inaccessible.
    ///
    /// # Errors
    /// The namespace does not exist, has no labels, or is active and `force` is not set.
    pub fn destroy_namespace(&mut self, name: &str, force: bool) -> Result<(), PlatformError> {
        let (region, namespace) = self.namespace(name)?;
        let Some(uuid) = namespace.uuid else {
            return Err(PlatformError::NoLabels { region: region.number });
        };
        if namespace.enabled && !force {
            return Err(PlatformError::NamespaceActive { name: name.to_owned() });
        }
        self.keep_numbers(&region);
        self.clear_info(&region, namespace.offset);
        self.remove_labels(&region, uuid)?;
        self.state.namespaces.retain(|known| known.uuid != uuid);
        Ok(())
    }

    /// Removes the labels of a namespace from all modules of its region.
    ///
    /// # Errors
    /// A module has no label of the namespace.
    pub(crate) fn remove_labels(&mut self, region: &Region, uuid: Uuid) -> Result<(), PlatformError> {
        for member in region.members() {
            let module = member.module;
            let update = self.contents.area(module).and_then(|area| area.remove(uuid));
            self.contents.update(module, update.map_err(|error| PlatformError::Labels { module, error })?);
        }
        Ok(())
    }

    /// Records the numbers of a region's namespaces. Until the next reboot they stay, even if other namespaces change.
    fn keep_numbers(&mut self, region: &Region) {
        for namespace in self.namespaces(region) {
            let Some(uuid) = namespace.uuid else { continue };
            if !self.state.namespaces.iter().any(|known| known.uuid == uuid) {
                self.state.namespaces.push(NamespaceState {
                    uuid,
                    number: namespace.number,
                    disabled: false,
                });
            }
        }
    }

    /// Reconfigures a namespace. Parameters that `wanted` does not set stay. The data is lost.
    ///
    /// # Errors
    /// Those of [`destroy_namespace`](Platform::destroy_namespace) and
    /// [`create_namespace`](Platform::create_namespace).
    pub fn reconfigure_namespace(
        &mut self,
        name: &str,
        wanted: &CreateNamespace,
        force: bool,
        uuids: &mut dyn FnMut() -> Uuid,
    ) -> Result<Namespace, PlatformError> {
        let (region, namespace) = self.namespace(name)?;
        self.destroy_namespace(name, force)?;
        let mut wanted = wanted.clone();
        wanted.region = Some(region.number);
        wanted.size = wanted.size.or(Some(namespace.size));
        if wanted.name.is_empty() {
            wanted.name = namespace.name;
        }
        if let Personality::PageMap(info) = namespace.personality
            && info.place == PageMapPlace::Dram
        {
            wanted.map = MapPlace::Mem;
        }
        self.create_namespace(&wanted, uuids)
    }

    /// Enables or disables a namespace until the next reboot. Returns true if this changed its state.
    ///
    /// # Errors
    /// The namespace does not exist or has no labels. It can't be enabled while its region is disabled.
    pub fn enable_namespace(&mut self, name: &str, enable: bool) -> Result<bool, PlatformError> {
        let (region, namespace) = self.namespace(name)?;
        let Some(uuid) = namespace.uuid else {
            return Err(PlatformError::NoLabels { region: region.number });
        };
        if enable && !region.enabled {
            return Err(PlatformError::RegionDisabled { region: region.number });
        }
        self.state.namespaces.retain(|known| known.uuid != uuid);
        self.state.namespaces.push(NamespaceState { uuid, number: namespace.number, disabled: !enable });
        Ok(namespace.enabled != enable)
    }

    /// Enables or disables a region until the next reboot. Returns true if this changed its state.
    ///
    /// # Errors
    /// The region does not exist, or can't be enabled because one of its modules is dead or locked.
    pub fn enable_region(&mut self, number: u32, enable: bool) -> Result<bool, PlatformError> {
        let find =
            |platform: &Platform| platform.regions().into_iter().find(|region| region.number == number);
        let before = find(self).ok_or(PlatformError::UnknownRegion { region: number })?;
        self.state.disabled_regions.retain(|disabled| *disabled != number);
        if !enable {
            self.state.disabled_regions.push(number);
        }
        match find(self) {
            Some(after) if enable && !after.enabled => Err(PlatformError::RegionDisabled { region: number }),
            _ => Ok(before.enabled != enable),
        }
    }

    /// Formats the label area of a module, or makes it blank without a version. Its namespaces are lost.
    ///
    /// # Errors
    /// The module does not exist, one of its regions is active, or the area holds labels and `force` is not set.
    pub fn init_labels(
        &mut self,
        index: usize,
        version: Option<crate::LabelVersion>,
        force: bool,
    ) -> Result<(), PlatformError> {
        let module = self.module_for_labels(index)?;
        let labels = |error| PlatformError::Labels { module, error };
        let (handle, size) = (module, self.machine.modules[index].label_area);
        match version {
            Some(_) if self.contents.area(handle).is_ok() && !force => {
                return Err(PlatformError::LabelsThere { module });
            }
            Some(version) => self.format_labels(handle, version).map_err(labels)?,
            None => self.contents.erase(handle, size),
        }
        if let Some(version) = version {
            let sets = &mut self.state.sets;
            let has =
                |set: &&mut crate::InterleaveSet| set.members.iter().any(|member| member.module == handle);
            sets.iter_mut().filter(has).for_each(|set| set.labels = version);
        }
        Ok(())
    }

    /// Replaces a module's whole label area.
    ///
    /// # Errors
    /// The module does not exist, one of its regions is active, or the length is not that of the area.
    pub fn write_labels_of(&mut self, index: usize, bytes: Vec<u8>) -> Result<(), PlatformError> {
        let module = self.module_for_labels(index)?;
        let size = self.machine.modules[index].label_area;
        if bytes.len() as u64 != size {
            return Err(PlatformError::LabelAreaSize { module, size, found: bytes.len() as u64 });
        }
        self.replace_labels(module, bytes);
        Ok(())
    }

    /// Replaces a module's whole label area by `bytes`, which have its length.
    pub(crate) fn replace_labels(&mut self, module: crate::Handle, bytes: Vec<u8>) {
        self.contents.replace(module, bytes);
        if let Ok(area) = self.contents.area(module) {
            let version = match area.index().format() {
                LabelFormat::V1_1 => crate::LabelVersion::V1_1,
                _ => crate::LabelVersion::V1_2,
            };
            let has =
                |set: &&mut crate::InterleaveSet| set.members.iter().any(|member| member.module == module);
            self.state.sets.iter_mut().filter(has).for_each(|set| set.labels = version);
        }
    }

    /// Returns the module nmemN if its labels may be changed: no region with it is active.
    fn module_for_labels(&self, index: usize) -> Result<crate::Handle, PlatformError> {
        let found = self.machine.modules.get(index).ok_or(PlatformError::UnknownDevice { index })?;
        found.check_usable()?;
        match self.regions().iter().find(|region| region.enabled && region.has(found.handle)) {
            Some(region) => Err(PlatformError::RegionActive { region: region.number, module: found.handle }),
            None => Ok(found.handle),
        }
    }
}
