//! Bad blocks of regions and namespaces, as ndctl counts and lists them.

use super::inventory::{BadBlocks, NdNamespace, NdPersonality, NdRegion, SECTOR};
use crate::listing::{Fields, Json};
use std::ops::Range;

/// Bad blocks in a listing.
#[derive(Debug, Default)]
pub(super) struct Errors {
    /// Number of bad sectors.
    pub(super) sectors: u64,
    /// The ranges; `None` if they are not requested or there are none.
    pub(super) listed: Option<Vec<Json>>,
}

impl Errors {
    fn of(blocks: &[BadBlocks], list: bool) -> Errors {
        let listed = (list && !blocks.is_empty()).then(|| blocks.iter().map(json).collect());
        Errors { sectors: blocks.iter().map(|range| range.count).sum(), listed }
    }
}

fn json(blocks: &BadBlocks) -> Json {
    let mut fields = Fields::default();
    fields.add("offset", Json::Number(blocks.offset as i64));
    fields.add("length", Json::Number(blocks.count as i64));
    if !blocks.modules.is_empty() {
        let names = blocks.modules.iter().map(|module| Json::text(format!("nmem{module}")));
        fields.add("dimms", Json::Array(names.collect()));
    }
    Json::Object(fields.into())
}

/// Returns the bad blocks of a region. If ranges are requested and its address is unknown, ndctl prints neither ranges
/// nor count.
pub(super) fn region_errors(region: &NdRegion, list: bool) -> Errors {
    if list && region.base.is_none() { Errors::default() } else { Errors::of(&region.bad_blocks, list) }
}

/// Returns the bad blocks of a namespace: those of its region in its range, or those of its block device if the range
/// is unknown. In raw mode ndctl reports those of the whole region.
pub(super) fn namespace_errors(namespace: &NdNamespace, region: &NdRegion, list: bool) -> Errors {
    let of_device = || if list { Errors::of(&namespace.bad_blocks, true) } else { Errors::default() };
    match (&namespace.personality, namespace.place) {
        (NdPersonality::Raw | NdPersonality::Legacy, _) => match region_errors(region, list) {
            Errors { sectors: 0, .. } => of_device(),
            errors => errors,
        },
        (NdPersonality::Fsdax(_), None) => of_device(),
        (NdPersonality::Devdax(..) | NdPersonality::Sector { .. }, None) => Errors::default(),
        (personality, Some((start, len))) => {
            let errors = Errors::of(&clipped(region, start..start + len), list);
            let is_sector = matches!(personality, NdPersonality::Sector { .. });
            // ndctl lists no ranges for a BTT, since it does not know their use.
            Errors { listed: errors.listed.filter(|_| !is_sector), ..errors }
        }
    }
}

/// Returns a region's bad blocks in a range of physical addresses, relative to its start.
fn clipped(region: &NdRegion, range: Range<u64>) -> Vec<BadBlocks> {
    let Some(base) = region.base else { return Vec::new() };
    let clip = |blocks: &BadBlocks| {
        let start = (base + blocks.offset * SECTOR).max(range.start);
        let end = (base + (blocks.offset + blocks.count) * SECTOR).min(range.end);
        let count = end.checked_sub(start)? / SECTOR;
        let offset = (start - range.start) / SECTOR;
        (count > 0).then(|| BadBlocks { offset, count, modules: blocks.modules.clone() })
    };
    region.bad_blocks.iter().filter_map(clip).collect()
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::namespace::MapLocation;
    use crate::ndctl::inventory::NdPageMap;
    use uuid::Uuid;

    fn region() -> NdRegion {
        let bad = |offset, count| BadBlocks { offset, count, modules: vec![1] };
        NdRegion { base: Some(0x1000_0000), bad_blocks: vec![bad(8, 2), bad(96, 16)], ..NdRegion::default() }
    }

    fn namespace(personality: NdPersonality, place: Option<(u64, u64)>) -> NdNamespace {
        let bad_blocks = vec![BadBlocks { offset: 5, count: 3, modules: Vec::new() }];
        NdNamespace { personality, place, bad_blocks, ..NdNamespace::new(0, 0) }
    }

    #[test]
    fn bad_blocks_are_relative_to_device() {
        let map = NdPageMap { uuid: Uuid::nil(), location: Some(MapLocation::Dev), align: None };
        let place = Some((0x1000_0000 + 100 * SECTOR, 8 * SECTOR));
        let fsdax = namespace(NdPersonality::Fsdax(map), place);
        let errors = namespace_errors(&fsdax, &region(), true);
        assert_eq!(errors.sectors, 8);
        let listed = Json::Array(errors.listed.unwrap()).print(false);
        assert!(
            listed.contains("\"offset\":0,\n    \"length\":8,\n    \"dimms\":[\n      \"nmem1\"\n    ]"),
            "{listed}"
        );
        let sector = namespace(NdPersonality::Sector { uuid: Uuid::nil() }, place);
        let errors = namespace_errors(&sector, &region(), true);
        assert!(errors.sectors == 8 && errors.listed.is_none());
        assert_eq!(namespace_errors(&namespace(NdPersonality::Raw, None), &region(), true).sectors, 18);
    }

    #[test]
    fn bad_blocks_fall_back_to_block_device() {
        let region = NdRegion { base: None, ..region() };
        assert_eq!(region_errors(&region, true).sectors, 0);
        assert_eq!(region_errors(&region, false).sectors, 18);
        let raw = namespace(NdPersonality::Raw, None);
        assert_eq!(namespace_errors(&raw, &region, true).sectors, 3);
    }
}
