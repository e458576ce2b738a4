//! An image file and its contents, as seen by a kernel that boots with it.

use super::error::ImageError;
use super::error_kind::ImageErrorKind;
use super::file_system::FileSystem;
use super::layout::ImageLayout;
use super::qemu_slot::QemuSlot;
use crate::contents::Contents;
use crate::directory::Media;
use crate::error::PlatformError;
use crate::file::error::FileError;
use crate::machine::{
    CxlHardware, FirmwareActivation, Handle, Health, IpmctlGeneration, KernelVersion, Machine, Module,
    PersistenceDomain, Profile, Security, Sensors,
};
use crate::namespace::{Namespace, info_block_locations};
use crate::ndctl::{self, Included, ListRequest};
use crate::platform::Platform;
use crate::state::{InterleaveSet, LabelVersion, Member, State};
use lode_nvdimm::{Label, LabelArea, LabelError, LabelFlags, LabelFormat, NamespaceLabel};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// Image of a module, or of a namespace's data.
#[derive(Debug)]
pub struct Image {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) layout: ImageLayout,
    /// The label area; `None` if there is none, or it is blank.
    pub(super) area: Option<LabelArea>,
}

/// A namespace in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageNamespace {
    /// The namespace, as found by a kernel that boots with the image alone.
    pub namespace: Namespace,
    /// The file system on it; `None` if the type is unknown.
    pub file_system: Option<FileSystem>,
}

/// Contents of an image, as found by a kernel that boots with it alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageContents {
    /// The slot that its labels are for; `None` without labels.
    pub slot: Option<QemuSlot>,
    /// Version of its labels.
    pub version: Option<LabelVersion>,
    /// The namespace labels, each with its slot of the label area.
    pub labels: Vec<(u32, NamespaceLabel)>,
    /// Faults of the labels. A kernel does not use such a label. If labels have the same UUID, are of 0 bytes or of a set with other
    /// modules, it has no region. If labels overlap, it disables the module, and takes the region for one without labels.
    pub faults: Vec<ImageErrorKind>,
    /// The namespaces that a kernel finds, in their order; none if the labels are not of QEMU's modules.
    pub namespaces: Vec<ImageNamespace>,
    /// Output of `ndctl list -RNDBu` in the virtual machine.
    pub listing: String,
}

impl Image {
    /// Opens an image. `None` for `label_len` derives the size of the label area from the length of the file.
    ///
    /// # Errors
    /// Fails if the file does not exist or does not have the length of an image, if the label area can't be read, or if
    /// a system call fails.
    pub fn open(path: &Path, label_len: Option<u64>) -> Result<Image, PlatformError> {
        let reading = |error| FileError { what: "reading", path: path.to_owned(), error };
        let fault = |fault| ImageError::of(path, fault);
        // Opening a pipe would wait for a writer.
        if !path.metadata().map_err(reading)?.is_file() {
            return Err(fault(ImageErrorKind::NoFile).into());
        }
        let file = File::open(path).map_err(reading)?;
        let len = file.metadata().map_err(reading)?.len();
        let layout =
            ImageLayout::of_file(len, label_len).ok_or_else(|| fault(ImageErrorKind::Length { len }))?;
        if layout.label_len == 0 {
            return Ok(Image { path: path.to_owned(), file, layout, area: None });
        }
        let mut bytes = vec![0; layout.label_len as usize];
        file.read_exact_at(&mut bytes, layout.data_len).map_err(reading)?;
        let unlabelled = ImageLayout { data_len: len, label_len: 0 };
        let (layout, area) = match LabelArea::read(&bytes) {
            Ok(area) => (layout, Some(area)),
            Err(LabelError::Blank)
                if label_len.is_some() || !len.is_multiple_of(ImageLayout::UNLABELLED_UNIT) =>
            {
                (layout, None)
            }
            // The length is also valid for an image without labels.
            Err(LabelError::Blank | LabelError::AreaTooSmall { .. }) => (unlabelled, None),
            Err(error) => return Err(fault(ImageErrorKind::Labels { off: layout.data_len, error }).into()),
        };
        Ok(Image { path: path.to_owned(), file, layout, area })
    }

    /// Returns the layout of its file.
    pub fn layout(&self) -> ImageLayout {
        self.layout
    }

    /// Returns the version of its labels.
    pub(super) fn version(&self) -> Option<LabelVersion> {
        self.area.as_ref().map(|area| match area.index().format() {
            LabelFormat::V1_1 => LabelVersion::V1_1,
            _ => LabelVersion::V1_2,
        })
    }

