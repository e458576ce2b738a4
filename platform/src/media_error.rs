//! Media errors: injected, found by a scrub, and cleared by a write.
//!
//! ```text
//! inject               the medium has the error; the kernel is told, or not (--no-notify)
//! scrub, start         the kernel knows all errors of the medium
//! uninject             the medium is repaired; the kernel still reports the error
//! write, clear         both are cleared
//! ```

use crate::error::PlatformError;
use crate::machine::Handle;
use crate::ndctl::{BadBlocks, SECTOR};
use crate::platform::Platform;
use crate::region::{INTERLEAVE_LINE, Origin, Region};
use crate::state::State;
use lode_nvdimm::Interleave;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::Range;

/// Limit of sectors that are injected or found at a time: lists of bad blocks are made sector by sector.
const SECTORS_MAX: u64 = 65_536;

/// A range of a module's media that can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediaError {
    /// The module.
    pub module: Handle,
    /// Offset of its first byte from the start of the media.
    pub off: u64,
    /// Length in bytes.
    pub len: u64,
}

impl MediaError {
    fn end(self) -> u64 {
        self.off + self.len
    }

    /// Returns the parts of this range outside of `range` of `module`.
    fn without(self, module: Handle, range: &Range<u64>) -> impl Iterator<Item = MediaError> {
        let touched = self.module == module && self.off < range.end && range.start < self.end();
        let parts = if touched {
            [self.off..range.start.max(self.off), range.end.min(self.end())..self.end()]
        } else {
            [self.off..self.end(), 0..0]
        };
        let parts = parts.into_iter().filter(|part| part.start < part.end);
        parts.map(move |part| MediaError { module: self.module, off: part.start, len: part.end - part.start })
    }
}

fn remove(errors: &mut Vec<MediaError>, module: Handle, range: &Range<u64>) {
    *errors = errors.iter().flat_map(|error| error.without(module, range)).collect();
}

/// Adds a range. It replaces the parts of other ranges that it overlaps.
fn add(errors: &mut Vec<MediaError>, new: MediaError) {
    remove(errors, new.module, &(new.off..new.end()));
    errors.push(new);
    errors.sort_unstable();
}

impl State {
    /// Scrubs the media: the kernel learns all errors of the medium.
    pub(crate) fn find_errors(&mut self) {
        for error in self.media_errors.clone() {
            add(&mut self.known_errors, error);
        }
    }

    /// Clears the errors in a range of a module that was written.
    pub(crate) fn clear_errors(&mut self, module: Handle, off: u64, len: u64) {
        for errors in [&mut self.media_errors, &mut self.known_errors] {
            remove(errors, module, &(off..off + len));
        }
    }

    /// Returns the first unreadable byte in a range of a module, and the number of bytes from there on.
    pub(crate) fn unreadable(&self, module: Handle, range: &Range<u64>) -> Option<(u64, u64)> {
        first_lost(self.media_errors.iter().chain(&self.known_errors), module, range)
    }
}

/// Returns the first byte in a range of a module that is among the errors, and the number of bytes from there on.
pub(crate) fn first_lost<'e>(
    errors: impl IntoIterator<Item = &'e MediaError>,
    module: Handle,
    range: &Range<u64>,
) -> Option<(u64, u64)> {
    let of_module = errors.into_iter().filter(|error| error.module == module);
    let parts = of_module.map(|error| error.off.max(range.start)..error.end().min(range.end));
    let first = parts.filter(|part| part.start < part.end).min_by_key(|part| part.start)?;
    Some((first.start, first.end - first.start))
}

/// Action on blocks of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Injection {
    /// Adds the errors to the medium.
    Inject {
        /// True if the kernel is told.
        notify: bool,
    },
    /// Repairs the medium. The kernel still reports the errors.
    Uninject,
    /// Repairs the medium and tells the kernel, like a write to the blocks.
    Clear,
}

