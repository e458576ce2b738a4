//! Checking the tables that make the sectors of a namespace atomic.

use crate::contents::INFO_BLOCK;
use crate::directory::{Directory, Media};
use crate::error::PlatformError;
use crate::namespace::Personality;
use crate::region::Region;
use lode_layout::{BttCensus, BttFlog, BttInfo, BttVersion};

/// Bytes of the map that are read at once.
const MAP_PART: u64 = 1 << 20;

/// A table that is sound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SectorTable {
    /// Its arenas.
    pub arenas: u64,
    /// The sectors of all of them.
    pub sectors: u64,
}

impl Directory {
    /// Checks the table of a namespace with atomic sectors: in each arena both info blocks, the flog, and that each
    /// block is that of one sector or free. It changes nothing.
    ///
    /// # Errors
    /// There is no such namespace, it has no such table, or the first thing that is wrong with it; the kernel refuses.
    ///
    /// # Cost
    /// It reads all of the map, 4 bytes for each sector, and takes a bit of DRAM for each.
    pub fn check_namespace(&self, name: &str) -> Result<SectorTable, PlatformError> {
        let (region, namespace) = self.platform().namespace(name)?;
        let Personality::Sectors { version, .. } = namespace.personality else {
            return Err(PlatformError::NoSectors { name: name.to_owned() });
        };
        let mut check =
            ArenaCheck { name, region, end: namespace.offset + namespace.size, media: Media::new(self) };
        let mut table = SectorTable::default();
        let mut start = namespace.offset + BttVersion::arenas_off(version);
        loop {
            let info = check.arena(start, table.arenas)?;
            table.arenas += 1;
            table.sectors += u64::from(info.geometry.external_nlba());
            match info.geometry.nextoff() {
                Some(len) => start += len,
                None => return Ok(table),
            }
        }
    }
}

/// What looks at the arenas of a namespace.
struct ArenaCheck<'n> {
    name: &'n str,
    region: Region,
    /// Where the namespace ends, in bytes from the start of the region.
    end: u64,
    media: Media,
}

impl ArenaCheck<'_> {
    /// Checks the arena that begins at `start` of the region.
    fn arena(&mut self, start: u64, arena: u64) -> Result<BttInfo, PlatformError> {
        let name = || self.name.to_owned();
        let first = self.media.bytes(&self.region, start, INFO_BLOCK)?;
        let info = BttInfo::decode(&first).map_err(|error| PlatformError::ArenaInfo {
            name: name(),
            arena,
            error,
        })?;
        let geometry = &info.geometry;
        if start.saturating_add(geometry.infooff() + INFO_BLOCK) > self.end {
            return Err(PlatformError::ArenaEnd { name: name(), arena });
        }
        if self.media.bytes(&self.region, start + geometry.infooff(), INFO_BLOCK)? != first {
            return Err(PlatformError::ArenaCopies { name: name(), arena });
        }
        let damaged = |error| PlatformError::Arena { name: name(), arena, error };
        let flog = self.media.bytes(&self.region, start + geometry.flogoff(), BttFlog::len_of(geometry))?;
        let flog = BttFlog::decode(&flog, geometry).map_err(damaged)?;
        let mut census = BttCensus::new(geometry, &flog).map_err(damaged)?;
        let (mut at, end) = (geometry.mapoff(), geometry.flogoff());
        while at < end {
            let len = (end - at).min(MAP_PART);
            census.map(&self.media.bytes(&self.region, start + at, len)?).map_err(damaged)?;
            at += len;
        }
        census.finish().map_err(damaged)?;
        Ok(info)
    }
}
