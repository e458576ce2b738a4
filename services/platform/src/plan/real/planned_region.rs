//! Regions that can hold new namespaces.

use super::cxl::CxlRegion;
use super::namespace_numbers::NamespaceNumbers;
use super::socket::socket_of;
use crate::goal::PersistentKind;
use crate::namespace::{CreateNamespace, Mode, NamespaceError, SizeRules, align_over};
use crate::ndctl::{Inventory, NdCapabilities, NdModule, NdNamespace, NdRegion};
use crate::plan::fit::{Extent, fitted};
use crate::plan::request::NamespaceRequest;
use lode_nvdimm::{BttVersion, PageMapRule};

/// A region that can hold new namespaces, with its planned ones.
#[derive(Clone, Debug)]
pub(super) struct PlannedRegion<'i> {
    /// N of regionN.
    pub(super) number: u32,
    /// The socket.
    pub(super) socket: u16,
    /// Number of modules over which it is interleaved.
    pub(super) ways: u64,
    /// Size in bytes.
    pub(super) size: u64,
    /// Bytes without a namespace.
    pub(super) free: u64,
    /// The largest free range in bytes. A lower bound when the free ranges are not adjacent.
    pub(super) largest: u64,
    /// The kernel's alignment of namespaces in bytes; `None` if it has none.
    align: Option<u64>,
    /// First physical address, or one with the same alignment.
    base: u64,
    /// Number of further namespaces that the labels have room for; `None` if unknown.
    slots: Option<u64>,
    capabilities: Option<NdCapabilities>,
    /// The namespaces that stay.
    pub(super) kept: Vec<&'i NdNamespace>,
    numbers: NamespaceNumbers,
    /// The region as the kernel shows it; `None` for a new one.
    pub(super) found: Option<&'i NdRegion>,
    /// First action on the region.
    pub(super) change: Change,
    /// The planned namespaces, in this order.
    pub(super) made: Vec<PlannedNamespace>,
}

/// Action on a region before namespaces are made in it.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// No action.
    Nothing,
    /// Destroys its namespaces.
    Emptied,
    /// Writes labels to its modules, which have these numbers.
    Labelled(Vec<u32>),
    /// Makes the region of CXL devices.
    Formed(CxlRegion),
}

/// A planned namespace.
#[derive(Clone, Debug)]
pub(super) struct PlannedNamespace {
    /// Position in the order of all planned namespaces.
    pub(super) position: usize,
    pub(super) parameters: CreateNamespace,
    /// Y of namespaceX.Y.
    pub(super) number: u32,
    /// Bytes that are available to its user.
    pub(super) usable: u64,
}

/// Returns the reason that a region can't hold new namespaces; `None` if it can, perhaps after it is emptied.
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

