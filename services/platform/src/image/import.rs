//! Import of images that a kernel has changed.

use super::error::ImageError;
use super::error_kind::ImageErrorKind;
use super::existing::Image;
use super::existing::check_whole;
use super::file_system::data_range;
use super::flatten::{each_part, spread};
use super::layout::ImageLayout;
use super::sectors::Sectors;
use super::target::{Target, Window};
use crate::directory::{Directory, Media, Staged};
use crate::error::PlatformError;
use crate::file::progress::CopyProgress;
use crate::machine::Handle;
use crate::namespace::{
    Namespace, NamespaceError, has_labels, labelled_names, put_labels, region_labels, remove_labels,
    replace_labels,
};
use crate::platform::Platform;
use crate::region::{Origin, Region};
use lode_nvdimm::{Label, LabelArea, NamespaceLabel};
use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::FileExt;
use uuid::Uuid;

/// Parameters of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportImage {
    /// Destination; `None` for the origin that the labels of the image identify.
    pub into: Option<String>,
    /// Leave out the namespaces and data of the image that do not fit into the destination. Otherwise they are refused.
    pub partial: bool,
}

/// Result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// Name of the destination.
    pub destination: String,
    /// Names of its namespaces after the import, in this machine.
    pub namespaces: Vec<String>,
    /// Number of new namespaces.
    pub created: u64,
    /// Number of removed namespaces.
    pub removed: u64,
    /// Faults of the parts that were left out.
    pub skipped: Vec<ImageErrorKind>,
}

impl Directory {
    /// Imports an image to `wanted.into`, or to the origin that its labels identify. The image replaces the data and the
    /// namespaces, so namespaces that a kernel made or destroyed change here too.
    ///
    /// # Errors
    /// Fails if the image is incomplete, does not have the length of the destination's image, has namespaces or data in
    /// its padding, or has no known origin, or if a system call fails. Nothing is changed then.
    ///
    /// # Durability
    /// The change is atomic. After a crash, all of it is as before or as after.
    ///
    /// # Cost
    /// Writes new copies of all modules that hold a part of the destination, except holes.
    pub fn import_image(
        &mut self,
        image: &Image,
        wanted: &ImportImage,
        progress: &mut CopyProgress<'_>,
    ) -> Result<Imported, PlatformError> {
        let partial = wanted.partial;
        let target = match wanted.into.as_deref() {
            Some(name) => Target::find(self.platform(), name)?,
            None => origin(self.platform(), image)?,
        };
        match &target {
            Target::Module(module) => self.import_module(image, *module, progress),
            Target::Namespace(region, namespace) if image.layout.label_len == 0 => {
                self.import_unlabelled(image, region, namespace, partial, progress)
            }
            Target::Namespace(region, namespace) => {
                let window = Window::new(self.platform(), region, Some(namespace));
                self.import_window(image, &target, window, partial, progress)
            }
            Target::Region(region) => {
                let window = Window::new(self.platform(), region, None);
                self.import_window(image, &target, window, partial, progress)
            }
        }
    }

    /// Imports an image with labels into a region or a namespace.
    fn import_window(
        &mut self,
        image: &Image,
        target: &Target,
        window: Window,
        partial: bool,
        progress: &mut CopyProgress<'_>,
    ) -> Result<Imported, PlatformError> {
        check_size(
            image,
            target,
            ImageLayout::with_labels(window.image_end(), 0).data_len,
            image.layout.data_len,
        )?;
        let (_, labels) = image.labels().map_err(|fault| of_image(image, fault))?;
        if image.area.is_none() && has_labels(self.platform(), &window.region) {
            return Err(of_image(image, ImageErrorKind::NoLabels { into: target.name() }).into());
        }
        let (mut wanted, mut unfit) = (Vec::new(), Vec::new());
        for label in &labels {
            match in_region(label, &window) {
                Ok(label) => wanted.push(label),
                Err(fault) => unfit.push(fault),
            }
        }
        if image.area.is_none() {
            unfit.extend(data_in_padding(image, window.image_off..window.image_end())?);
        }
        let skipped = skipped(image, unfit, partial)?;
        // This trial finds errors before the long copy.
        replace_namespaces(&mut self.platform().clone(), &window, &wanted)?;
        let mut staged = self.stage()?;
        let mut media = self.media();
        copy_around(&mut staged, &mut media, &window, progress)?;
        spread(&image.file, &image.path, &window, &staged, progress)?;
        let (made, gone) =
            self.change_media(staged, |platform| replace_namespaces(platform, &window, &wanted))?;
        let namespaces = self.platform().namespaces(&window.region).into_iter();
        let namespaces = namespaces.filter(|one| window.range.contains(&one.offset));
        let namespaces = namespaces.map(|one| one.device()).collect();
        Ok(Imported { destination: target.name(), namespaces, created: made, removed: gone, skipped })
    }

