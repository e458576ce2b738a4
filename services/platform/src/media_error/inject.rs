//! Injection of media errors, and their lists in sectors.

use super::error::MediaFault;
use super::range::{MediaError, add, remove};
use crate::error_log::FoundBy;
use crate::namespace::Personality;
use crate::ndctl::inventory::{BadBlocks, SECTOR};
use crate::nmem;
use crate::platform::Platform;
use crate::region::Region;
use lode_nvdimm::Interleave;
use std::collections::BTreeSet;
use std::ops::Range;

/// Limit of sectors that are injected or found at a time: lists of bad blocks are made sector by sector.
const SECTORS_MAX: u64 = 65_536;

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

/// Applies an action to `count` sectors of [`SECTOR`] bytes, from sector `first` of the namespace's data on.
///
/// # Errors
/// Fails if the namespace does not exist, has no modules or has fewer sectors, or if the sectors are more than 65536.
pub fn inject(
    platform: &mut Platform,
    name: &str,
    first: u64,
    count: u64,
    injection: Injection,
) -> Result<(), MediaFault> {
    let (region, data) = data_of(platform, name)?;
    check_bus(&region)?;
    let has = (data.end - data.start) / SECTOR;
    if count > SECTORS_MAX {
        return Err(MediaFault::TooManySectors { count, most: SECTORS_MAX });
    }
    if count == 0 || first.checked_add(count).is_none_or(|end| end > has) {
        return Err(MediaFault::NoSuchSectors { name: name.to_owned(), first, count, has });
    }
    let start = data.start + first * SECTOR;
    set(platform, &region, start..start + count * SECTOR, injection)
}

/// Checks that errors can be injected and cleared through the bus of a region.
pub(super) fn check_bus(region: &Region) -> Result<(), MediaFault> {
    match region.is_cxl() {
        true => Err(MediaFault::OfCxl { region: region.number }),
        false => Ok(()),
    }
}

/// Applies an action to a range of a region.
///
/// # Errors
/// [`NoModules`](MediaFault::NoModules).
pub(super) fn set(
    platform: &mut Platform,
    region: &Region,
    range: Range<u64>,
    injection: Injection,
) -> Result<(), MediaFault> {
    let spread = interleave_of(region)?;
    for (position, member) in (0..).zip(region.members()) {
        let share = spread.share(position, range.clone());
        let (off, len) = (member.offset + share.start, share.end - share.start);
        if len == 0 {
            continue;
        }
        let error = MediaError { module: member.module, off, len };
        let range = off..error.end();
        match injection {
            Injection::Inject { notify } => {
                add(&mut platform.state.media_errors, error);
                if notify {
                    add(&mut platform.state.known_errors, error);
                    platform.state.log_lost(error, FoundBy::PatrolScrub);
                }
            }
            Injection::Uninject => remove(&mut platform.state.media_errors, error.module, &range),
            Injection::Clear => platform.state.clear_errors(error.module, error.off, error.len),
        }
    }
    Ok(())
}

/// Returns the media errors of a namespace as ranges of sectors of its data, known to the kernel or not.
///
/// # Errors
/// Fails if the namespace does not exist, or it has no modules.
pub fn injected(platform: &Platform, name: &str) -> Result<Vec<BadBlocks>, MediaFault> {
    let (region, data) = data_of(platform, name)?;
    check_bus(&region)?;
    let all = blocks_of(platform, &region, &platform.state.media_errors).into_iter();
    let (start, end) = (data.start / SECTOR, data.end / SECTOR);
    let clip = |blocks: BadBlocks| {
        let from = blocks.offset.max(start);
        let count = (blocks.offset + blocks.count).min(end).checked_sub(from)?;
        (count > 0).then(|| BadBlocks { offset: from - start, count, modules: blocks.modules })
    };
    Ok(all.filter_map(clip).collect())
}

/// Scrubs all modules.
pub fn scrub(platform: &mut Platform) {
    platform.state.find_errors();
}

/// Returns the media errors of a region that the kernel knows.
pub(crate) fn region_bad_blocks(platform: &Platform, region: &Region) -> Vec<BadBlocks> {
    blocks_of(platform, region, &platform.state.known_errors)
}

/// Returns the region of a namespace, and the range of its data in the region.
pub(super) fn data_of(platform: &Platform, name: &str) -> Result<(Region, Range<u64>), MediaFault> {
    let (region, namespace) = platform.namespace(name)?;
    let end = namespace.offset + namespace.size;
    let reserved = match namespace.personality {
        Personality::PageMap(_) => namespace.size - namespace.usable(),
        _ => 0,
    };
    Ok((region, namespace.offset + reserved..end))
}