impl Platform {
    /// Applies an action to `count` sectors of [`SECTOR`] bytes, from sector `first` of the namespace's data on.
    ///
    /// # Errors
    /// The namespace does not exist, has no modules or fewer sectors. The sectors are more than 65536.
    pub fn inject(
        &mut self,
        name: &str,
        first: u64,
        count: u64,
        injection: Injection,
    ) -> Result<(), PlatformError> {
        let (region, data) = self.data_of(name)?;
        let has = (data.end - data.start) / SECTOR;
        if count > SECTORS_MAX {
            return Err(PlatformError::TooManySectors { count, most: SECTORS_MAX });
        }
        if count == 0 || first.checked_add(count).is_none_or(|end| end > has) {
            return Err(PlatformError::NoSuchSectors { name: name.to_owned(), first, count, has });
        }
        let start = data.start + first * SECTOR;
        let spread = spread(&region)?;
        for (position, member) in (0..).zip(region.members()) {
            let share = spread.share(position, start..start + count * SECTOR);
            let (off, len) = (member.offset + share.start, share.end - share.start);
            if len == 0 {
                continue;
            }
            let error = MediaError { module: member.module, off, len };
            let range = off..error.end();
            match injection {
                Injection::Inject { notify } => {
                    add(&mut self.state.media_errors, error);
                    if notify {
                        add(&mut self.state.known_errors, error);
                    }
                }
                Injection::Uninject => remove(&mut self.state.media_errors, error.module, &range),
                Injection::Clear => self.state.clear_errors(error.module, error.off, error.len),
            }
        }
        Ok(())
    }

    /// Returns the media errors of a namespace as ranges of sectors of its data, known to the kernel or not.
    ///
    /// # Errors
    /// The namespace does not exist, or it has no modules.
    pub fn injected(&self, name: &str) -> Result<Vec<BadBlocks>, PlatformError> {
        let (region, data) = self.data_of(name)?;
        let all = self.blocks_of(&region, &self.state.media_errors).into_iter();
        let (start, end) = (data.start / SECTOR, data.end / SECTOR);
        let clip = |blocks: BadBlocks| {
            let from = blocks.offset.max(start);
            let count = (blocks.offset + blocks.count).min(end).checked_sub(from)?;
            (count > 0).then(|| BadBlocks { offset: from - start, count, modules: blocks.modules })
        };
        Ok(all.filter_map(clip).collect())
    }

    /// Scrubs all modules.
    pub fn scrub(&mut self) {
        self.state.find_errors();
    }

    /// Returns the media errors of a region that the kernel knows.
    pub(crate) fn region_bad_blocks(&self, region: &Region) -> Vec<BadBlocks> {
        self.blocks_of(region, &self.state.known_errors)
    }

    /// Returns the region of a namespace, and the range of its data in the region.
    fn data_of(&self, name: &str) -> Result<(Region, Range<u64>), PlatformError> {
        let (region, namespace) = self.namespace(name)?;
        let end = namespace.offset + namespace.size;
        let reserved = match namespace.personality {
            crate::Personality::PageMap(_) => namespace.size - namespace.usable(),
            _ => 0,
        };
        Ok((region, namespace.offset + reserved..end))
    }

    /// Converts errors to sorted ranges of a region's sectors. Adjacent ranges are merged.
    fn blocks_of(&self, region: &Region, errors: &[MediaError]) -> Vec<BadBlocks> {
        let Origin::Set { share, .. } = region.origin else { return Vec::new() };
        let Ok(spread) = spread(region) else { return Vec::new() };
        // A partly unreadable sector is unreadable.
        let mut lost = BTreeSet::new();
        for (position, member) in (0..).zip(region.members()) {
            let number = self.machine.module_index(member.module).unwrap_or(0) as u32;
            for error in errors.iter().filter(|error| error.module == member.module) {
                let from = error.off.max(member.offset) / SECTOR * SECTOR;
                let end = error.end().min(member.offset + share);
                for at in (from..end).step_by(SECTOR as usize) {
                    let off = spread.region_off(position, at - member.offset);
                    lost.extend(off.map(|off| (off / SECTOR, number)));
                }
            }
        }
        let mut blocks: Vec<BadBlocks> = Vec::new();
        for (offset, module) in lost {
            match blocks.last_mut() {
                Some(last) if last.offset + last.count == offset => {
                    last.count += 1;
                    if !last.modules.contains(&module) {
                        last.modules.push(module);
                        last.modules.sort_unstable();
                    }
                }
                _ => blocks.push(BadBlocks { offset, count: 1, modules: vec![module] }),
            }
        }
        blocks
    }
}