    /// Imports an image of a namespace's data.
    fn import_unlabelled(
        &mut self,
        image: &Image,
        region: &Region,
        namespace: &Namespace,
        partial: bool,
        progress: &mut CopyProgress<'_>,
    ) -> Result<Imported, PlatformError> {
        let target = Target::Namespace(region.clone(), Box::new(namespace.clone()));
        check_size(
            image,
            &target,
            ImageLayout::without_labels(namespace.usable()).data_len,
            image.layout.data_len,
        )?;
        let unfit = data_in_padding(image, 0..namespace.usable())?;
        let skipped = skipped(image, unfit.into_iter().collect(), partial)?;
        let mut media = self.media();
        let sectors = Sectors::open(&mut media, region, namespace)?;
        let mut staged = self.stage()?;
        match (sectors, data_range(namespace)) {
            (Some(sectors), _) => {
                let nothing = Window {
                    region: region.clone(),
                    range: namespace.offset..namespace.offset,
                    image_off: 0,
                };
                copy_around(&mut staged, &mut media, &nothing, progress)?;
                sectors.write(&mut media, &staged, &image.file, &image.path, progress)?;
            }
            (None, Some(range)) => {
                let window = Window { region: region.clone(), range, image_off: 0 };
                copy_around(&mut staged, &mut media, &window, progress)?;
                spread(&image.file, &image.path, &window, &staged, progress)?;
            }
            (None, None) => {}
        }
        self.change_media(staged, |_| Ok::<_, PlatformError>(()))?;
        Ok(Imported {
            destination: target.name(),
            namespaces: vec![namespace.device()],
            created: 0,
            removed: 0,
            skipped,
        })
    }

    /// Imports a raw copy of a module.
    fn import_module(
        &mut self,
        image: &Image,
        module: Handle,
        progress: &mut CopyProgress<'_>,
    ) -> Result<Imported, PlatformError> {
        let platform = self.platform();
        let index = platform.machine.module_index(module).unwrap_or(0);
        let (capacity, label_len) =
            (platform.machine.modules[index].capacity, platform.machine.modules[index].label_area);
        check_size(image, &Target::Module(module), capacity + label_len, image.layout.file_len())?;
        let mut labels = vec![0; label_len as usize];
        image.file.read_exact_at(&mut labels, capacity).map_err(|error| image.failed(error))?;
        match LabelArea::read(&labels) {
            Ok(area) => check_whole(&area).and_then(|()| check_sets(platform, module, &area)),
            Err(lode_nvdimm::LabelError::Blank) => Ok(()),
            Err(error) => Err(ImageErrorKind::Labels { off: capacity, error }),
        }
        .map_err(|fault| of_image(image, fault))?;
        let before = identities(self.platform());
        let mut staged = self.stage()?;
        staged.copy(&mut self.media(), module, 0..capacity, progress)?;
        each_part(&image.file, &image.path, 0..capacity, progress, |at, part| {
            staged.fill_module(module, at, part)
        })?;
        self.change_media(staged, |platform| {
            replace_labels(platform, module, labels);
            Ok::<_, PlatformError>(())
        })?;
        let namespaces = labelled_names(self.platform(), None);
        let after = identities(self.platform());
        let (made, gone) =
            (after.difference(&before).count() as u64, before.difference(&after).count() as u64);
        let destination = module.to_string();
        Ok(Imported { destination, namespaces, created: made, removed: gone, skipped: Vec::new() })
    }

    /// Replaces the data of a namespace, which is contiguous in it, by that of a file.
    pub(super) fn replace_data(
        &mut self,
        region: &Region,
        namespace: &Namespace,
        staged: Staged,
        file: (&std::fs::File, &std::path::Path),
        progress: &mut CopyProgress<'_>,
    ) -> Result<(), PlatformError> {
        let Some(range) = data_range(namespace) else { return Ok(()) };
        let mut staged = staged;
        let window = Window { region: region.clone(), range, image_off: 0 };
        copy_around(&mut staged, &mut self.media(), &window, progress)?;
        spread(file.0, file.1, &window, &staged, progress)?;
        self.change_media(staged, |_| Ok::<_, PlatformError>(()))
    }
}

/// Returns the UUIDs of all namespaces of a machine.
fn identities(platform: &Platform) -> BTreeSet<Uuid> {
    let namespaces = platform.regions().into_iter().flat_map(|region| platform.namespaces(&region));
    namespaces.filter_map(|namespace| namespace.uuid).collect()
}

