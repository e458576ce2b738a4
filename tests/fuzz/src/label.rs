//! The label storage area of a module: any bytes give an error or an area that can be changed.

use lode_nvdimm::{
    Abstraction, CxlNamespaceLabel, CxlRegionLabel, Label, LabelArea, LabelFlags, LabelFormat, LabelName,
    LabelUpdate, NamespaceLabel, PERSISTENT_MEMORY, StoredIndex, StoredLabel, store_fletcher64,
};
use uuid::Uuid;

/// Bytes of the area that is fuzzed. It is small, so most of its bytes have a meaning.
const AREA_LEN: usize = 2048;
/// Bytes of an index block of such an area, and of a label of version 1.2.
const PART_LEN: usize = 256;

/// Reads the bytes as they are, and again with a valid checksum in every index block and label, as a hostile writer
/// could leave them.
pub fn run(data: &[u8]) {
    check(&mut data.to_vec());
    let mut area = vec![0; AREA_LEN];
    let len = data.len().min(AREA_LEN);
    area[..len].copy_from_slice(&data[..len]);
    for (number, part) in area.chunks_mut(PART_LEN).enumerate() {
        store_fletcher64(part, if number < 2 { 0x40 } else { 0xf8 });
    }
    check(&mut area);
}

/// Reads `bytes`, and changes the area if they hold one.
fn check(bytes: &mut [u8]) {
    let formats = [LabelFormat::V1_1, LabelFormat::V1_2];
    assert!(formats.iter().all(|format| {
        StoredLabel::read(bytes, *format).is_some() == (bytes.len() as u64 >= format.label_len())
    }));
    let area = match LabelArea::read(bytes) {
        Ok(area) => area,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert!(
        StoredIndex::read(&bytes[area.geometry().index(area.index().which()).start as usize..]).is_some()
    );
    let labels: Vec<Label> = area.labels().map(|(_, label)| *label).collect();
    assert!(area.damaged().all(|(_, damage)| !damage.to_string().is_empty()));
    let _ = area.overlap();
    for label in labels {
        let area = LabelArea::read(bytes).expect("it was one before");
        if let Ok(update) = area.put(&label) {
            assert!(apply(bytes, &update).labels().any(|(_, found)| *found == label));
        }
    }
    let area = LabelArea::read(bytes).expect("it was one before");
    assert_eq!(apply(bytes, &area.clear()).labels().count(), 0);
}

/// Applies `update`, and reads the area again.
fn apply(bytes: &mut [u8], update: &LabelUpdate) -> LabelArea {
    update.writes.iter().for_each(|write| write.apply(bytes));
    let area = LabelArea::read(bytes).expect("an update leaves an area");
    assert_eq!(area, update.after);
    area
}

/// Returns a label of each kind.
fn labels() -> [Label; 3] {
    let uuid = Uuid::from_u128(0x5a);
    let name = LabelName::new("seed").unwrap_or(LabelName::NONE);
    let flags = LabelFlags::UPDATING;
    let (dpa, raw_size, position) = (1 << 28, 1 << 30, 1);
    let abstraction = Abstraction::PageMap;
    let namespace = NamespaceLabel {
        uuid,
        name,
        flags,
        label_count: 2,
        position,
        set_cookie: 0x8baa_eeb8_535e_2444,
        lba_size: 512,
        dpa,
        raw_size,
        alignment: 0,
        type_guid: PERSISTENT_MEMORY,
        abstraction,
    };
    let cxl = CxlNamespaceLabel {
        uuid,
        name,
        flags,
        range_count: 1,
        position,
        dpa,
        raw_size,
        alignment: 1,
        region_uuid: uuid,
        abstraction,
        lba_size: 512,
    };
    let region = CxlRegionLabel {
        uuid,
        flags,
        label_count: 2,
        position,
        dpa,
        raw_size,
        hpa: 1 << 40,
        granularity: 0,
        alignment: 1,
    };
    [Label::Namespace(namespace), Label::CxlNamespace(cxl), Label::CxlRegion(region)]
}

/// Returns areas of each version, both new ones and ones with a label.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let [namespace, cxl, region] = labels();
    let Label::Namespace(inner) = namespace else { return Vec::new() };
    let old = NamespaceLabel { type_guid: Uuid::nil(), abstraction: Abstraction::None, ..inner };
    let area = |format, label: &Label| -> Option<Vec<u8>> {
        let mut bytes = vec![0; AREA_LEN];
        let area = apply(&mut bytes, &LabelArea::format(AREA_LEN as u64, format).ok()?);
        apply(&mut bytes, &area.put(label).ok()?);
        Some(bytes)
    };
    [
        ("labels-1.1", area(LabelFormat::V1_1, &Label::Namespace(old))),
        ("labels-1.2", area(LabelFormat::V1_2, &namespace)),
        ("labels-cxl", area(LabelFormat::V2_1, &cxl)),
        ("labels-cxl-region", area(LabelFormat::V2_1, &region)),
    ]
    .into_iter()
    .filter_map(|(name, bytes)| Some((name, bytes?)))
    .collect()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn seeds_are_valid_label_areas() {
        assert_eq!(seeds().len(), 4);
        for (name, mut bytes) in seeds() {
            assert_eq!(LabelArea::read(&bytes).map(|area| area.labels().count()), Ok(1), "{name}");
            bytes[0x40] ^= 1;
            bytes[PART_LEN + 0x40] ^= 1;
            assert!(LabelArea::read(&bytes).is_err(), "{name}");
            bytes.chunks_mut(PART_LEN).take(2).for_each(|part| store_fletcher64(part, 0x40));
            assert_eq!(LabelArea::read(&bytes).map(|area| area.labels().count()), Ok(1), "{name}");
        }
    }
}