/// Converts errors to sorted ranges of a region's sectors. Adjacent ranges are merged.
fn blocks_of(platform: &Platform, region: &Region, errors: &[MediaError]) -> Vec<BadBlocks> {
    let share = region.share();
    let Ok(spread) = interleave_of(region) else { return Vec::new() };
    // A partly unreadable sector is unreadable.
    let mut lost = BTreeSet::new();
    for (position, member) in (0..).zip(region.members()) {
        let number = nmem::number(platform, member.module).unwrap_or(0);
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

fn interleave_of(region: &Region) -> Result<Interleave, MediaFault> {
    region.interleave().ok_or(MediaFault::NoModules { region: region.number })
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::boot::reboot;
    use crate::goal::{self, GoalRequest};
    use crate::machine::{Handle, INCLUDED, Machine};
    use crate::namespace::{self, CreateNamespace, Mode};
    use uuid::Uuid;

    /// Offset of the region on each module.
    const MIB256: u64 = 256 << 20;

    /// Two modules, interleaved, with a raw namespace.
    fn platform() -> Platform {
        let mut platform = Platform::new(Machine::parse(INCLUDED[4].1).unwrap());
        let goals = goal::plan(&platform, &GoalRequest::default()).unwrap();
        goal::create(&mut platform, goals);
        reboot(&mut platform);
        let raw = CreateNamespace { mode: Mode::Raw, ..CreateNamespace::default() };
        namespace::create(&mut platform, &raw, &mut || Uuid::from_u128(7)).unwrap();
        platform
    }

    fn ranges(blocks: &[BadBlocks]) -> Vec<(u64, u64, Vec<u32>)> {
        blocks.iter().map(|blocks| (blocks.offset, blocks.count, blocks.modules.clone())).collect()
    }

    #[test]
    fn injected_errors_map_to_region_ranges() {
        let mut platform = platform();
        // The last sector of the first line, on module 0, and the first ten of the second, on module 1.
        inject(&mut platform, "namespace0.0", 7, 11, Injection::Inject { notify: true }).unwrap();
        let modules: Vec<_> =
            platform.state.media_errors.iter().map(|error| (error.off, error.len)).collect();
        assert_eq!(modules, [(MIB256 + 3584, 1536), (MIB256, 4096)]);
        let region = &platform.regions()[0];
        assert_eq!(ranges(&region_bad_blocks(&platform, region)), [(7, 11, vec![0, 1])]);
        platform.state.clear_errors(Handle(1), MIB256 + 4096, 512);
        let region = &platform.regions()[0];
        assert_eq!(ranges(&region_bad_blocks(&platform, region)), [(7, 9, vec![0, 1]), (17, 1, vec![0])]);
    }

    #[test]
    fn errors_are_known_by_notification_or_scrub() {
        let mut platform = platform();
        let known = |platform: &Platform| ranges(&region_bad_blocks(platform, &platform.regions()[0]));
        let name = "namespace0.0";
        inject(&mut platform, name, 0, 1, Injection::Inject { notify: false }).unwrap();
        assert!(known(&platform).is_empty());
        assert_eq!(ranges(&injected(&platform, name).unwrap()), [(0, 1, vec![0])]);
        scrub(&mut platform);
        assert_eq!(known(&platform), [(0, 1, vec![0])]);
        inject(&mut platform, name, 0, 1, Injection::Uninject).unwrap();
        assert!(injected(&platform, name).unwrap().is_empty() && known(&platform).len() == 1);
        reboot(&mut platform);
        assert!(known(&platform).is_empty(), "a new kernel finds a medium that is whole");
        inject(&mut platform, name, 8, 8, Injection::Inject { notify: false }).unwrap();
        reboot(&mut platform);
        assert_eq!(known(&platform), [(8, 8, vec![1])]);
        inject(&mut platform, name, 8, 8, Injection::Clear).unwrap();
        assert!(known(&platform).is_empty() && platform.state.media_errors.is_empty());
    }

    #[test]
    fn injection_outside_namespace_is_refused() {
        let mut platform = platform();
        let has = platform.regions()[0].size / SECTOR;
        let notified = Injection::Inject { notify: true };
        for (first, count) in [(has, 1), (has - 1, 2), (u64::MAX, 1), (0, 0)] {
            let refused = inject(&mut platform, "namespace0.0", first, count, notified);
            assert!(matches!(refused, Err(MediaFault::NoSuchSectors { .. })), "{refused:?}");
        }
        let refused = inject(&mut platform, "namespace0.0", 0, SECTORS_MAX + 1, notified);
        assert!(matches!(refused, Err(MediaFault::TooManySectors { .. })), "{refused:?}");
        inject(&mut platform, "namespace0.0", has - 1, 1, notified).unwrap();
        assert!(inject(&mut platform, "namespace9.9", 0, 1, notified).is_err());
    }
}