/// Copies the modules of the window, without the window.
pub(super) fn copy_around(
    staged: &mut Staged,
    media: &mut Media,
    window: &Window,
    progress: &mut CopyProgress<'_>,
) -> Result<(), PlatformError> {
    let Some(interleave) = window.region.interleave() else { return Ok(()) };
    for (position, member) in (0..).zip(window.region.members()) {
        let share = interleave.share(position, window.range.clone());
        let share = member.offset + share.start..member.offset + share.end;
        staged.copy(media, member.module, share, progress)?;
    }
    Ok(())
}

/// Finds the origin of an image by its namespaces.
fn origin(platform: &Platform, image: &Image) -> Result<Target, PlatformError> {
    let labels = match image.labels() {
        Ok((_, labels)) => labels,
        Err(fault @ ImageErrorKind::ForeignLabel { .. }) => {
            return Ok(module_of(platform, image).ok_or_else(|| of_image(image, fault))?);
        }
        Err(fault) => return Err(of_image(image, fault).into()),
    };
    let uuids: BTreeSet<Uuid> = labels.iter().map(|label| label.uuid).collect();
    let known = |region: &Region| -> Vec<Namespace> {
        let namespaces = platform.namespaces(region).into_iter();
        namespaces.filter(|one| one.uuid.is_some_and(|uuid| uuids.contains(&uuid))).collect()
    };
    let mut found = Vec::new();
    for region in platform.regions().into_iter().filter(|region| matches!(region.origin, Origin::Set { .. }))
    {
        let known = known(&region);
        let fits = |window: &Window| {
            ImageLayout::with_labels(window.image_end(), 0).data_len == image.layout.data_len
        };
        let lies = |namespace: &Namespace, window: &Window| {
            labels.iter().any(|label| {
                Some(label.uuid) == namespace.uuid
                    && label.dpa + window.range.start == namespace.offset + window.image_off
            })
        };
        let whole = Window::new(platform, &region, None);
        if fits(&whole) && known.iter().any(|one| lies(one, &whole)) {
            found.push(Target::Region(region.clone()));
            continue;
        }
        for namespace in known {
            let window = Window::new(platform, &region, Some(&namespace));
            if fits(&window) && lies(&namespace, &window) {
                found.push(Target::Namespace(region.clone(), Box::new(namespace)));
            }
        }
    }
    match <[Target; 1]>::try_from(found) {
        // A region that is disabled can't be a destination.
        Ok([target]) => Target::find(platform, &target.name()),
        Err(_) => Ok(module_of(platform, image).ok_or_else(|| of_image(image, ImageErrorKind::NoOrigin))?),
    }
}

/// Returns the module that a raw copy was made of, if its labels belong to a set of this machine.
fn module_of(platform: &Platform, image: &Image) -> Option<Target> {
    let modules = platform.machine.modules.iter();
    let mut fitting = modules
        .filter(|module| module.usable() && module.capacity + module.label_area == image.layout.file_len())
        .filter(|module| {
            let mut labels = vec![0; module.label_area as usize];
            let read = image.file.read_exact_at(&mut labels, module.capacity);
            let area = read.ok().and_then(|()| LabelArea::read(&labels).ok());
            area.is_some_and(|area| {
                area.labels().next().is_some() && check_sets(platform, module.handle, &area).is_ok()
            })
        });
    let first = fitting.next().map(|module| Target::Module(module.handle));
    if fitting.next().is_some() { None } else { first }
}

/// Checks that all labels belong to sets that the module is part of, at the module's position.
fn check_sets(platform: &Platform, module: Handle, area: &LabelArea) -> Result<(), ImageErrorKind> {
    let regions = platform.regions();
    let is_own = |label: &NamespaceLabel| {
        regions.iter().any(|region| {
            let Origin::Set { id, share, members } = &region.origin else { return false };
            members.iter().enumerate().any(|(position, member)| {
                let end = label.dpa.saturating_add(label.raw_size);
                member.module == module
                    && (*id, position as u16) == (label.set_cookie, label.position)
                    && label.dpa >= member.offset
                    && end <= member.offset + share
            })
        })
    };
    for (slot, label) in area.labels() {
        match label {
            Label::Namespace(label) if is_own(label) => {}
            Label::Namespace(label) => {
                return Err(ImageErrorKind::ForeignLabel { slot, cookie: label.set_cookie });
            }
            _ => return Err(ImageErrorKind::ForeignLabel { slot, cookie: 0 }),
        }
    }
    Ok(())
}

