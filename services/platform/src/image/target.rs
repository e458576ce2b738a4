//! Source of an export, or destination of an import.

use super::error::ImageError;
use super::error_kind::ImageErrorKind;
use crate::error::PlatformError;
use crate::machine::{Handle, ModuleError};
use crate::namespace::{Namespace, NamespaceError};
use crate::nmem;
use crate::platform::Platform;
use crate::region::{Origin, Region};
use std::ops::Range;

/// Source of an export, or destination of an import.
#[derive(Clone, Debug)]
pub(super) enum Target {
    Region(Region),
    Namespace(Region, Box<Namespace>),
    Module(Handle),
}

impl Target {
    /// Finds the object with this name: `region0`, `namespace0.0`, `nmem0` or `0x0001`.
    pub(super) fn find(platform: &Platform, name: &str) -> Result<Target, PlatformError> {
        let unknown = || ImageError::of(name, ImageErrorKind::UnknownSource { name: name.to_owned() });
        if name.starts_with("namespace") {
            let (region, namespace) = platform.namespace(name)?;
            return Target::with_data(region, Some(namespace));
        }
        if let Some(number) = name.strip_prefix("region") {
            let number = number.parse().map_err(|_| unknown())?;
            let found = platform.regions().into_iter().find(|region| region.number == number);
            return Target::with_data(found.ok_or(NamespaceError::UnknownRegion { region: number })?, None);
        }
        let module = if let Some(index) = name.strip_prefix("nmem") {
            let index = index.parse().map_err(|_| unknown())?;
            nmem::module(platform, index)?
        } else {
            let number = Handle::parse_number(name).ok_or_else(unknown)?;
            let module = Handle::of_number(number).map_err(ModuleError::from)?;
            platform.machine.module(module).ok_or(ModuleError::UnknownModule { module })?
        };
        module.check_usable()?;
        Ok(Target::Module(module.handle))
    }

    /// Returns a region, or a namespace in it, if its modules work and their data is in the directory.
    fn with_data(region: Region, namespace: Option<Namespace>) -> Result<Target, PlatformError> {
        let number = region.number;
        if region.is_cxl() {
            return Err(NamespaceError::OfCxl { region: number }.into());
        }
        if region.origin == Origin::Memmap {
            let fault = ImageErrorKind::NoData { region: number };
            return Err(ImageError::of(region.name(), fault).into());
        }
        if !region.enabled {
            return Err(NamespaceError::RegionDisabled { region: number }.into());
        }
        Ok(match namespace {
            Some(namespace) => Target::Namespace(region, Box::new(namespace)),
            None => Target::Region(region),
        })
    }

    /// Returns the name of the object.
    pub(super) fn name(&self) -> String {
        match self {
            Target::Region(region) => region.name(),
            Target::Namespace(_, namespace) => namespace.device(),
            Target::Module(module) => module.to_string(),
        }
    }
}

/// A range of a region, with its offset in an image.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) region: Region,
    /// Range in bytes from the start of the region.
    pub(super) range: Range<u64>,
    /// Offset of the range in the image, in bytes.
    pub(super) image_off: u64,
}

impl Window {
    /// Returns the window of a region or a namespace. Its offset in the image preserves the alignment of page maps.
    pub(super) fn new(platform: &Platform, region: &Region, namespace: Option<&Namespace>) -> Window {
        let range = match namespace {
            Some(namespace) => namespace.offset..namespace.offset + namespace.size,
            None => 0..region.size,
        };
        let inside = platform.namespaces(region).into_iter().filter(|one| range.contains(&one.offset));
        let align = inside.filter_map(|one| one.page_map().map(|info| u64::from(info.align))).max();
        let image_off = (region.base + range.start) % align.filter(|align| *align > 0).unwrap_or(1);
        Window { region: region.clone(), range, image_off }
    }

    /// Returns the bytes of the range.
    pub(super) fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Returns the bytes of data that an image needs for it.
    pub(super) fn image_end(&self) -> u64 {
        self.image_off + self.len()
    }
}
