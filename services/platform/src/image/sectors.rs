//! Sectors of a namespace as its user sees them, through the BTT.

use super::error::ImageError;
use super::error_kind::ImageErrorKind;
use crate::contents::INFO_BLOCK;
use crate::directory::{BttError, Media, Staged};
use crate::error::PlatformError;
use crate::file::error::FileError;
use crate::file::progress::CopyProgress;
use crate::file::sparse;
use crate::namespace::{Namespace, Personality};
use crate::region::Region;
use lode_nvdimm::{BttBlockState, BttFlog, BttGeometry, BttInfo, BttMapEntry, BttVersion};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Entries of the map per read.
const ENTRIES: u64 = 64 << 10;
/// Bytes of metadata in the kernel's largest sector, which has 4224 bytes.
const METADATA_MAX: usize = 128;
/// Smallest size of sectors that can be marked as zeros, in bytes. A kernel that reads a page ends at the first sector of it that
/// has the mark, and leaves the others of the page unread: Linux, drivers/nvdimm/btt.c, btt_read_pg.
const MARKED_MIN: u32 = 4096;

/// A receiver of a part of data, and its offset.
pub(super) type TakePart<'t> = &'t mut dyn FnMut(u64, &[u8]) -> Result<(), FileError>;

/// BTT of a namespace.
#[derive(Debug)]
pub(super) struct Sectors<'r> {
    name: String,
    region: &'r Region,
    /// Offset of the namespace's end in the region, in bytes.
    end: u64,
    arenas: Vec<Arena>,
}

/// An arena of the BTT.
#[derive(Debug)]
struct Arena {
    /// Number of the arena, from 0.
    number: u64,
    /// Offset of the arena in the region, in bytes.
    start: u64,
    /// Offset of its first sector in the user's data, in bytes.
    user_off: u64,
    geometry: BttGeometry,
    /// Writes that are in the flog and not in the map: the old block and the new block, by sector.
    unfinished: BTreeMap<u32, (u32, u32)>,
}

/// Sectors that are consecutive for the user and in the data area.
#[derive(Clone, Copy, Debug)]
struct Run {
    lba: u64,
    block: u64,
    count: u64,
}

