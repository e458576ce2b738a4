//! Export of images.

use super::error::ImageError;
use super::fault::ImageFault;
use super::file_system::FileSystem;
use super::file_system::data_range;
use super::flatten::{each_part, flatten};
use super::form::ImageForm;
use super::new_file;
use super::sectors::Sectors;
use super::shape::Shape;
use super::slot::QemuSlot;
use super::target::{Target, Window};
use super::{kata, qemu};
use crate::directory::Directory;
use crate::error::PlatformError;
use crate::file::error::FileError;
use crate::file::sparse;
use crate::file::watch::Watch;
use crate::machine::Handle;
use crate::namespace::{Mode, Namespace, has_labels, labelled, labels_of};
use crate::platform::Platform;
use crate::region::Region;
use lode_layout::align_up;
use lode_nvdimm::{Label, LabelArea, LabelError, NamespaceLabel};
use std::os::unix::fs::FileExt;
use std::path::Path;
use uuid::Uuid;

/// Size in bytes of the largest file system that a partition table can describe.
const PARTITION_MAX: u64 = 2 << 40;

/// Parameters of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportImage {
    /// Source of the image, a region, a namespace or a module: `region0`, `namespace0.0`, `nmem0` or `0x0001`.
    pub source: String,
    /// Form of the image.
    pub form: ImageForm,
    /// The slot that a module's labels are for.
    pub slot: QemuSlot,
}

/// An exported image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Shape of the file.
    pub shape: Shape,
    /// Names of the namespaces whose labels are in the image, in the source machine.
    pub namespaces: Vec<String>,
    /// QEMU options to boot with it; empty for a raw copy of a module, which only this program reads.
    pub qemu: Vec<String>,
    /// Alignment in bytes of the module's physical address for which all page maps are valid. QEMU aligns the first
    /// module to a GiB, and others to 2 MiB.
    pub base_align: u64,
}

impl Directory {
    /// Returns the bytes that an export reads, for progress reports.
    ///
    /// # Errors
    /// The source does not exist, or can't be exported.
    pub fn export_len(&self, wanted: &ExportImage) -> Result<u64, PlatformError> {
        Ok(match Target::find(self.platform(), &wanted.source)? {
            Target::Region(region) => region.size,
            Target::Namespace(_, namespace) if wanted.form == ImageForm::Nvdimm => namespace.size,
            Target::Namespace(_, namespace) => namespace.usable(),
            Target::Module(module) => self.platform().machine.module(module).map_or(0, |one| one.capacity),
        })
    }

    /// Exports an image to `path`, sparse like the media. `uuid` is a new UUID for the page map of a Kata root.
    ///
    /// # Errors
    /// The source does not exist, can't be exported in this form, or the kernel refuses. No file is left then.
    ///
    /// # Durability
    /// The file is durable under its name when this returns.
    pub fn export_image(
        &self,
        wanted: &ExportImage,
        path: &Path,
        uuid: Uuid,
        watch: &mut Watch<'_>,
    ) -> Result<Exported, PlatformError> {
        let target = Target::find(self.platform(), &wanted.source)?;
        let form = wanted.form;
        let export = Export { directory: self, path, watch };
        match (&target, form) {
            (Target::Region(region), ImageForm::Nvdimm) => export.labelled(region, None, wanted.slot),
            (Target::Namespace(region, namespace), ImageForm::Nvdimm) => {
                export.labelled(region, Some(namespace), wanted.slot)
            }
            (Target::Module(module), ImageForm::Nvdimm) => export.module(*module),
            (Target::Namespace(region, namespace), ImageForm::VirtioPmem) => export.bare(region, namespace),
            (Target::Namespace(region, namespace), ImageForm::KataRoot)
                if namespace.mode() == Mode::Fsdax && namespace.usable() < PARTITION_MAX =>
            {
                export.kata_root(region, namespace, uuid)
            }
            _ => Err(export.fault(ImageFault::Form { name: target.name(), form }).into()),
        }
    }
}

/// An export in progress.
struct Export<'e, 'w> {
    directory: &'e Directory,
    path: &'e Path,
    watch: &'e mut Watch<'w>,
}

impl Export<'_, '_> {
    /// Exports a region, or one namespace, with labels.
    fn labelled(
        self,
        region: &Region,
        namespace: Option<&Namespace>,
        slot: QemuSlot,
    ) -> Result<Exported, PlatformError> {
        let platform = self.directory.platform();
        let window = Window::new(platform, region, namespace);
        let first = region.members().first().and_then(|member| platform.machine.module(member.module));
        let shape = Shape::with_labels(window.image_end(), first.map_or(0, |module| module.label_area));
        let namespaces: Vec<Namespace> = platform
            .namespaces(region)
            .into_iter()
            .filter(|one| window.range.contains(&one.offset) && one.uuid.is_some())
            .collect();
        let labels = if has_labels(platform, region) {
            let area = label_area(platform, &window, shape, slot);
            Some(area.map_err(|error| self.fault(ImageFault::Labels { off: shape.data_len, error }))?)
        } else {
            None
        };
        let new = new_file::create(self.path, shape.file_len())?;
        flatten(&mut self.directory.media(), &window, new.file(), self.path, self.watch)?;
        if let Some(labels) = labels {
            sparse::fill(new.file(), shape.data_len, &labels).map_err(|error| FileError {
                what: "writing",
                path: self.path.to_owned(),
                error,
            })?;
        }
        new_file::publish(new, self.path)?;
        Ok(Exported {
            shape,
            namespaces: namespaces.iter().map(Namespace::device).collect(),
            qemu: qemu::nvdimm(self.path, shape, slot, platform.machine.profile.domain),
            base_align: namespaces
                .iter()
                .filter_map(|one| one.page_map().map(|info| u64::from(info.align)))
                .max()
                .unwrap_or(0),
        })
    }

