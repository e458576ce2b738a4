//! A namespace that is wanted, and what follows from that.

use crate::error::PlatformError;
use lode_layout::{BttGeometry, BttVersion, PageMapInfo, PageMapPlace, PageMapRule, PageMapUser};
use uuid::Uuid;

/// What page maps are aligned to if nobody says, in bytes.
pub(super) const ALIGN: u64 = 2 << 20;
/// What sizes of sectors a BTT can have.
const SECTOR_SIZES: [u64; 7] = [512, 520, 528, 4096, 4104, 4160, 4224];
/// The sector size of a BTT if nobody says.
const SECTOR_SIZE: u64 = 4096;

/// What is made of a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// For file systems that map files.
    #[default]
    Fsdax,
    /// A character device that is mapped.
    Devdax,
    /// Atomic sectors.
    Sector,
    /// As it is.
    Raw,
}

impl Mode {
    /// ndctl's word.
    pub fn word(self) -> &'static str {
        match self {
            Mode::Fsdax => "fsdax",
            Mode::Devdax => "devdax",
            Mode::Sector => "sector",
            Mode::Raw => "raw",
        }
    }
}

/// Where a page map is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapPlace {
    /// In DRAM.
    Mem,
    /// In the namespace.
    #[default]
    Dev,
}

/// A namespace that is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateNamespace {
    /// In this region; in the first with enough space if none is named.
    pub region: Option<u32>,
    /// What is to be made of it.
    pub mode: Mode,
    /// Bytes; the largest free range if none are given.
    pub size: Option<u64>,
    /// Where its page map is to be.
    pub map: MapPlace,
    /// What its page map is to be aligned to, in bytes.
    pub align: Option<u64>,
    /// Bytes of a sector.
    pub sector_size: Option<u64>,
    /// What its user calls it.
    pub name: String,
    /// Who it is; somebody new if nobody says.
    pub uuid: Option<Uuid>,
}

impl CreateNamespace {
    /// Its page map, if it is of so many bytes and begins at `start` in physical memory.
    ///
    /// # Errors
    /// There is no room for one, or nothing can be aligned so.
    pub(crate) fn page_map(
        &self,
        rule: PageMapRule,
        start: u64,
        size: u64,
    ) -> Result<PageMapInfo, PlatformError> {
        let user = if self.mode == Mode::Fsdax { PageMapUser::FileSystem } else { PageMapUser::Device };
        let place = match self.map {
            MapPlace::Mem => PageMapPlace::Dram,
            MapPlace::Dev => PageMapPlace::Namespace,
        };
        let planned = PageMapInfo::plan(user, place, rule, start, size, self.align.unwrap_or(ALIGN));
        planned.map_err(|error| PlatformError::Info { size, error })
    }

    /// The arenas of its atomic sectors, if it is of so many bytes: where each begins, and its parts.
    ///
    /// # Errors
    /// There is no room for one, or sectors can't be of that size.
    pub(crate) fn arenas(
        &self,
        version: BttVersion,
        size: u64,
    ) -> Result<Vec<(u64, BttGeometry)>, PlatformError> {
        let sector_size = self.sector_size.unwrap_or(SECTOR_SIZE);
        if !SECTOR_SIZES.contains(&sector_size) {
            return Err(PlatformError::SectorSize { size: sector_size });
        }
        let planned = BttGeometry::plan(size, sector_size as u32, version);
        planned.map_err(|error| PlatformError::Info { size, error })
    }

    /// Bytes of a sector as labels say them: those of a BTT are the BTT's own affair.
    ///
    /// # Errors
    /// Sectors can't be of that size.
    pub(crate) fn label_sector_size(&self) -> Result<u64, PlatformError> {
        match (self.mode, self.sector_size) {
            (Mode::Sector, _) | (_, None) => Ok(512),
            (_, Some(size @ (512 | 4096))) => Ok(size),
            (_, Some(size)) => Err(PlatformError::SectorSize { size }),
        }
    }
}