    /// Returns the namespace labels and their slot; `None` for the slot if the area has no labels. Checks that the
    /// labels are complete, inside of the data, and do not overlap.
    pub(super) fn labels(&self) -> Result<(Option<QemuSlot>, Vec<NamespaceLabel>), ImageErrorKind> {
        let (Some(area), Some(version)) = (&self.area, self.version()) else { return Ok((None, Vec::new())) };
        check_whole(area)?;
        let (mut slot_of_all, mut labels) = (None, Vec::new());
        for (slot, label) in area.labels() {
            let Label::Namespace(label) = label else {
                return Err(ImageErrorKind::ForeignLabel { slot, cookie: 0 });
            };
            let foreign = ImageErrorKind::ForeignLabel { slot, cookie: label.set_cookie };
            let qemu = QemuSlot::of_cookie(label.set_cookie, version).ok_or(foreign.clone())?;
            if *slot_of_all.get_or_insert(qemu) != qemu {
                return Err(foreign);
            }
            if (label.label_count, label.position) != (1, 0) {
                let (position, count) = (label.position, label.label_count);
                return Err(ImageErrorKind::OtherMembers { slot, position, count });
            }
            let end = label.dpa.saturating_add(label.raw_size);
            if end > self.layout.data_len {
                return Err(ImageErrorKind::BeyondEnd { uuid: label.uuid, end, len: self.layout.data_len });
            }
            labels.push(*label);
        }
        Ok((slot_of_all, labels))
    }

    /// Returns the contents: the namespaces that a kernel finds, and what is wrong with the other labels.
    ///
    /// # Errors
    /// Fails if a system call fails.
    pub fn contents(&self) -> Result<ImageContents, PlatformError> {
        let version = self.version().unwrap_or_default();
        let mut cookies = self.area.iter().flat_map(LabelArea::labels).filter_map(|(_, label)| match label {
            Label::Namespace(label) => QemuSlot::of_cookie(label.set_cookie, version),
            _ => None,
        });
        // Labels of a real module or of another machine have no slot. They are still listed.
        let slot = cookies.next();
        let faults = self.area.as_ref().map_or_else(Vec::new, |area| self.faults(area, slot));
        let namespace = |(slot, label): (u32, &Label)| match label {
            Label::Namespace(label) => Some((slot, *label)),
            _ => None,
        };
        let labels = self.area.iter().flat_map(LabelArea::labels).filter_map(namespace).collect();
        use ImageErrorKind::{DuplicateLabels, EmptyLabel, OtherMembers, OverlappingLabels};
        let is_unlabelled = faults.iter().any(|fault| matches!(fault, OverlappingLabels { .. }));
        let (mut platform, module) = self.platform(slot.unwrap_or_default(), !is_unlabelled)?;
        let is_refused = |fault: &ImageErrorKind| {
            matches!(fault, DuplicateLabels { .. } | EmptyLabel { .. } | OtherMembers { .. })
        };
        if !is_unlabelled && faults.iter().any(is_refused) {
            platform.state.disabled_regions.push(0);
        }
        let file = self.file.try_clone().map_err(|error| self.failed(error))?;
        let mut media = Media::of_file(&self.path, module, file);
        let mut namespaces = Vec::new();
        for region in platform.regions().into_iter().filter(|region| region.enabled) {
            for namespace in platform.namespaces(&region) {
                let file_system = FileSystem::find(&mut media, &region, &namespace)?;
                namespaces.push(ImageNamespace { namespace, file_system });
            }
        }
        let included =
            Included { buses: true, modules: true, regions: true, namespaces: true, ..Included::default() };
        let listing = ndctl::inventory(&platform).list(&ListRequest {
            included,
            human: true,
            ..ListRequest::default()
        });
        Ok(ImageContents { slot, version: self.version(), labels, faults, namespaces, listing })
    }

    /// Returns what is wrong with the labels of a slot, or of a module that is not QEMU's.
    fn faults(&self, area: &LabelArea, of: Option<QemuSlot>) -> Vec<ImageErrorKind> {
        let mut faults = label_faults(area);
        for (slot, label) in area.labels() {
            let Label::Namespace(label) = label else {
                faults.push(ImageErrorKind::ForeignLabel { slot, cookie: 0 });
                continue;
            };
            let end = label.dpa.saturating_add(label.raw_size);
            let is_own =
                of.is_none_or(|of| of.cookie(self.version().unwrap_or_default()) == label.set_cookie);
            if !is_own {
                faults.push(ImageErrorKind::ForeignLabel { slot, cookie: label.set_cookie });
            } else if of.is_some() && (label.label_count, label.position) != (1, 0) {
                let (position, count) = (label.position, label.label_count);
                faults.push(ImageErrorKind::OtherMembers { slot, position, count });
            } else if of.is_some() && end > self.layout.data_len {
                faults.push(ImageErrorKind::BeyondEnd { uuid: label.uuid, end, len: self.layout.data_len });
            }
        }
        faults
    }