fn check_size(image: &Image, into: &Target, want: u64, found: u64) -> Result<(), ImageError> {
    if want == found {
        return Ok(());
    }
    Err(of_image(image, ImageErrorKind::Size { into: into.name(), want, found }))
}

/// Returns the first data of an image without labels that is outside of the imported range. The image is padded, and a
/// guest may have used all of it.
fn data_in_padding(image: &Image, imported: Range<u64>) -> Result<Option<ImageErrorKind>, PlatformError> {
    for padding in [0..imported.start, imported.end..image.layout.data_len] {
        let mut found = None;
        let mut go_on = |_| ControlFlow::Continue(());
        let progress = &mut CopyProgress::new(&mut go_on);
        each_part(&image.file, &image.path, padding, progress, |at, part| {
            let used = part.iter().position(|byte| *byte != 0).map(|used| at + used as u64);
            found = found.or(used);
            Ok(())
        })?;
        if let Some(off) = found {
            return Ok(Some(ImageErrorKind::DataInPadding { off, range: imported }));
        }
    }
    Ok(None)
}

/// Returns what is left out of a partial import. Another import is refused for it.
fn skipped(
    image: &Image,
    unfit: Vec<ImageErrorKind>,
    partial: bool,
) -> Result<Vec<ImageErrorKind>, ImageError> {
    match unfit.first() {
        Some(fault) if !partial => Err(of_image(image, fault.clone())),
        _ => Ok(unfit),
    }
}

fn of_image(image: &Image, fault: ImageErrorKind) -> ImageError {
    ImageError::of(&image.path, fault)
}

/// Converts a label of an image to one of the window's region, with the range in the first module's share.
fn in_region(label: &NamespaceLabel, window: &Window) -> Result<NamespaceLabel, ImageErrorKind> {
    let end = label.dpa + label.raw_size;
    if label.dpa < window.image_off || end > window.image_end() {
        return Err(ImageErrorKind::BeyondEnd { uuid: label.uuid, end, len: window.image_end() });
    }
    let ways = window.region.members().len() as u64;
    let (start, size) = (label.dpa - window.image_off + window.range.start, label.raw_size);
    let unit = ways * lode_layout::BLOCK;
    if !start.is_multiple_of(unit) || !size.is_multiple_of(unit) {
        return Err(ImageErrorKind::Misaligned { uuid: label.uuid, start, size, unit });
    }
    Ok(NamespaceLabel { dpa: start / ways, raw_size: size / ways, ..*label })
}

/// Replaces the labels of the window by those of an image. Returns the numbers of new and of removed namespaces.
fn replace_namespaces(
    platform: &mut Platform,
    window: &Window,
    wanted: &[NamespaceLabel],
) -> Result<(u64, u64), NamespaceError> {
    if !has_labels(platform, &window.region) {
        return match wanted {
            [] => Ok((0, 0)),
            _ => Err(NamespaceError::NoLabels { region: window.region.number }),
        };
    }
    let ways = window.region.members().len() as u64;
    let all = region_labels(platform, &window.region);
    let (inside, outside): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|label| window.range.contains(&(label.dpa * ways)));
    let elsewhere = platform.regions().into_iter().filter(|region| region.number != window.region.number);
    let mut taken: BTreeSet<Uuid> =
        elsewhere.flat_map(|region| region_labels(platform, &region)).map(|label| label.uuid).collect();
    taken.extend(outside.iter().map(|label| label.uuid));
    if let Some(label) = wanted.iter().find(|label| taken.contains(&label.uuid)) {
        return Err(NamespaceError::UuidExists { uuid: label.uuid });
    }
    let gone: Vec<&NamespaceLabel> =
        inside.iter().filter(|old| wanted.iter().all(|new| new.uuid != old.uuid)).collect();
    for label in &gone {
        remove_labels(platform, &window.region, label.uuid)?;
    }
    // A new namespace may use the range of a changed one. So all changed ones are removed first.
    let is_same = |old: &NamespaceLabel, new: &NamespaceLabel| {
        let of = |one: &NamespaceLabel| NamespaceLabel { set_cookie: 0, label_count: 0, position: 0, ..*one };
        of(old) == of(new)
    };
    let changed: Vec<&NamespaceLabel> =
        wanted.iter().filter(|new| !inside.iter().any(|old| is_same(old, new))).collect();
    for old in inside.iter().filter(|old| changed.iter().any(|new| new.uuid == old.uuid)) {
        remove_labels(platform, &window.region, old.uuid)?;
    }
    for new in &changed {
        put_labels(platform, &window.region, new)?;
    }
    let made = wanted.iter().filter(|new| inside.iter().all(|old| old.uuid != new.uuid)).count();
    Ok((made as u64, gone.len() as u64))
}
