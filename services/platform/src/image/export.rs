//! Export of images.

use super::error::ImageError;
use super::error_kind::ImageErrorKind;
use super::file_system::FileSystem;
use super::file_system::data_range;
use super::flatten::flatten;
use super::format::ImageFormat;
use super::layout::ImageLayout;
use super::new_file;
use super::qemu_slot::QemuSlot;
use super::sectors::Sectors;
use super::target::{Target, Window};
use super::{kata, qemu};
use crate::directory::Directory;
use crate::error::PlatformError;
use crate::file::error::FileError;
use crate::file::progress::CopyProgress;
use crate::file::sparse;
use crate::machine::Handle;
use crate::namespace::{Mode, Namespace, has_labels, labels_of, region_labels};
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
    /// Format of the image.
    pub format: ImageFormat,
    /// The slot that a module's labels are for.
    pub slot: QemuSlot,
}

/// An exported image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Layout of the file.
    pub layout: ImageLayout,
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
    /// Fails if the source does not exist, or can't be exported.
    pub fn export_len(&self, wanted: &ExportImage) -> Result<u64, PlatformError> {
        Ok(match Target::find(self.platform(), &wanted.source)? {
            Target::Region(region) => region.size,
            Target::Namespace(_, namespace) if wanted.format == ImageFormat::Nvdimm => namespace.size,
            Target::Namespace(_, namespace) => namespace.usable(),
            Target::Module(module) => self.platform().machine.module(module).map_or(0, |one| one.capacity),
        })
    }

    /// Exports an image to `path`, sparse like the media. `uuid` is a new UUID for the page map of a Kata root.
    ///
    /// # Errors
    /// Fails if the source does not exist or can't be exported in this format, or if a system call fails. No file is
    /// left then.
    ///
    /// # Durability
    /// The file is durable under its name when this returns.
    pub fn export_image(
        &self,
        wanted: &ExportImage,
        path: &Path,
        uuid: Uuid,
        progress: &mut CopyProgress<'_>,
    ) -> Result<Exported, PlatformError> {
        let target = Target::find(self.platform(), &wanted.source)?;
        let format = wanted.format;
        let export = Export { directory: self, path, progress };
        match (&target, format) {
            (Target::Region(region), ImageFormat::Nvdimm) => export.labelled(region, None, wanted.slot),
            (Target::Namespace(region, namespace), ImageFormat::Nvdimm) => {
                export.labelled(region, Some(namespace), wanted.slot)
            }
            (Target::Module(module), ImageFormat::Nvdimm) => export.module(*module),
            (Target::Namespace(region, namespace), ImageFormat::VirtioPmem) => {
                export.unlabelled(region, namespace)
            }
            (Target::Namespace(region, namespace), ImageFormat::KataRoot)
                if namespace.mode() == Mode::Fsdax && namespace.usable() < PARTITION_MAX =>
            {
                export.kata_root(region, namespace, uuid)
            }
            _ => Err(export.fault(ImageErrorKind::Format { name: target.name(), format }).into()),
        }
    }
}