impl<'i> PlannedRegion<'i> {
    /// Makes the plan of an existing region; `None` if the region can't hold new namespaces.
    pub(super) fn of(inventory: &'i Inventory, region: &'i NdRegion) -> Option<PlannedRegion<'i>> {
        if unusable(inventory, region).is_some() {
            return None;
        }
        let slots = modules_of(inventory, region).iter().filter_map(|module| module.free_slots).min();
        Some(PlannedRegion {
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
            numbers: NamespaceNumbers::of(region, false),
            found: Some(region),
            change: Change::Nothing,
            made: Vec::new(),
        })
    }

    /// Makes the plan of a new region of CXL devices.
    pub(super) fn formed(region: CxlRegion) -> PlannedRegion<'static> {
        PlannedRegion {
            number: region.number,
            socket: region.socket,
            ways: region.devices.len() as u64,
            size: region.size,
            free: region.size,
            largest: region.size,
            align: Some(align_over(region.devices.len() as u64)),
            base: 0,
            slots: None,
            capabilities: None,
            kept: Vec::new(),
            numbers: NamespaceNumbers::new(),
            found: None,
            change: Change::Formed(region),
            made: Vec::new(),
        }
    }

    /// Returns the region without its present contents, with the planned namespaces; `None` if it has no contents.
    pub(super) fn emptied(&self, inventory: &Inventory) -> Option<PlannedRegion<'i>> {
        let region = self.found.filter(|_| matches!(self.change, Change::Nothing))?;
        let (change, numbers, slots) = if region.has_labels {
            let gone = self.kept.len() as u64;
            (Change::Emptied, NamespaceNumbers::of(region, true), self.slots.map(|slots| slots + gone))
        } else {
            let modules = modules_of(inventory, region).iter().map(|module| module.number).collect();
            (Change::Labelled(modules), NamespaceNumbers::new(), None)
        };
        if self.kept.is_empty() && region.has_labels {
            return None;
        }
        let whole = self.size;
        let mut planned = PlannedRegion {
            free: whole,
            largest: whole,
            slots,
            kept: Vec::new(),
            numbers,
            change,
            made: Vec::new(),
            ..self.clone()
        };
        for made in &self.made {
            planned.make(&made.parameters, made.position).ok()?;
        }
        Some(planned)
    }

    /// Returns the bytes and the number of namespaces that are lost if the region is emptied.
    pub(super) fn bytes_lost(&self) -> (u64, usize) {
        (self.kept.iter().filter_map(|one| one.span).sum(), self.kept.len())
    }

    /// Returns true if the region has the socket and kind of a request.
    pub(super) fn matches_request(&self, request: &NamespaceRequest) -> bool {
        request.socket.is_none_or(|socket| socket == self.socket)
            && match request.kind {
                None => true,
                Some(PersistentKind::AppDirect) => self.ways > 1,
                Some(PersistentKind::AppDirectNotInterleaved) => self.ways == 1,
            }
    }

    /// Returns the constraints on new namespaces.
    fn rules(&self) -> SizeRules {
        SizeRules { region: self.number, ways: self.ways, align: self.align, largest: self.largest }
    }

    /// Plans the namespace of a request in the region and returns its bytes. Changes nothing on an error.
    ///
    /// # Errors
    /// Fails if there is no space or no free label slot, or if the region does not support the parameters.
    pub(super) fn make_for(
        &mut self,
        request: &NamespaceRequest,
        position: usize,
    ) -> Result<Extent, NamespaceError> {
        self.check_capabilities(&request.namespace)?;
        let parameters = fitted(&self.rules(), request, |parameters, size| self.usable(parameters, size))?;
        self.make(&parameters, position)
    }

    /// Plans a namespace in the region and returns its bytes. Changes nothing on an error.
    ///
    /// # Errors
    /// Fails if there is no space or no free label slot, or if the size or alignment is invalid.
    fn make(&mut self, parameters: &CreateNamespace, position: usize) -> Result<Extent, NamespaceError> {
        let size = self.rules().size(parameters)?;
        if self.slots == Some(0) {
            return Err(NamespaceError::NoSlots { region: self.number });
        }
        let usable = self.usable(parameters, size)?;
        self.slots = self.slots.map(|slots| slots - 1);
        self.free -= size;
        self.largest -= size;
        let parameters =
            CreateNamespace { region: Some(self.number), size: Some(size), ..parameters.clone() };
        self.made.push(PlannedNamespace { position, parameters, number: self.numbers.next(), usable });
        Ok(Extent { size, usable })
    }

    fn check_capabilities(&self, parameters: &CreateNamespace) -> Result<(), NamespaceError> {
        let Some(known) = &self.capabilities else { return Ok(()) };
        let lacks =
            |sizes: &[u64], size: Option<u64>| size.filter(|size| !sizes.is_empty() && !sizes.contains(size));
        let alignments = match parameters.mode {
            Mode::Fsdax => &known.fsdax_alignments,
            Mode::Devdax => &known.devdax_alignments,
            Mode::Sector => {
                let lacking = lacks(&known.sector_sizes, parameters.sector_size);
                return lacking.map_or(Ok(()), |size| Err(NamespaceError::SectorSize { size }));
            }
            Mode::Raw => return Ok(()),
        };
        let lacking = lacks(alignments, parameters.align);
        lacking.map_or(Ok(()), |align| Err(NamespaceError::Align { align, mode: parameters.mode }))
    }

    /// Returns the bytes that are available to the user of such a namespace.
    fn usable(&self, parameters: &CreateNamespace, size: u64) -> Result<u64, NamespaceError> {
        // Kernels that align regions count page maps in pages.
        let rule = if self.align.is_some() { PageMapRule::Pages } else { PageMapRule::Sections };
        parameters.usable(rule, BttVersion::V2_0, self.base, size)
    }
}
