//! Parameters of a new namespace, and the layout that they imply.

use super::error::NamespaceError;
use super::mode::{MapLocation, Mode};
use lode_nvdimm::{BttGeometry, BttVersion, PageMapInfo, PageMapLocation, PageMapRule, PageMapUser};
use uuid::Uuid;

/// Default alignment of page maps, in bytes.
pub(super) const ALIGN: u64 = 2 << 20;
/// Valid sector sizes of a BTT.
const SECTOR_SIZES: [u64; 7] = [512, 520, 528, 4096, 4104, 4160, 4224];
/// Default sector size of a BTT.
const SECTOR_SIZE: u64 = 4096;

/// Parameters of a new namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateNamespace {
    /// Its region; `None` takes the first with enough space.
    pub region: Option<u32>,
    /// Its mode.
    pub mode: Mode,
    /// Size in bytes; `None` takes the largest free range.
    pub size: Option<u64>,
    /// Place of its page map.
    pub map: MapLocation,
    /// Alignment of its page map, in bytes.
    pub align: Option<u64>,
    /// Sector size in bytes.
    pub sector_size: Option<u64>,
    /// The user's name.
    pub name: String,
    /// Its UUID; `None` generates one.
    pub uuid: Option<Uuid>,
}

impl CreateNamespace {
    /// Computes the page map for a namespace of `size` bytes at the physical address `start`.
    ///
    /// # Errors
    /// Fails if the namespace is too small, or the alignment is invalid.
    pub(crate) fn page_map(
        &self,
        rule: PageMapRule,
        start: u64,
        size: u64,
    ) -> Result<PageMapInfo, NamespaceError> {
        let user = if self.mode == Mode::Fsdax { PageMapUser::FileSystem } else { PageMapUser::Device };
        let place = match self.map {
            MapLocation::Mem => PageMapLocation::Dram,
            MapLocation::Dev => PageMapLocation::Namespace,
        };
        let planned = PageMapInfo::plan(user, place, rule, start, size, self.align.unwrap_or(ALIGN));
        planned.map_err(|error| NamespaceError::Info { size, error })
    }

    /// Computes the arenas of a BTT for a namespace of `size` bytes, each with its offset.
    ///
    /// # Errors
    /// Fails if the namespace is too small, or the sector size is invalid.
    pub(crate) fn arenas(
        &self,
        version: BttVersion,
        size: u64,
    ) -> Result<Vec<(u64, BttGeometry)>, NamespaceError> {
        let sector_size = self.sector_size.unwrap_or(SECTOR_SIZE);
        if !SECTOR_SIZES.contains(&sector_size) {
            return Err(NamespaceError::SectorSize { size: sector_size });
        }
        let planned = BttGeometry::plan(size, sector_size as u32, version);
        planned.map_err(|error| NamespaceError::Info { size, error })
    }

    /// Returns the sector size for the labels. That of a BTT is only in the BTT itself.
    ///
    /// # Errors
    /// Fails if the sector size is invalid.
    pub(crate) fn label_sector_size(&self) -> Result<u64, NamespaceError> {
        match (self.mode, self.sector_size) {
            (Mode::Sector, _) | (_, None) => Ok(512),
            (_, Some(size @ (512 | 4096))) => Ok(size),
            (_, Some(size)) => Err(NamespaceError::SectorSize { size }),
        }
    }
}
