//! Parameters of a new namespace, and the layout that they imply.

use super::error::NamespaceError;
use super::mode::{MapLocation, Mode};
use lode_nvdimm::{BttGeometry, BttVersion, PageMapInfo, PageMapLocation, PageMapRule, PageMapUser};
use uuid::Uuid;

/// Default alignment of page maps, in bytes.
const ALIGN: u64 = 2 << 20;
const PAGE: u64 = 4096;
/// Valid alignments of page maps, in bytes.
const ALIGNMENTS: [u64; 3] = [PAGE, ALIGN, 1 << 30];
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
    /// Checks what is valid or invalid in every region: the alignment of the page map and the sector size.
    ///
    /// # Errors
    /// [`Align`](NamespaceError::Align), [`SectorSize`](NamespaceError::SectorSize).
    pub(crate) fn check(&self) -> Result<(), NamespaceError> {
        self.share_align()?;
        match (self.mode, self.sector_size) {
            (Mode::Sector, Some(size)) if !SECTOR_SIZES.contains(&size) => {
                Err(NamespaceError::SectorSize { size })
            }
            _ => self.label_sector_size().map(drop),
        }
    }

    /// Returns the alignment of the namespace's share of each module, in bytes.
    ///
    /// # Errors
    /// [`Align`](NamespaceError::Align).
    pub(super) fn share_align(&self) -> Result<u64, NamespaceError> {
        let (valid, default) = match self.mode {
            Mode::Fsdax | Mode::Devdax => (ALIGNMENTS.as_slice(), ALIGN),
            Mode::Sector | Mode::Raw => ([PAGE].as_slice(), PAGE),
        };
        let align = self.align.unwrap_or(default);
        if valid.contains(&align) { Ok(align) } else { Err(NamespaceError::Align { align, mode: self.mode }) }
    }

    /// Returns the bytes that the user of such a namespace gets, of `size` bytes at the physical address `start`.
    ///
    /// # Errors
    /// Fails if the namespace is too small, or the alignment or the sector size is invalid.
    pub(crate) fn usable(
        &self,
        rule: PageMapRule,
        version: BttVersion,
        start: u64,
        size: u64,
    ) -> Result<u64, NamespaceError> {
        self.check()?;
        match self.mode {
            Mode::Raw => Ok(size),
            Mode::Fsdax | Mode::Devdax => Ok(self.page_map(rule, start, size)?.data_len(size)),
            Mode::Sector => Ok(self.arenas(version, size)?.iter().map(|(_, arena)| arena.capacity()).sum()),
        }
    }

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

    /// Returns the sector size for the labels. Those of a BTT that devices do not have are only in the BTT itself.
    ///
    /// # Errors
    /// Fails if the sector size is invalid.
    pub(crate) fn label_sector_size(&self) -> Result<u64, NamespaceError> {
        match (self.mode, self.sector_size) {
            (Mode::Sector, None) => Ok(SECTOR_SIZE),
            (_, None) => Ok(512),
            (_, Some(size @ (512 | 4096))) => Ok(size),
            (Mode::Sector, Some(_)) => Ok(0),
            (_, Some(size)) => Err(NamespaceError::SectorSize { size }),
        }
    }
}
