//! Regions that namespaces can be made in.

use super::cxl::CxlRegion;
use super::names::Names;
use super::socket_of;
use crate::error::PlatformError;
use crate::goal::PersistentKind;
use crate::namespace::{CreateNamespace, Mode, Room};
use crate::ndctl::{Inventory, NdCapabilities, NdModule, NdNamespace, NdRegion};
use crate::plan::wish::Wish;
use lode_layout::{BttVersion, PageMapRule};

/// What kernels align namespaces to where they align regions, in bytes.
const REGION_ALIGN: u64 = 16 << 20;

/// A region that namespaces can be made in, and what is made in it.
#[derive(Clone, Debug)]
pub(super) struct Site<'i> {
    /// N of regionN.
    pub(super) number: u32,
    /// The socket.
    pub(super) socket: u16,
    /// How many modules it is spread over.
    pub(super) ways: u64,
    /// Bytes.
    pub(super) size: u64,
    /// Bytes that no namespace has.
    pub(super) free: u64,
    /// The largest range that no namespace has, in bytes: it may be larger where free ranges lie apart.
    pub(super) largest: u64,
    /// What the kernel aligns namespaces to, in bytes; none if it does not.
    align: Option<u64>,
    /// Its first physical address, or one that is aligned like it.
    base: u64,
    /// How many namespaces more its labels have room for; none if that is not known.
    slots: Option<u64>,
    capabilities: Option<NdCapabilities>,
    /// The namespaces that stay.
    pub(super) kept: Vec<&'i NdNamespace>,
    names: Names,
    /// The region as it is, if there is one.
    pub(super) found: Option<&'i NdRegion>,
    /// What is done to it first.
    pub(super) change: Change,
    /// What is made, in this order.
    pub(super) made: Vec<Made>,
}

/// What is done to a region before namespaces are made.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// Nothing.
    Nothing,
    /// Its namespaces are unmade.
    Emptied,
    /// Its modules, of these numbers, get labels.
    Labelled(Vec<u32>),
    /// It is made of CXL devices.
    Formed(CxlRegion),
}

/// A namespace that is to be made.
#[derive(Clone, Debug)]
pub(super) struct Made {
    /// When, among all that are made.
    pub(super) turn: usize,
    pub(super) wanted: CreateNamespace,
    /// Y of namespaceX.Y.
    pub(super) number: u32,
    /// Bytes that its user gets.
    pub(super) usable: u64,
}

/// Why no namespaces can be made in a region; none if they can, maybe after what is in it is given up.
pub(super) fn unusable(inventory: &Inventory, region: &NdRegion) -> Option<&'static str> {
    if region.mappings.is_empty() {
        return Some("one namespace, since it has no modules for labels");
    }
    if !region.enabled {
        return Some("disabled");
    }
    if region.read_only {
        return Some("read-only");
    }
    if region.size.is_none() || region.has_labels && region.largest_available.is_none() {
        return Some("of unknown size");
    }
    if region.has_labels {
        return None;
    }
    if modules_of(inventory, region).iter().any(|module| !module.has_label_area) {
        return Some("one namespace, since its modules have no place for labels");
    }
    let shared = |other: &&NdRegion| {
        other.number != region.number
            && other.mappings.iter().any(|one| region.mappings.iter().any(|ours| ours.module == one.module))
    };
    inventory.regions().iter().any(shared).then_some("without labels, and shares modules with another region")
}

fn modules_of<'i>(inventory: &'i Inventory, region: &NdRegion) -> Vec<&'i NdModule> {
    let is_in = |module: &&NdModule| region.mappings.iter().any(|mapping| mapping.module == module.number);
    inventory.modules().into_iter().filter(is_in).collect()
}