    /// Exports a raw copy of a module.
    fn module(self, module: Handle) -> Result<Exported, PlatformError> {
        let platform = self.directory.platform();
        let index = platform.machine.module_index(module).unwrap_or(0);
        let data_len = platform.machine.modules[index].capacity;
        let labels = self.directory.label_area(index)?;
        let shape = Shape { data_len, label_len: labels.len() as u64 };
        let mut media = self.directory.media();
        media.check_module(module)?;
        let new = new_file::create(self.path, shape.file_len())?;
        let source = media.file(module)?;
        let writing = |error| FileError { what: "writing", path: self.path.to_owned(), error };
        each_part(source, self.path, 0..data_len, self.watch, |at, part| {
            sparse::fill(new.file(), at, part).map_err(writing)
        })?;
        sparse::fill(new.file(), data_len, &labels).map_err(writing)?;
        new_file::publish(new, self.path)?;
        Ok(Exported { shape, namespaces: Vec::new(), qemu: Vec::new(), base_align: 0 })
    }

    /// Exports the data of a namespace.
    fn bare(self, region: &Region, namespace: &Namespace) -> Result<Exported, PlatformError> {
        let shape = Shape::bare(namespace.usable());
        let mut media = self.directory.media();
        let sectors = Sectors::open(&mut media, region, namespace)?;
        let new = new_file::create(self.path, shape.file_len())?;
        match (sectors, data_range(namespace)) {
            (Some(sectors), _) => sectors.read(&mut media, new.file(), self.path, self.watch)?,
            (None, Some(range)) => {
                let window = Window { region: region.clone(), range, image_off: 0 };
                flatten(&mut media, &window, new.file(), self.path, self.watch)?;
            }
            (None, None) => {}
        }
        new_file::publish(new, self.path)?;
        let qemu = qemu::virtio_pmem(self.path, shape);
        Ok(Exported { shape, namespaces: vec![namespace.device()], qemu, base_align: 0 })
    }

    /// Exports a root file system, after the blocks that Kata Containers needs.
    fn kata_root(
        self,
        region: &Region,
        namespace: &Namespace,
        uuid: Uuid,
    ) -> Result<Exported, PlatformError> {
        let no_root = ImageFault::Form { name: namespace.device(), form: ImageForm::KataRoot };
        let mut media = self.directory.media();
        let root = FileSystem::find(&mut media, region, namespace)?;
        let (Some(range), Some(0)) = (data_range(namespace), root.map(|root| root.off)) else {
            return Err(self.fault(no_root).into());
        };
        let (start, len) = (kata::DATA + kata::PARTITION, range.end - range.start);
        let shape = Shape { data_len: align_up(start + len, kata::UNIT), label_len: 0 };
        let new = new_file::create(self.path, shape.file_len())?;
        let window = Window { region: region.clone(), range, image_off: start };
        flatten(&mut media, &window, new.file(), self.path, self.watch)?;
        for (off, block) in kata::blocks(shape.data_len, len, uuid) {
            new.file().write_all_at(&block, off).map_err(|error| FileError {
                what: "writing",
                path: self.path.to_owned(),
                error,
            })?;
        }
        new_file::publish(new, self.path)?;
        let qemu = qemu::kata_root(self.path, shape);
        Ok(Exported { shape, namespaces: vec![namespace.device()], qemu, base_align: kata::DATA })
    }

    fn fault(&self, fault: ImageFault) -> ImageError {
        ImageError::of(self.path, fault)
    }
}

/// Encodes the label area of a QEMU slot's module, with the namespaces of a window.
fn label_area(
    platform: &Platform,
    window: &Window,
    shape: Shape,
    slot: QemuSlot,
) -> Result<Vec<u8>, LabelError> {
    let mut bytes = vec![0; shape.label_len as usize];
    let version = labels_of(platform, &window.region);
    let mut update = LabelArea::format(shape.label_len, version.format())?;
    let ways = window.region.members().len() as u64;
    for label in labelled(platform, &window.region) {
        let (start, size) = (label.dpa * ways, label.raw_size * ways);
        if !window.range.contains(&start) {
            continue;
        }
        let next = update.after.put(&Label::Namespace(NamespaceLabel {
            label_count: 1,
            position: 0,
            set_cookie: slot.cookie(version),
            dpa: start - window.range.start + window.image_off,
            raw_size: size,
            ..label
        }))?;
        update.writes.extend(next.writes);
        update.after = next.after;
    }
    for write in update.writes {
        let off = write.off as usize;
        bytes[off..off + write.bytes.len()].copy_from_slice(&write.bytes);
    }
    Ok(bytes)
}
