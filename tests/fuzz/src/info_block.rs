//! The info blocks at the start of namespaces: any bytes decode to an error, or to a block that survives a round trip.

use crate::page;
use lode_nvdimm::{
    BttGeometry, BttInfo, BttVersion, InfoBlockError, PageMapInfo, PageMapLocation, PageMapRule, PageMapUser,
    StoredBtt, StoredPageMap, store_fletcher64,
};
use uuid::Uuid;

/// Bytes of an info block.
const LEN: usize = 4096;
/// Bytes of the checksum at the end of a block of either kind.
const SUM_LEN: usize = 8;

/// Reads the bytes as they are, and again with a valid checksum, as a hostile writer could leave them.
pub fn run(data: &[u8]) {
    check(data);
    let mut page = page::<LEN>(data);
    fix_checksum(&mut page);
    check(&page);
}

fn check(bytes: &[u8]) {
    let stored_btt = StoredBtt::read(bytes);
    let stored_map = StoredPageMap::read(bytes);
    match BttInfo::decode(bytes) {
        Ok(info) => {
            assert_eq!(BttInfo::decode(&info.encode()), Ok(info));
            assert!(stored_btt.is_some_and(|stored| stored.is_intact));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match PageMapInfo::decode(bytes) {
        Ok(info) => {
            assert_eq!(PageMapInfo::decode(&info.encode()), Ok(info));
            assert!(stored_map.is_some_and(|stored| stored.is_intact && stored.data_off == info.data_off));
            let size = info.page_count;
            assert!(info.data_len(size) <= size);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Writes the checksum of the other bytes.
fn fix_checksum(page: &mut [u8; LEN]) {
    store_fletcher64(page, LEN - SUM_LEN);
}

fn btt() -> Result<Vec<u8>, InfoBlockError> {
    let (version, is_read_only) = (BttVersion::V1_1, false);
    let mut arenas = BttGeometry::plan(1 << 40, 512, version)?;
    let (_, geometry) = arenas.remove(0);
    let (uuid, parent_uuid) = (Uuid::from_u128(1), Uuid::from_u128(2));
    Ok(BttInfo { uuid, parent_uuid, is_read_only, version, geometry }.encode().to_vec())
}

fn map(user: PageMapUser, rule: PageMapRule) -> Result<Vec<u8>, InfoBlockError> {
    let info = PageMapInfo::plan(user, PageMapLocation::Namespace, rule, 1 << 32, 1 << 36, 2 << 20)?;
    Ok(info.encode().to_vec())
}

/// Returns a block of each kind, and one of an old kernel.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let all = [
        ("btt", btt()),
        ("page-map", map(PageMapUser::FileSystem, PageMapRule::Pages)),
        ("page-map-old", map(PageMapUser::FileSystem, PageMapRule::Sections)),
        ("device-dax", map(PageMapUser::Device, PageMapRule::Pages)),
    ];
    all.into_iter().filter_map(|(name, bytes)| Some((name, bytes.ok()?))).collect()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn seeds_are_valid_info_blocks() {
        assert_eq!(seeds().len(), 4);
        for (name, bytes) in seeds() {
            let is_sound = |page: &[u8]| BttInfo::decode(page).is_ok() || PageMapInfo::decode(page).is_ok();
            let mut page: [u8; LEN] = bytes.try_into().unwrap();
            assert!(is_sound(&page), "{name}");
            page[LEN - 1] ^= 1;
            assert!(!is_sound(&page), "{name}");
            fix_checksum(&mut page);
            assert!(is_sound(&page), "{name}");
        }
    }
}