impl<'i> Site<'i> {
    /// A region as it is; none if no namespace can be made in it.
    pub(super) fn of(inventory: &'i Inventory, region: &'i NdRegion) -> Option<Site<'i>> {
        if unusable(inventory, region).is_some() {
            return None;
        }
        let slots = modules_of(inventory, region).iter().filter_map(|module| module.free_slots).min();
        Some(Site {
            number: region.number,
            socket: socket_of(inventory, region),
            ways: region.mappings.len() as u64,
            size: region.size?,
            free: region.available.unwrap_or(0),
            largest: region.largest_available.unwrap_or(0),
            align: region.align,
            base: region.base.unwrap_or(0),
            slots,
            capabilities: region.capabilities.clone(),
            kept: region.namespaces.iter().filter(|one| one.span != Some(0)).collect(),
            names: Names::of(region, false),
            found: Some(region),
            change: Change::Nothing,
            made: Vec::new(),
        })
    }

    /// A region that is made of CXL devices, of which nothing is known yet but what it is made of.
    pub(super) fn formed(region: CxlRegion) -> Site<'static> {
        Site {
            number: region.number,
            socket: region.socket,
            ways: region.devices.len() as u64,
            size: region.size,
            free: region.size,
            largest: region.size,
            align: Some(aligned(region.devices.len() as u64)),
            base: 0,
            slots: None,
            capabilities: None,
            kept: Vec::new(),
            names: Names::fresh(),
            found: None,
            change: Change::Formed(region),
            made: Vec::new(),
        }
    }

    /// The region without what is in it now, with what is to be made; none if nothing is in it that could go.
    pub(super) fn emptied(&self, inventory: &Inventory) -> Option<Site<'i>> {
        let region = self.found.filter(|_| matches!(self.change, Change::Nothing))?;
        let (change, names, slots) = if region.has_labels {
            let gone = self.kept.len() as u64;
            (Change::Emptied, Names::of(region, true), self.slots.map(|slots| slots + gone))
        } else {
            let modules = modules_of(inventory, region).iter().map(|module| module.number).collect();
            (Change::Labelled(modules), Names::fresh(), None)
        };
        if self.kept.is_empty() && region.has_labels {
            return None;
        }
        let whole = self.size;
        let mut site = Site {
            free: whole,
            largest: whole,
            slots,
            kept: Vec::new(),
            names,
            change,
            made: Vec::new(),
            ..self.clone()
        };
        for made in &self.made {
            site.make(&made.wanted, made.turn).ok()?;
        }
        Some(site)
    }

    /// What is lost if it is emptied: bytes, and how many namespaces have them.
    pub(super) fn at_stake(&self) -> (u64, usize) {
        (self.kept.iter().filter_map(|one| one.span).sum(), self.kept.len())
    }

    /// Whether it is where and what a wish says.
    pub(super) fn suits(&self, wish: &Wish) -> bool {
        wish.socket.is_none_or(|socket| socket == self.socket)
            && match wish.kind {
                None => true,
                Some(PersistentKind::AppDirect) => self.ways > 1,
                Some(PersistentKind::AppDirectNotInterleaved) => self.ways == 1,
            }
    }

    /// Makes a namespace in it; returns its bytes. Nothing changes if that is impossible.
    ///
    /// # Errors
    /// No space, no room for labels, a size or an alignment that it does not take.
    pub(super) fn make(&mut self, wanted: &CreateNamespace, turn: usize) -> Result<u64, PlatformError> {
        let room = Room { region: self.number, ways: self.ways, align: self.align, largest: self.largest };
        let size = room.size(wanted)?;
        self.check_capabilities(wanted)?;
        if self.slots == Some(0) {
            return Err(PlatformError::NoSlots { region: self.number });
        }
        let usable = self.usable(wanted, size)?;
        self.slots = self.slots.map(|slots| slots - 1);
        self.free -= size;
        self.largest -= size;
        let wanted = CreateNamespace { region: Some(self.number), size: Some(size), ..wanted.clone() };
        self.made.push(Made { turn, wanted, number: self.names.next(), usable });
        Ok(size)
    }

    fn check_capabilities(&self, wanted: &CreateNamespace) -> Result<(), PlatformError> {
        let Some(known) = &self.capabilities else { return Ok(()) };
        let lacks =
            |sizes: &[u64], size: Option<u64>| size.filter(|size| !sizes.is_empty() && !sizes.contains(size));
        let alignments = match wanted.mode {
            Mode::Fsdax => &known.fsdax_alignments,
            Mode::Devdax => &known.devdax_alignments,
            Mode::Sector => {
                let lacking = lacks(&known.sector_sizes, wanted.sector_size);
                return lacking.map_or(Ok(()), |size| Err(PlatformError::SectorSize { size }));
            }
            Mode::Raw => return Ok(()),
        };
        let lacking = lacks(alignments, wanted.align);
        lacking.map_or(Ok(()), |align| Err(PlatformError::Align { align, mode: wanted.mode }))
    }

    /// Bytes that the user of such a namespace gets.
    fn usable(&self, wanted: &CreateNamespace, size: u64) -> Result<u64, PlatformError> {
        wanted.label_sector_size()?;
        match wanted.mode {
            Mode::Raw => Ok(size),
            Mode::Fsdax | Mode::Devdax => {
                // Kernels that align regions count page maps in pages.
                let rule = if self.align.is_some() { PageMapRule::Pages } else { PageMapRule::Sections };
                Ok(wanted.page_map(rule, self.base, size)?.data_len(size))
            }
            Mode::Sector => {
                let arenas = wanted.arenas(BttVersion::V2_0, size)?;
                let sectors = |geometry: &lode_layout::BttGeometry| {
                    u64::from(geometry.external_nlba()) * u64::from(geometry.external_lbasize())
                };
                Ok(arenas.iter().map(|(_, geometry)| sectors(geometry)).sum())
            }
        }
    }
}

/// What the kernel aligns namespaces of a region over so many modules to, in bytes.
fn aligned(ways: u64) -> u64 {
    if REGION_ALIGN.is_multiple_of(ways) { REGION_ALIGN } else { REGION_ALIGN * ways }
}
