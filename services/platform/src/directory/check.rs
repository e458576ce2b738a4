//! Check of a namespace's BTT.

use super::error::BttError;
use super::media::Media;
use super::state_dir::Directory;
use crate::contents::INFO_BLOCK;
use crate::error::PlatformError;
use crate::namespace::Personality;
use crate::region::Region;
use lode_nvdimm::{BttBlockCheck, BttFlog, BttInfo, BttVersion};

/// Bytes of the map per read.
const MAP_PART: u64 = 1 << 20;

/// A BTT without damage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BttSummary {
    /// Number of arenas.
    pub arenas: u64,
    /// Number of sectors in all arenas.
    pub sectors: u64,
}

impl Directory {
    /// Checks the BTT of a namespace: both info blocks and the flog of each arena, and that each block belongs to one
    /// sector or is free. Changes nothing.
    ///
    /// # Errors
    /// Fails if the namespace does not exist or has no BTT, or if a system call fails. If the BTT is damaged, the error
    /// has the first damage.
    ///
    /// # Cost
    /// Reads the whole map, 4 bytes for each sector, and uses a bit of DRAM for each.
    pub fn check_namespace(&self, name: &str) -> Result<BttSummary, PlatformError> {
        let (region, namespace) = self.platform().namespace(name)?;
        let Personality::Sectors { version, .. } = namespace.personality else {
            return Err(BttError::NoSectors { name: name.to_owned() }.into());
        };
        let mut check =
            ArenaCheck { name, region, end: namespace.offset + namespace.size, media: self.media() };
        let mut table = BttSummary::default();
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

/// Checker of a namespace's arenas.
struct ArenaCheck<'n> {
    name: &'n str,
    region: Region,
    /// Offset of the namespace's end in the region, in bytes.
    end: u64,
    media: Media,
}

impl ArenaCheck<'_> {
    /// Checks the arena at `start` of the region.
    fn arena(&mut self, start: u64, arena: u64) -> Result<BttInfo, PlatformError> {
        let name = || self.name.to_owned();
        let first = self.media.bytes(&self.region, start, INFO_BLOCK)?;
        let info =
            BttInfo::decode(&first).map_err(|error| BttError::ArenaInfo { name: name(), arena, error })?;
        let geometry = &info.geometry;
        if start.saturating_add(geometry.infooff() + INFO_BLOCK) > self.end {
            return Err(BttError::ArenaEnd { name: name(), arena }.into());
        }
        if self.media.bytes(&self.region, start + geometry.infooff(), INFO_BLOCK)? != first {
            return Err(BttError::ArenaCopies { name: name(), arena }.into());
        }
        let damaged = |error| BttError::Arena { name: name(), arena, error };
        let flog = self.media.bytes(&self.region, start + geometry.flogoff(), BttFlog::len_of(geometry))?;
        let flog = BttFlog::decode(&flog, geometry).map_err(damaged)?;
        let mut check = BttBlockCheck::new(geometry, &flog).map_err(damaged)?;
        let (mut at, end) = (geometry.mapoff(), geometry.flogoff());
        while at < end {
            let len = (end - at).min(MAP_PART);
            check.map(&self.media.bytes(&self.region, start + at, len)?).map_err(damaged)?;
            at += len;
        }
        check.finish().map_err(damaged)?;
        Ok(info)
    }
}
