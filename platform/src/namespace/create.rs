//! Creation of namespaces, with the rules and defaults of ndctl and the kernel.

use crate::contents::INFO_BLOCK;
use crate::error::PlatformError;
use crate::namespace::room::SIZE_MIN;
use crate::namespace::{CreateNamespace, Mode, Namespace, Personality};
use crate::platform::Platform;
use crate::region::{Origin, Region};
use crate::state::{LabelVersion, NamespaceState};
use lode_nvdimm::{
    Abstraction, BttFlog, BttGeometry, BttInfo, BttVersion, Label, LabelFlags, LabelName, NamespaceLabel,
    PAGE_MAP_OFF, PERSISTENT_MEMORY, PageMapInfo, PageMapRule, PageMapUser,
};
use uuid::Uuid;

impl Platform {
    /// Creates a namespace. `uuids` generates unused UUIDs.
    ///
    /// # Errors
    /// No region has the space, the size is not aligned, the label areas are full or blank, or the region is disabled.
    pub fn create_namespace(
        &mut self,
        wanted: &CreateNamespace,
        uuids: &mut dyn FnMut() -> Uuid,
    ) -> Result<Namespace, PlatformError> {
        let regions = self.regions();
        let region = match wanted.region {
            Some(number) => {
                let found = regions.into_iter().find(|region| region.number == number);
                found.ok_or(PlatformError::UnknownRegion { region: number })?
            }
            None => self.region_with_space(wanted, regions)?,
        };
        self.check_region(&region)?;
        let size = self.room(&region).size(wanted)?;
        let free = self.free_ranges(&region).into_iter().find(|range| range.end - range.start >= size);
        let offset = free.expect("the largest free range has the room").start;
        let uuid = wanted.uuid.unwrap_or_else(&mut *uuids);
        if self
            .regions()
            .iter()
            .any(|region| self.namespaces(region).iter().any(|one| one.uuid == Some(uuid)))
        {
            return Err(PlatformError::UuidTaken { uuid });
        }
        let number = self.free_number(&region);
        self.write_labels(&region, wanted, uuid, offset, size)?;
        self.write_info(&region, wanted, uuid, uuids(), offset..offset + size)?;
        self.state.namespaces.push(NamespaceState { uuid, number, disabled: false });
        let made = self.namespaces(&region).into_iter().find(|namespace| namespace.uuid == Some(uuid));
        Ok(made.expect("a namespace whose labels were written is found"))
    }

    /// Returns the first usable region with the space, in ndctl's order.
    fn region_with_space(
        &self,
        wanted: &CreateNamespace,
        mut regions: Vec<Region>,
    ) -> Result<Region, PlatformError> {
        crate::ndctl::sort_as_listed(&mut regions, Region::name);
        let checked: Vec<_> = regions.iter().map(|region| self.check_region(region)).collect();
        if checked.iter().all(Result::is_err)
            && let Some(Err(error)) = checked.into_iter().next()
        {
            return Err(error);
        }
        regions.retain(|region| self.check_region(region).is_ok());
        let largest = regions.iter().map(|region| self.largest_free(region)).max().unwrap_or(0);
        let want = wanted.size.unwrap_or(SIZE_MIN);
        let fits = |region: &Region| self.largest_free(region) >= want;
        regions.into_iter().find(fits).ok_or(PlatformError::NoSpace { region: None, want, largest })
    }

    fn check_region(&self, region: &Region) -> Result<(), PlatformError> {
        if !region.enabled {
            return Err(PlatformError::RegionDisabled { region: region.number });
        }
        for member in region.members() {
            let module = member.module;
            self.contents.area(module).map_err(|error| PlatformError::Labels { module, error })?;
        }
        match region.origin {
            Origin::Set { .. } => Ok(()),
            Origin::Memmap => Err(PlatformError::NoLabels { region: region.number }),
        }
    }

    /// Returns the lowest number that no namespace of the region has.
    pub(crate) fn free_number(&self, region: &Region) -> u32 {
        let taken: Vec<u32> = self.namespaces(region).iter().map(|namespace| namespace.number).collect();
        (0..).find(|number| !taken.contains(number)).unwrap_or(u32::MAX)
    }

    /// Writes the labels of a new namespace.
    fn write_labels(
        &mut self,
        region: &Region,
        wanted: &CreateNamespace,
        uuid: Uuid,
        offset: u64,
        size: u64,
    ) -> Result<(), PlatformError> {
        let ways = region.members().len() as u64;
        let Some(first) = region.members().first() else { return Ok(()) };
        let name = LabelName::new(&wanted.name);
        let name = name.map_err(|error| PlatformError::Labels { module: first.module, error })?;
        let is_new = self.labels_of(region) == LabelVersion::V1_2;
        let label = NamespaceLabel {
            uuid,
            name,
            flags: LabelFlags::default(),
            label_count: 0,
            position: 0,
            set_cookie: 0,
            lba_size: if is_new { wanted.label_sector_size()? } else { 0 },
            dpa: offset / ways,
            raw_size: size / ways,
            alignment: 0,
            type_guid: if is_new { PERSISTENT_MEMORY } else { Uuid::nil() },
            abstraction: if is_new { abstraction(wanted.mode) } else { Abstraction::None },
        };
        self.put_labels(region, &label)
    }

