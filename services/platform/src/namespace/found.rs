//! A namespace as labels and info blocks describe it.

use super::mode::Mode;
use lode_nvdimm::{BttGeometry, BttVersion, PageMapInfo, PageMapUser};
use uuid::Uuid;

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Number of its region.
    pub region: u32,
    /// Number in the region.
    pub number: u32,
    /// UUID; `None` for a namespace without labels, which is a whole region.
    pub uuid: Option<Uuid>,
    /// The user's name.
    pub name: String,
    /// Offset in bytes from the start of its region.
    pub offset: u64,
    /// Size in bytes, including page map and BTT metadata.
    pub size: u64,
    /// Sector size in bytes from its labels; 512 if they have none.
    pub sector_size: u64,
    /// Use of the namespace, from its info blocks.
    pub personality: Personality,
    /// True if neither the namespace nor its region is disabled.
    pub enabled: bool,
}

/// Use of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Personality {
    /// A block device without page map and BTT.
    Raw,
    /// A block device with a page map in DRAM and without info block, as the kernel makes of ranges without labels.
    Legacy,
    /// A block device or a character device with a page map.
    PageMap(PageMapInfo),
    /// A block device with a BTT.
    Sectors {
        /// UUID of the BTT.
        uuid: Uuid,
        /// Version of the BTT.
        version: BttVersion,
        /// Sector size in bytes, including the metadata of the sector.
        sector_size: u32,
        /// Number of sectors.
        sector_count: u64,
    },
}

impl Namespace {
    /// Returns the kernel's name.
    pub fn device(&self) -> String {
        format!("namespace{}.{}", self.region, self.number)
    }

    /// Returns the mode of the namespace.
    pub fn mode(&self) -> Mode {
        match &self.personality {
            Personality::Raw => Mode::Raw,
            Personality::Legacy => Mode::Fsdax,
            Personality::PageMap(info) if info.user == PageMapUser::Device => Mode::Devdax,
            Personality::PageMap(_) => Mode::Fsdax,
            Personality::Sectors { .. } => Mode::Sector,
        }
    }

    /// Returns the bytes that are available to its user.
    pub fn usable(&self) -> u64 {
        match &self.personality {
            Personality::Raw | Personality::Legacy => self.size,
            Personality::PageMap(info) => info.data_len(self.size),
            Personality::Sectors { sector_size, sector_count, .. } => {
                u64::from(BttGeometry::sector_size_of(*sector_size)) * sector_count
            }
        }
    }

    /// Returns the sector size in bytes that listings show: that of a BTT includes the metadata.
    pub fn user_sector_size(&self) -> u64 {
        match &self.personality {
            Personality::Sectors { sector_size, .. } => u64::from(*sector_size),
            _ => self.sector_size,
        }
    }

    /// Returns the page map's info block; `None` if the namespace has none.
    pub fn page_map(&self) -> Option<&PageMapInfo> {
        match &self.personality {
            Personality::PageMap(info) => Some(info),
            _ => None,
        }
    }

    /// Returns the name of its block device in /dev; `None` for a character device.
    pub fn block_device(&self) -> Option<String> {
        let suffix = match &self.personality {
            Personality::PageMap(info) if info.user == PageMapUser::Device => return None,
            Personality::Sectors { .. } => "s",
            _ => "",
        };
        let number = if self.number == 0 { String::new() } else { format!(".{}", self.number) };
        Some(format!("pmem{}{number}{suffix}", self.region))
    }

    /// Returns the name of its character device in /dev; `None` for a block device.
    pub fn character_device(&self) -> Option<String> {
        if self.block_device().is_some() { None } else { Some(format!("dax{}.{}", self.region, self.number)) }
    }
}