    /// Returns the machine that a kernel sees which boots with the image alone, and which uses the labels if `has_labels`.
    fn platform(&self, slot: QemuSlot, has_labels: bool) -> Result<(Platform, Handle), PlatformError> {
        let handle = Handle(u32::from(slot.0) + 1);
        let mut platform = Platform {
            machine: machine(slot, handle, self.layout),
            state: State::new(),
            contents: Contents::default(),
        };
        let labels = self.version().unwrap_or_default();
        let members = vec![Member { module: handle, offset: 0 }];
        platform.state.sets.push(InterleaveSet { share: self.layout.data_len, labels, members });
        if self.area.is_some() && has_labels {
            let mut bytes = vec![0; self.layout.label_len as usize];
            let read = self.file.read_exact_at(&mut bytes, self.layout.data_len);
            read.map_err(|error| self.failed(error))?;
            platform.contents.load_area(handle, &bytes);
        }
        for (module, off, len) in info_block_locations(&platform) {
            let mut bytes = vec![0; len as usize];
            self.file.read_exact_at(&mut bytes, off).map_err(|error| self.failed(error))?;
            platform.contents.load_block(module, off, bytes);
        }
        Ok((platform, handle))
    }

    pub(super) fn failed(&self, error: std::io::Error) -> FileError {
        FileError { what: "reading", path: self.path.clone(), error }
    }
}

/// Checks that each used slot holds an intact and complete label with a size, and that no two labels overlap or have
/// the same UUID.
pub(super) fn check_whole(area: &LabelArea) -> Result<(), ImageErrorKind> {
    label_faults(area).into_iter().next().map_or(Ok(()), Err)
}

/// Returns the slots without an intact and complete label with a size, and the labels that overlap or have the UUID of
/// another one.
fn label_faults(area: &LabelArea) -> Vec<ImageErrorKind> {
    let torn = area.damaged().map(|(slot, damage)| ImageErrorKind::TornLabel { slot, damage: *damage });
    let overlapping = area.overlap().map(|slots| ImageErrorKind::OverlappingLabels { slots });
    let mut faults: Vec<ImageErrorKind> = torn.chain(overlapping).collect();
    let mut slots: BTreeMap<Uuid, u32> = BTreeMap::new();
    for (slot, label) in area.labels() {
        let Label::Namespace(label) = label else { continue };
        let uuid = label.uuid;
        if label.flags.has(LabelFlags::UPDATING) {
            faults.push(ImageErrorKind::HalfWritten { uuid });
        }
        if label.raw_size == 0 {
            faults.push(ImageErrorKind::EmptyLabel { slot });
        }
        if let Some(first) = slots.insert(uuid, slot) {
            faults.push(ImageErrorKind::DuplicateLabels { slots: (first, slot), uuid });
        }
    }
    faults
}

/// Returns the machine in which QEMU uses the image as a module, with kernel and ndctl of Debian 12.
fn machine(slot: QemuSlot, handle: Handle, layout: ImageLayout) -> Machine {
    let module = Module {
        handle,
        physical_id: 0,
        locator: format!("slot {}", slot.0),
        capacity: layout.data_len,
        identity: Some(slot.module()),
        firmware: None,
        part_number: None,
        health: Health::Healthy,
        security: Security::Unsupported,
        label_area: layout.label_len,
        sensors: Sensors::default(),
    };
    Machine {
        name: "QEMU".to_owned(),
        profile: Profile {
            ipmctl: IpmctlGeneration::Three,
            ndctl: 76,
            kernel: KernelVersion { major: 6, minor: 1 },
            domain: PersistenceDomain::MemoryController,
        },
        alignment: ImageLayout::DATA_UNIT,
        modules: vec![module],
        dram: Vec::new(),
        memmap: Vec::new(),
        soft_reserved: Vec::new(),
        cxl: CxlHardware::default(),
        firmware_scrubs: false,
        firmware_activation: FirmwareActivation::default(),
    }
}