/// An export in progress.
struct Export<'e, 'w> {
    directory: &'e Directory,
    path: &'e Path,
    progress: &'e mut CopyProgress<'w>,
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
        let layout =
            ImageLayout::with_labels(window.image_end(), first.map_or(0, |module| module.label_area));
        let namespaces: Vec<Namespace> = platform
            .namespaces(region)
            .into_iter()
            .filter(|one| window.range.contains(&one.offset) && one.uuid.is_some())
            .collect();
        let labels = if has_labels(platform, region) {
            let area = label_area(platform, &window, layout, slot);
            Some(area.map_err(|error| self.fault(ImageErrorKind::Labels { off: layout.data_len, error }))?)
        } else {
            None
        };
        let new = new_file::create(self.path, layout.file_len())?;
        flatten(&mut self.directory.media(), &window, new.file(), self.path, self.progress)?;
        if let Some(labels) = labels {
            sparse::fill(new.file(), layout.data_len, &labels).map_err(|error| FileError {
                what: "writing",
                path: self.path.to_owned(),
                error,
            })?;
        }
        new_file::publish(new, self.path)?;
        Ok(Exported {
            layout,
            namespaces: namespaces.iter().map(Namespace::device).collect(),
            qemu: qemu::nvdimm(self.path, layout, slot, platform.machine.profile.domain),
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
        let layout = ImageLayout { data_len, label_len: labels.len() as u64 };
        let mut media = self.directory.media();
        media.check_module(module)?;
        let new = new_file::create(self.path, layout.file_len())?;
        let writing = |error| FileError { what: "writing", path: self.path.to_owned(), error };
        let (mut at, mut part) = (0, Vec::new());
        while let Some(data) = media.next_module_data(module, at..data_len)? {
            part.resize((data.end - data.start).min(sparse::PART) as usize, 0);
            media.read_module(module, data.start, &mut part)?;
            sparse::fill(new.file(), data.start, &part).map_err(writing)?;
            let end = data.start + part.len() as u64;
            self.progress.advance(end - at)?;
            at = end;
        }
        self.progress.advance(data_len - at)?;
        sparse::fill(new.file(), data_len, &labels).map_err(writing)?;
        new_file::publish(new, self.path)?;
        Ok(Exported { layout, namespaces: Vec::new(), qemu: Vec::new(), base_align: 0 })
    }

    /// Exports the data of a namespace.
    fn unlabelled(self, region: &Region, namespace: &Namespace) -> Result<Exported, PlatformError> {
        let layout = ImageLayout::without_labels(namespace.usable());
        let mut media = self.directory.media();
        let sectors = Sectors::open(&mut media, region, namespace)?;
        let new = new_file::create(self.path, layout.file_len())?;
        match (sectors, data_range(namespace)) {
            (Some(sectors), _) => sectors.read(&mut media, new.file(), self.path, self.progress)?,
            (None, Some(range)) => {
                let window = Window { region: region.clone(), range, image_off: 0 };
                flatten(&mut media, &window, new.file(), self.path, self.progress)?;
            }
            (None, None) => {}
        }
        new_file::publish(new, self.path)?;
        let qemu = qemu::virtio_pmem(self.path, layout);
        Ok(Exported { layout, namespaces: vec![namespace.device()], qemu, base_align: 0 })
    }

    /// Exports a root file system, after the blocks that Kata Containers needs.
    fn kata_root(
        self,
        region: &Region,
        namespace: &Namespace,
        uuid: Uuid,
    ) -> Result<Exported, PlatformError> {
        let no_root = ImageErrorKind::Format { name: namespace.device(), format: ImageFormat::KataRoot };
        let mut media = self.directory.media();
        let root = FileSystem::find(&mut media, region, namespace)?;
        let (Some(range), Some(0)) = (data_range(namespace), root.map(|root| root.off)) else {
            return Err(self.fault(no_root).into());
        };
        let (start, len) = (kata::DATA + kata::PARTITION, range.end - range.start);
        let layout = ImageLayout { data_len: align_up(start + len, kata::UNIT), label_len: 0 };
        let new = new_file::create(self.path, layout.file_len())?;
        let window = Window { region: region.clone(), range, image_off: start };
        flatten(&mut media, &window, new.file(), self.path, self.progress)?;
        for (off, block) in kata::blocks(layout.data_len, len, uuid) {
            new.file().write_all_at(&block, off).map_err(|error| FileError {
                what: "writing",
                path: self.path.to_owned(),
                error,
            })?;
        }
        new_file::publish(new, self.path)?;
        let qemu = qemu::kata_root(self.path, layout);
        Ok(Exported { layout, namespaces: vec![namespace.device()], qemu, base_align: kata::DATA })
    }

    fn fault(&self, fault: ImageErrorKind) -> ImageError {
        ImageError::of(self.path, fault)
    }
}

/// Encodes the label area of a QEMU slot's module, with the namespaces of a window.
fn label_area(
    platform: &Platform,
    window: &Window,
    layout: ImageLayout,
    slot: QemuSlot,
) -> Result<Vec<u8>, LabelError> {
    let mut bytes = vec![0; layout.label_len as usize];
    let version = labels_of(platform, &window.region);
    let mut update = LabelArea::format(layout.label_len, version.format())?;
    let ways = window.region.members().len() as u64;
    for label in region_labels(platform, &window.region) {
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