    /// Writes the labels of a namespace, one on each module of its region. All of them are first written with the flag
    /// UPDATING, then without it. The range in `label` is relative to the region's share of each module. The function
    /// sets cookie, count and position.
    ///
    /// # Errors
    /// An area has no free slot, or another namespace overlaps the range.
    pub(crate) fn put_labels(
        &mut self,
        region: &Region,
        label: &NamespaceLabel,
    ) -> Result<(), PlatformError> {
        let Origin::Set { id, members, .. } = &region.origin else { return Ok(()) };
        for flags in [LabelFlags(label.flags.0 | LabelFlags::UPDATING.0), label.flags] {
            for (position, member) in members.iter().enumerate() {
                let label = Label::Namespace(NamespaceLabel {
                    flags,
                    label_count: members.len() as u16,
                    position: position as u16,
                    set_cookie: *id,
                    dpa: member.offset + label.dpa,
                    ..*label
                });
                let module = member.module;
                let labels = |error| PlatformError::Labels { module, error };
                let update = self.contents.area(module).and_then(|area| area.put(&label)).map_err(labels)?;
                self.contents.update(module, update);
            }
        }
        Ok(())
    }

    /// Returns the version of the labels on a region's modules.
    pub(crate) fn labels_of(&self, region: &Region) -> LabelVersion {
        let module = region.members().first().map(|member| member.module);
        let set = module.and_then(|module| self.state.sets_of(module).next());
        set.map_or(LabelVersion::V1_2, |(set, _)| set.labels)
    }

    /// Writes the info blocks of a namespace. Info blocks of earlier namespaces have other parent UUIDs, so they are
    /// ignored.
    fn write_info(
        &mut self,
        region: &Region,
        wanted: &CreateNamespace,
        parent_uuid: Uuid,
        uuid: Uuid,
        range: std::ops::Range<u64>,
    ) -> Result<(), PlatformError> {
        let size = range.end - range.start;
        match wanted.mode {
            Mode::Raw => {}
            Mode::Fsdax | Mode::Devdax => {
                let by_sections = self.machine.profile.kernel.rounds_to_sections();
                let rule = if by_sections { PageMapRule::Sections } else { PageMapRule::Pages };
                let planned = wanted.page_map(rule, region.base + range.start, size)?;
                let info = PageMapInfo { uuid, parent_uuid, ..planned };
                self.write_at(region, range.start + PAGE_MAP_OFF, &info.encode());
            }
            Mode::Sector => {
                let version = match self.labels_of(region) {
                    LabelVersion::V1_1 => BttVersion::V1_1,
                    LabelVersion::V1_2 => BttVersion::V2_0,
                };
                for (at, geometry) in wanted.arenas(version, size)? {
                    let info = BttInfo { uuid, parent_uuid, is_read_only: false, version, geometry }.encode();
                    self.write_at(region, range.start + at, &info);
                    self.write_arena(region, range.start + at, &geometry);
                    self.write_at(region, range.start + at + geometry.infooff(), &info);
                }
            }
        }
        Ok(())
    }

    /// Writes map and flog of a new arena at `offset`, in their initial state.
    fn write_arena(&mut self, region: &Region, offset: u64, geometry: &BttGeometry) {
        let map_len = geometry.flogoff() - geometry.mapoff();
        for (module, off, len) in region.ranges(offset + geometry.mapoff(), map_len) {
            self.contents.write_zeros(module, off, len);
        }
        let mut flog = BttFlog::new(geometry).encode();
        flog.resize((geometry.infooff() - geometry.flogoff()) as usize, 0);
        for (block, at) in flog.chunks(INFO_BLOCK as usize).zip((0..).step_by(INFO_BLOCK as usize)) {
            self.write_at(region, offset + geometry.flogoff() + at, block);
        }
    }

    /// Clears the info blocks of a former namespace at this offset.
    pub(crate) fn clear_info(&mut self, region: &Region, offset: u64) {
        for at in [0, INFO_BLOCK] {
            let place = region.place(offset + at);
            let there = place.and_then(|(module, off)| self.contents.block(module, off));
            if there.is_some_and(|bytes| bytes.iter().any(|byte| *byte != 0)) {
                self.write_at(region, offset + at, &[0; INFO_BLOCK as usize]);
            }
        }
    }

    /// Writes an info block. It is on one module, since it is one line of the interleave set.
    fn write_at(&mut self, region: &Region, offset: u64, block: &[u8]) {
        if let Some((module, off)) = region.place(offset) {
            self.contents.write_block(module, off, block);
        }
    }
}

fn abstraction(mode: Mode) -> Abstraction {
    match mode {
        Mode::Fsdax => Abstraction::PageMap,
        Mode::Devdax => Abstraction::DeviceDax,
        Mode::Sector => Abstraction::Btt2,
        Mode::Raw => Abstraction::None,
    }
}

impl Namespace {
    /// Returns the mode of the namespace.
    pub fn mode(&self) -> Mode {
        match &self.personality {
            Personality::Raw => Mode::Raw,
            Personality::Legacy => Mode::Fsdax,
            Personality::PageMap(info) if info.user == PageMapUser::Device => Mode::Devdax,
            Personality::PageMap(_) => Mode::Fsdax,
            Personality::Sectors { .. } => Mode::Sector,
        }
    }
}