impl<'r> Sectors<'r> {
    /// Reads the BTT of a namespace, except for its maps. Returns `None` if the namespace has no BTT.
    ///
    /// # Errors
    /// Fails if an arena is damaged, or if a system call fails.
    pub(super) fn open(
        media: &mut Media,
        region: &'r Region,
        namespace: &Namespace,
    ) -> Result<Option<Sectors<'r>>, PlatformError> {
        let Personality::Sectors { version, .. } = namespace.personality else { return Ok(None) };
        let end = namespace.offset + namespace.size;
        let mut sectors = Sectors { name: namespace.device(), region, end, arenas: Vec::new() };
        let mut start = namespace.offset + BttVersion::arenas_off(version);
        let mut user_off = 0;
        loop {
            let arena = sectors.arena(media, start, user_off)?;
            let next = arena.geometry.nextoff();
            user_off += arena.geometry.capacity();
            sectors.arenas.push(arena);
            match next {
                Some(len) => start += len,
                None => return Ok(Some(sectors)),
            }
        }
    }

    fn arena(&self, media: &mut Media, start: u64, user_off: u64) -> Result<Arena, PlatformError> {
        let number = self.arenas.len() as u64;
        let name = || self.name.clone();
        let info = BttInfo::decode(&media.bytes(self.region, start, INFO_BLOCK)?);
        let info = info.map_err(|error| BttError::ArenaInfo { name: name(), arena: number, error })?;
        let geometry = info.geometry;
        // An arena must end inside of the namespace.
        if start.saturating_add(geometry.infooff() + INFO_BLOCK) > self.end {
            return Err(BttError::ArenaEnd { name: name(), arena: number }.into());
        }
        let flog = media.bytes(self.region, start + geometry.flogoff(), BttFlog::len_of(&geometry))?;
        let flog = BttFlog::decode(&flog, &geometry).map_err(|error| BttError::Arena {
            name: name(),
            arena: number,
            error,
        })?;
        let moved = flog.current().filter(|entry| entry.free_block() != entry.written_block());
        let unfinished = moved.map(|entry| (entry.lba, (entry.free_block(), entry.written_block())));
        Ok(Arena { number, start, user_off, geometry, unfinished: unfinished.collect() })
    }

    /// Returns `len` bytes at `off` of the user's data, or an empty vector if the first arena ends before them.
    ///
    /// # Errors
    /// Fails if a map is damaged, or if a system call fails.
    pub(super) fn bytes(&self, media: &mut Media, off: u64, len: u64) -> Result<Vec<u8>, PlatformError> {
        let Some(arena) = self.arenas.first().filter(|arena| off + len <= arena.geometry.capacity()) else {
            return Ok(Vec::new());
        };
        let sector = u64::from(arena.geometry.sector_size());
        let (first, last) = (off / sector, (off + len).div_ceil(sector));
        let mut entries = self.entries(media, arena, first)?;
        entries.truncate((last - first) as usize);
        let mut bytes = Vec::new();
        for (entry, lba) in entries.iter().zip(first as u32..) {
            let block = u64::from(arena.block(lba, *entry));
            let at =
                arena.start + arena.geometry.dataoff() + block * u64::from(arena.geometry.internal_lbasize());
            match entry.state {
                BttBlockState::Zero | BttBlockState::Error => bytes.resize(bytes.len() + sector as usize, 0),
                _ => bytes.extend(media.bytes(self.region, at, sector)?),
            }
        }
        let start = (off - first * sector) as usize;
        Ok(bytes.get(start..start + len as usize).unwrap_or_default().to_vec())
    }

    /// Copies the user's data to a file that is a hole so far.
    ///
    /// # Errors
    /// Fails if a sector can't be read, if a map is damaged, or if a system call fails.
    pub(super) fn read(
        &self,
        media: &mut Media,
        file: &File,
        path: &Path,
        progress: &mut CopyProgress<'_>,
    ) -> Result<(), PlatformError> {
        self.each_part(media, progress, &mut |off, bytes| {
            sparse::fill(file, off, bytes).map_err(|error| FileError {
                what: "writing",
                path: path.to_owned(),
                error,
            })
        })
    }

    /// Calls `take` with each part of the user's data that is no hole, and its offset, in ascending order.
    ///
    /// # Errors
    /// Fails if a sector can't be read, if a map is damaged, if a system call fails, or with the error of `take`.
    pub(super) fn each_part(
        &self,
        media: &mut Media,
        progress: &mut CopyProgress<'_>,
        take: TakePart<'_>,
    ) -> Result<(), PlatformError> {
        for arena in &self.arenas {
            let (sector, internal) =
                (u64::from(arena.geometry.sector_size()), u64::from(arena.geometry.internal_lbasize()));
            let mut first = 0;
            while first < u64::from(arena.geometry.external_nlba()) {
                let entries = self.entries(media, arena, first)?;
                for run in self.runs(arena, first, &entries)? {
                    let off = arena.start + arena.geometry.dataoff() + run.block * internal;
                    let len = run.count * sector;
                    if media.next_data(self.region, off..off + len)?.is_none() {
                        continue;
                    }
                    let bytes = media.bytes(self.region, off, len)?;
                    take(arena.user_off + run.lba * sector, &bytes)?;
                }
                first += entries.len() as u64;
                progress.advance(entries.len() as u64 * sector)?;
            }
        }
        Ok(())
    }

    /// Replaces the user's data by that of a file with the same length.
    ///
    /// # Errors
    /// Fails if a map is damaged, or if a system call fails.
    pub(super) fn write(
        &self,
        media: &mut Media,
        staged: &Staged,
        file: &File,
        path: &Path,
        progress: &mut CopyProgress<'_>,
    ) -> Result<(), PlatformError> {
        for arena in &self.arenas {
            let sector = u64::from(arena.geometry.sector_size());
            let mut first = 0;
            while first < u64::from(arena.geometry.external_nlba()) {
                let entries = self.entries(media, arena, first)?;
                let mut map = Vec::with_capacity(entries.len() * BttMapEntry::LEN as usize);
                let at_once = (sparse::PART / sector) as usize;
                for (part, lba) in entries.chunks(at_once).zip((first..).step_by(at_once)) {
                    let off = arena.user_off + lba * sector;
                    let bytes = read_part(file, off, part.len() as u64 * sector)
                        .map_err(|error| FileError { what: "reading", path: path.to_owned(), error })?;
                    self.write_part(media, arena, staged, (lba, part), &bytes, &mut map)?;
                }
                let off = arena.start + arena.geometry.mapoff() + first * BttMapEntry::LEN;
                staged.write(self.region, off, &map)?;
                first += entries.len() as u64;
                progress.advance(entries.len() as u64 * sector)?;
            }
        }
        Ok(())
    }

    /// Writes sectors to their blocks, and appends the new map entries to `map`. Sectors of zeros are marked if the kernel can
    /// read marked ones of this size. Otherwise they are written, but not to holes.
    fn write_part(
        &self,
        media: &mut Media,
        arena: &Arena,
        staged: &Staged,
        (first, entries): (u64, &[BttMapEntry]),
        bytes: &[u8],
        map: &mut Vec<u8>,
    ) -> Result<(), PlatformError> {
        let geometry = &arena.geometry;
        let sector_size = geometry.sector_size() as usize;
        let can_mark = geometry.sector_size() >= MARKED_MIN;
        let sectors = bytes.chunks_exact(sector_size);
        // The image has no metadata, so that of a replaced sector is cleared.
        let metadata = (geometry.external_lbasize() as usize - sector_size).min(METADATA_MAX);
        let mut block = vec![0; sector_size + metadata];
        let numbers = || entries.iter().zip(first as u32..).map(|(entry, lba)| arena.block(lba, *entry));
        let span = numbers().min().unwrap_or(0)..numbers().max().map_or(0, |last| last + 1);
        let may_have_data = !can_mark && media.next_data(self.region, arena.range(span))?.is_some();
        for ((entry, lba), sector) in entries.iter().zip(first as u32..).zip(sectors) {
            let number = arena.block(lba, *entry);
            let is_zero = sector.iter().all(|byte| *byte == 0);
            let place = arena.range(number..number + 1);
            let is_written =
                !is_zero || may_have_data && media.next_data(self.region, place.clone())?.is_some();
            if is_written {
                block[..sector_size].copy_from_slice(sector);
                staged.write(self.region, place.start, &block)?;
            }
            let state = match entry.state {
                _ if is_zero && can_mark => BttBlockState::Zero,
                // A hole stays as it was when the table was new.
                BttBlockState::Initial if !is_written && number == lba => BttBlockState::Initial,
                _ => BttBlockState::Normal,
            };
            map.extend(BttMapEntry { state, number }.encode());
        }
        Ok(())
    }

    /// Returns the map entries of an arena from sector `first` on.
    fn entries(
        &self,
        media: &mut Media,
        arena: &Arena,
        first: u64,
    ) -> Result<Vec<BttMapEntry>, PlatformError> {
        let count = (u64::from(arena.geometry.external_nlba()) - first).min(ENTRIES);
        let off = arena.start + arena.geometry.mapoff() + first * BttMapEntry::LEN;
        let bytes = media.bytes(self.region, off, count * BttMapEntry::LEN)?;
        let entries: Vec<BttMapEntry> =
            bytes.as_chunks::<4>().0.iter().map(|bytes| BttMapEntry::decode(*bytes)).collect();
        for (entry, lba) in entries.iter().zip(first as u32..) {
            let (found, internal_nlba) = (arena.block(lba, *entry), arena.geometry.internal_nlba());
            if found >= internal_nlba {
                let error = lode_nvdimm::BttDamage::MapNumber { lba, found, internal_nlba };
                return Err(BttError::Arena { name: self.name.clone(), arena: arena.number, error }.into());
            }
        }
        Ok(entries)
    }

    /// Returns the longest runs of these sectors that have data.
    fn runs(&self, arena: &Arena, first: u64, entries: &[BttMapEntry]) -> Result<Vec<Run>, PlatformError> {
        let sector_size = u64::from(arena.geometry.sector_size());
        let is_dense = arena.geometry.sector_size() == arena.geometry.internal_lbasize();
        let count_max = if is_dense { sparse::PART / sector_size } else { 1 };
        let mut runs: Vec<Run> = Vec::new();
        for (entry, lba) in entries.iter().zip(first..) {
            match entry.state {
                BttBlockState::Zero => continue,
                BttBlockState::Error => {
                    let sector = arena.user_off / sector_size + lba;
                    let fault = ImageErrorKind::LostSector { name: self.name.clone(), sector };
                    return Err(ImageError::of(&self.name, fault).into());
                }
                BttBlockState::Initial | BttBlockState::Normal => {}
            }
            let block = u64::from(arena.block(lba as u32, *entry));
            match runs.last_mut() {
                Some(run)
                    if run.count < count_max
                        && (run.lba + run.count, run.block + run.count) == (lba, block) =>
                {
                    run.count += 1;
                }
                _ => runs.push(Run { lba, block, count: 1 }),
            }
        }
        Ok(runs)
    }
}

/// Reads a range of a file without reading holes. Bytes past the end of the file are zeros.
fn read_part(file: &File, off: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    if sparse::next_data(file, off..off + len)?.is_some() {
        let inside = file.metadata()?.len().saturating_sub(off).min(len);
        file.read_exact_at(&mut bytes[..inside as usize], off)?;
    }
    Ok(bytes)
}

impl Arena {
    /// Returns the block of a sector, after the flog's unfinished write, which an open of the BTT would complete.
    fn block(&self, lba: u32, entry: BttMapEntry) -> u32 {
        let block = entry.block(lba);
        match self.unfinished.get(&lba) {
            Some((old, new)) if *old == block => *new,
            _ => block,
        }
    }

    /// Returns the place of these blocks in the region.
    fn range(&self, blocks: Range<u32>) -> Range<u64> {
        let internal = u64::from(self.geometry.internal_lbasize());
        let start = self.start + self.geometry.dataoff();
        start + u64::from(blocks.start) * internal..start + u64::from(blocks.end) * internal
    }
}
