//! An image file and its contents, as seen by a kernel that boots with it.

use super::error::ImageError;
use super::error_kind::ImageErrorKind;
use super::file_system::FileSystem;
use super::layout::ImageLayout;
use super::qemu_slot::QemuSlot;
use crate::contents::{Contents, INFO_BLOCK};
use crate::directory::Media;
use crate::error::PlatformError;
use crate::file::error::FileError;
use crate::machine::{
    CxlHardware, Handle, Health, IpmctlGeneration, KernelVersion, Machine, Module, PersistenceDomain,
    Profile, Security, Sensors,
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
    /// The namespaces in their order; empty if the labels are not of QEMU's modules.
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
            if *slot_of_all.get_or_insert(qemu) != qemu || (label.label_count, label.position) != (1, 0) {
                return Err(foreign);
            }
            let end = label.dpa.saturating_add(label.raw_size);
            if end > self.layout.data_len {
                return Err(ImageErrorKind::BeyondEnd { uuid: label.uuid, end, len: self.layout.data_len });
            }
            labels.push(*label);
        }
        Ok((slot_of_all, labels))
    }

    /// Returns the contents.
    ///
    /// # Errors
    /// Fails if labels are torn, overlap, are incompletely written or extend past the data, or if a system call fails.
    pub fn contents(&self) -> Result<ImageContents, PlatformError> {
        let fault = |fault| ImageError::of(&self.path, fault);
        let slot = match self.labels() {
            Ok((slot, _)) => slot,
            // The labels belong to a real module or to another machine. They are still listed.
            Err(ImageErrorKind::ForeignLabel { .. }) => None,
            Err(other) => return Err(fault(other).into()),
        };
        let namespace = |(slot, label): (u32, &Label)| match label {
            Label::Namespace(label) => Some((slot, *label)),
            _ => None,
        };
        let labels = self.area.iter().flat_map(LabelArea::labels).filter_map(namespace).collect();
        let (platform, module) = self.platform(slot.unwrap_or_default())?;
        let file = self.file.try_clone().map_err(|error| self.failed(error))?;
        let mut media = Media::of_file(&self.path, module, file);
        let mut namespaces = Vec::new();
        for region in platform.regions() {
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
        Ok(ImageContents { slot, version: self.version(), labels, namespaces, listing })
    }

    /// Returns the machine that a kernel sees which boots with the image alone.
    fn platform(&self, slot: QemuSlot) -> Result<(Platform, Handle), PlatformError> {
        let handle = Handle(u32::from(slot.0) + 1);
        let mut platform = Platform {
            machine: machine(slot, handle, self.layout),
            state: State::new(),
            contents: Contents::default(),
        };
        let labels = self.version().unwrap_or_default();
        let members = vec![Member { module: handle, offset: 0 }];
        platform.state.sets.push(InterleaveSet { share: self.layout.data_len, labels, members });
        if self.area.is_some() {
            let mut bytes = vec![0; self.layout.label_len as usize];
            let read = self.file.read_exact_at(&mut bytes, self.layout.data_len);
            read.map_err(|error| self.failed(error))?;
            platform.contents.load_area(handle, &bytes);
        }
        for (module, off) in info_block_locations(&platform) {
            let mut bytes = vec![0; INFO_BLOCK as usize];
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
    if let Some((slot, damage)) = area.damaged().next() {
        return Err(ImageErrorKind::TornLabel { slot, damage: *damage });
    }
    if let Some(slots) = area.overlap() {
        return Err(ImageErrorKind::OverlappingLabels { slots });
    }
    let mut slots: BTreeMap<Uuid, u32> = BTreeMap::new();
    for (slot, label) in area.labels() {
        let Label::Namespace(label) = label else { continue };
        let uuid = label.uuid;
        if label.flags.has(LabelFlags::UPDATING) {
            return Err(ImageErrorKind::HalfWritten { uuid });
        }
        if label.raw_size == 0 {
            return Err(ImageErrorKind::EmptyLabel { slot });
        }
        if let Some(first) = slots.insert(uuid, slot) {
            return Err(ImageErrorKind::DuplicateLabels { slots: (first, slot), uuid });
        }
    }
    Ok(())
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
        cxl: CxlHardware::default(),
        firmware_scrubs: false,
    }
}