fn spread(region: &Region) -> Result<Interleave, PlatformError> {
    let none = PlatformError::NoModulesBehind { region: region.number };
    let Origin::Set { share, members, .. } = &region.origin else { return Err(none) };
    Interleave::new(members.len() as u16, INTERLEAVE_LINE, *share).map_err(|_| none)
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::goal::GoalRequest;
    use crate::machine::{INCLUDED, Machine};
    use crate::namespace::{CreateNamespace, Mode};
    use uuid::Uuid;

    /// Offset of the region on each module.
    const MIB256: u64 = 256 << 20;

    /// Two modules, interleaved, with a raw namespace.
    fn platform() -> Platform {
        let mut platform = Platform::new(Machine::parse(INCLUDED[4].1).unwrap());
        let goals = platform.plan_goals(&GoalRequest::default()).unwrap();
        platform.create_goals(goals);
        platform.reboot();
        let raw = CreateNamespace { mode: Mode::Raw, ..CreateNamespace::default() };
        platform.create_namespace(&raw, &mut || Uuid::from_u128(7)).unwrap();
        platform
    }

    fn ranges(blocks: &[BadBlocks]) -> Vec<(u64, u64, Vec<u32>)> {
        blocks.iter().map(|blocks| (blocks.offset, blocks.count, blocks.modules.clone())).collect()
    }

    #[test]
    fn errors_lie_on_the_modules_and_come_back_as_ranges_of_the_region() {
        let mut platform = platform();
        // The last sector of the first line, on module 0, and the first ten of the second, on module 1.
        platform.inject("namespace0.0", 7, 11, Injection::Inject { notify: true }).unwrap();
        let modules: Vec<_> =
            platform.state.media_errors.iter().map(|error| (error.off, error.len)).collect();
        assert_eq!(modules, [(MIB256 + 3584, 1536), (MIB256, 4096)]);
        let region = &platform.regions()[0];
        assert_eq!(ranges(&platform.region_bad_blocks(region)), [(7, 11, vec![0, 1])]);
        platform.state.clear_errors(Handle(1), MIB256 + 4096, 512);
        let region = &platform.regions()[0];
        assert_eq!(ranges(&platform.region_bad_blocks(region)), [(7, 9, vec![0, 1]), (17, 1, vec![0])]);
    }

    #[test]
    fn kernels_learn_of_errors_from_firmware_and_from_searching() {
        let mut platform = platform();
        let known = |platform: &Platform| ranges(&platform.region_bad_blocks(&platform.regions()[0]));
        let name = "namespace0.0";
        platform.inject(name, 0, 1, Injection::Inject { notify: false }).unwrap();
        assert!(known(&platform).is_empty());
        assert_eq!(ranges(&platform.injected(name).unwrap()), [(0, 1, vec![0])]);
        platform.scrub();
        assert_eq!(known(&platform), [(0, 1, vec![0])]);
        platform.inject(name, 0, 1, Injection::Uninject).unwrap();
        assert!(platform.injected(name).unwrap().is_empty() && known(&platform).len() == 1);
        platform.reboot();
        assert!(known(&platform).is_empty(), "a new kernel finds a medium that is whole");
        platform.inject(name, 8, 8, Injection::Inject { notify: false }).unwrap();
        platform.reboot();
        assert_eq!(known(&platform), [(8, 8, vec![1])]);
        platform.inject(name, 8, 8, Injection::Clear).unwrap();
        assert!(known(&platform).is_empty() && platform.state.media_errors.is_empty());
    }

    #[test]
    fn only_sectors_that_are_there_are_lost() {
        let mut platform = platform();
        let has = platform.regions()[0].size / SECTOR;
        let inject = Injection::Inject { notify: true };
        for (first, count) in [(has, 1), (has - 1, 2), (u64::MAX, 1), (0, 0)] {
            let refused = platform.inject("namespace0.0", first, count, inject);
            assert!(matches!(refused, Err(PlatformError::NoSuchSectors { .. })), "{refused:?}");
        }
        let refused = platform.inject("namespace0.0", 0, SECTORS_MAX + 1, inject);
        assert!(matches!(refused, Err(PlatformError::TooManySectors { .. })), "{refused:?}");
        platform.inject("namespace0.0", has - 1, 1, inject).unwrap();
        assert!(platform.inject("namespace9.9", 0, 1, inject).is_err());
    }
}
