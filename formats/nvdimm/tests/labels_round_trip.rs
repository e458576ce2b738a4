//! Tests that labels of every version survive a round trip through an area, and that no bytes make reading panic.

use lode_nvdimm::{
    Abstraction, CxlNamespaceLabel, CxlRegionLabel, IndexDamage, Label, LabelArea, LabelDamage, LabelError,
    LabelFlags, LabelFormat, LabelGeometry, LabelName, LabelUpdate, NamespaceLabel, PERSISTENT_MEMORY,
    store_fletcher64,
};
use proptest::prelude::*;
use uuid::Uuid;

const SIZE: u64 = 4096;
const FORMATS: [LabelFormat; 3] = [LabelFormat::V1_1, LabelFormat::V1_2, LabelFormat::V2_1];

fn apply(bytes: &mut [u8], update: &LabelUpdate) -> LabelArea {
    update.writes.iter().for_each(|write| write.apply(bytes));
    let area = LabelArea::read(bytes).expect("an update leaves an area");
    assert_eq!(area, update.after);
    area
}

fn formatted(format: LabelFormat) -> (Vec<u8>, LabelArea) {
    let mut bytes = vec![0; SIZE as usize];
    let area = apply(&mut bytes, &LabelArea::format(SIZE, format).expect("a size"));
    (bytes, area)
}

/// Returns a label of a namespace that an area of `format` can hold, in page `page` of the module.
fn label(format: LabelFormat, uuid: u128, page: u64) -> Label {
    let guids = format != LabelFormat::V1_1;
    Label::Namespace(NamespaceLabel {
        uuid: Uuid::from_u128(uuid),
        name: LabelName::NONE,
        flags: LabelFlags::default(),
        label_count: 1,
        position: 0,
        set_cookie: 1,
        lba_size: 0,
        dpa: page * 4096,
        raw_size: 4096,
        alignment: 0,
        type_guid: if guids { PERSISTENT_MEMORY } else { Uuid::nil() },
        abstraction: if guids { Abstraction::Btt } else { Abstraction::None },
    })
}

/// Recomputes the checksum of the 256 bytes at `off`; the checksum is at `at` in them.
fn store_checksum(bytes: &mut [u8], off: usize, at: usize) {
    store_fletcher64(&mut bytes[off..off + 256], at);
}

#[test]
fn area_layout_matches_other_tools() {
    let parts = |size, format| {
        let geometry = LabelGeometry::plan(size, format).unwrap();
        (geometry.index_len(), geometry.slot_count(), geometry.slot(0).start)
    };
    // The 128 KiB of Intel's modules, the label-size=2M of QEMU, and the least size that UEFI allows.
    assert_eq!(parts(128 << 10, LabelFormat::V1_2), (256, 510, 512));
    assert_eq!(parts(128 << 10, LabelFormat::V1_1), (256, 1020, 512));
    assert_eq!(parts(2 << 20, LabelFormat::V1_2), (1280, 8182, 2560));
    assert_eq!(parts(1024, LabelFormat::V1_2), (256, 2, 512));
    assert_eq!(
        LabelGeometry::plan(1023, LabelFormat::V1_2),
        Err(LabelError::AreaTooSmall { size: 1023, size_min: 1024 })
    );
    assert!(matches!(LabelGeometry::plan(1 << 32, LabelFormat::V1_2), Err(LabelError::AreaTooLarge { .. })));
}

#[test]
#[cfg_attr(miri, ignore = "14,000 sizes: a minute")]
fn slots_stay_inside_area() {
    for format in FORMATS {
        for size in (0..300_000).step_by(64) {
            let Ok(geometry) = LabelGeometry::plan(size, format) else { continue };
            let last = geometry.slot(geometry.slot_count() - 1);
            assert!(last.end <= size, "{size} {format}");
            assert!(geometry.index_len() >= 72 + u64::from(geometry.slot_count()).div_ceil(8));
            assert_eq!(geometry.index(1).end, geometry.slot(0).start);
        }
    }
}

#[test]
fn blank_and_foreign_areas_differ() {
    assert_eq!(LabelArea::read(&[0; 4096]), Err(LabelError::Blank));
    assert_eq!(LabelArea::read(&[0xFF; 4096]), Err(LabelError::Blank));
    assert!(matches!(LabelArea::read(&[0; 100]), Err(LabelError::AreaTooSmall { size: 100, .. })));
    let (mut bytes, _) = formatted(LabelFormat::V1_2);
    bytes[0x40] ^= 1;
    assert_eq!(LabelArea::read(&bytes).unwrap().index().which(), 1, "the other one counts");
    bytes[256..512].fill(0);
    let Err(LabelError::NoIndex { first, second }) = LabelArea::read(&bytes) else { panic!() };
    assert!(matches!(first, IndexDamage::Checksum { .. }));
    assert_eq!(second, IndexDamage::Absent);
    bytes[0x3c] = 7;
    store_checksum(&mut bytes, 0, 0x40);
    let Err(error) = LabelArea::read(&bytes) else { panic!() };
    assert_eq!(
        error.to_string(),
        "the label area has no valid index block; the first: it has version 7.2, known are 1.1, 1.2 and 2.1; \
         the second: there is none"
    );
}

#[test]
fn index_block_fields_are_checked() {
    let changes: [(&str, usize, u8); 8] = [
        ("label_size", 0x13, 2),
        ("sequence", 0x14, 4),
        ("my_off", 0x19, 1),
        ("my_size", 0x21, 2),
        ("my_size", 0x21, 0),
        ("other_off", 0x29, 2),
        ("label_off", 0x30, 1),
        ("slot_count", 0x38, 15),
    ];
    for (field, at, value) in changes {
        let (mut bytes, _) = formatted(LabelFormat::V1_2);
        bytes[256..512].fill(0);
        bytes[at] = value;
        store_checksum(&mut bytes, 0, 0x40);
        match LabelArea::read(&bytes) {
            Err(LabelError::NoIndex { first: IndexDamage::Field(contradiction), .. }) => {
                assert_eq!(contradiction.field, field);
            }
            other => panic!("{field} at {at:#x}: {other:?}"),
        }
    }
}

/// Labels of 128 bytes under a version without such labels. Found by fuzzing: the places were mixed up.
#[test]
fn short_labels_have_one_version() {
    let (mut bytes, _) = formatted(LabelFormat::V1_1);
    for block in [0, 256] {
        bytes[block + 0x3e] = 2;
        store_checksum(&mut bytes, block, 0x40);
    }
    match LabelArea::read(&bytes) {
        Err(LabelError::NoIndex { first: IndexDamage::Field(contradiction), .. }) => {
            assert_eq!(contradiction.field, "label_size");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn newer_index_block_wins_after_wraparound() {
    let (mut bytes, mut area) = formatted(LabelFormat::V1_2);
    let mut sequences = vec![area.index().sequence()];
    for page in 1..=7 {
        area = apply(&mut bytes, &area.put(&label(LabelFormat::V1_2, page.into(), page)).unwrap());
        sequences.push(area.index().sequence());
        assert_eq!(area.labels().count(), page as usize);
    }
    assert_eq!(sequences, [3, 1, 2, 3, 1, 2, 3, 1]);
    // Two blocks with the same number, as a careless copy of the area may leave. The second counts, as in the kernel.
    let first = bytes[..256].to_vec();
    bytes[256 + 0x14] = first[0x14];
    store_checksum(&mut bytes, 256, 0x40);
    assert_eq!(LabelArea::read(&bytes).unwrap().index().which(), 1);
}

#[test]
fn damaged_labels_keep_their_slots() {
    let (mut bytes, area) = formatted(LabelFormat::V1_2);
    let area = apply(&mut bytes, &area.put(&label(LabelFormat::V1_2, 1, 1)).unwrap());
    apply(&mut bytes, &area.put(&label(LabelFormat::V1_2, 2, 2)).unwrap());
    bytes[512 + 0x10] ^= 1;
    let area = LabelArea::read(&bytes).unwrap();
    assert_eq!(area.labels().map(|(slot, _)| slot).collect::<Vec<_>>(), [1]);
    assert!(matches!(area.damaged().collect::<Vec<_>>()[..], [(0, LabelDamage::Checksum { .. })]));
    let area = apply(&mut bytes, &area.put(&label(LabelFormat::V1_2, 3, 3)).unwrap());
    assert_eq!(area.labels().map(|(slot, _)| slot).collect::<Vec<_>>(), [1, 2]);
    // A label that was written for another slot, and one with a range that is not of whole pages.
    for (at, field) in [(0x78, "slot"), (0x68, "dpa"), (0x70, "raw_size")] {
        let mut bytes = bytes.clone();
        bytes[768 + at] ^= 8;
        store_checksum(&mut bytes, 768, 0xf8);
        let area = LabelArea::read(&bytes).unwrap();
        match area.damaged().nth(1) {
            Some((1, LabelDamage::Field(contradiction))) => assert_eq!(contradiction.field, field),
            other => panic!("{field}: {other:?}"),
        }
    }
    assert_eq!(area.clear().after.damaged().count(), 0);
}

#[test]
fn unfit_labels_are_refused() {
    let (mut bytes, mut area) = formatted(LabelFormat::V1_2);
    let of = |uuid, page| label(LabelFormat::V1_2, uuid, page);
    area = apply(&mut bytes, &area.put(&of(1, 5)).unwrap());
    assert_eq!(area.put(&of(2, 5)), Err(LabelError::Overlap { with: Uuid::from_u128(1) }));
    assert!(area.put(&of(1, 5)).is_ok(), "a new label of the same namespace");
    assert_eq!(area.remove(Uuid::from_u128(9)), Err(LabelError::Unknown { uuid: Uuid::from_u128(9) }));
    let Label::Namespace(inner) = of(2, 6) else { unreachable!() };
    let crooked = Label::Namespace(NamespaceLabel { raw_size: 100, ..inner });
    assert!(matches!(area.put(&crooked), Err(LabelError::Field(_))));
    let (_, old) = formatted(LabelFormat::V1_1);
    assert_eq!(old.put(&of(1, 1)), Err(LabelError::Format { format: LabelFormat::V1_1 }));
    assert!(LabelName::new(&"x".repeat(63)).is_ok());
    assert_eq!(LabelName::new(&"x".repeat(64)), Err(LabelError::Name { len: 64 }));
    let slot_count = area.index().slot_count();
    assert_eq!(slot_count, 14);
    for uuid in 2..u128::from(slot_count) {
        area = apply(&mut bytes, &area.put(&of(uuid, 10 + uuid as u64)).unwrap());
    }
    assert_eq!(area.put(&of(99, 99)), Err(LabelError::SlotsExhausted { slot_count }));
    area = apply(&mut bytes, &area.put(&of(1, 7)).unwrap());
    assert_eq!(area.labels().count(), 13, "the last slot lets labels change");
}

#[test]
fn overlapping_labels_are_found() {
    let (mut bytes, area) = formatted(LabelFormat::V1_2);
    let area = apply(&mut bytes, &area.put(&label(LabelFormat::V1_2, 1, 1)).unwrap());
    let area = apply(&mut bytes, &area.put(&label(LabelFormat::V1_2, 2, 3)).unwrap());
    assert_eq!(area.overlap(), None);
    // The first grows into the second.
    bytes[512 + 0x71] = 0x30;
    store_checksum(&mut bytes, 512, 0xf8);
    assert_eq!(LabelArea::read(&bytes).unwrap().overlap(), Some((0, 1)));
}

prop_compose! {
    fn namespace(format: LabelFormat)(
        uuid: u128, name: [u8; 32], flags: u32, counts: [u16; 2], words: [u64; 2], pages in 0u64..1 << 40, len in 0u64..1 << 40,
        alignment: u8, guid: u128, known in 0usize..5,
    ) -> Label {
        let guids = format != LabelFormat::V1_1;
        let users = [Abstraction::None, Abstraction::Btt, Abstraction::Btt2, Abstraction::PageMap, Abstraction::DeviceDax];
        let text: String = name.iter().map(|byte| char::from(byte % 94 + 33)).collect();
        Label::Namespace(NamespaceLabel {
            uuid: Uuid::from_u128(uuid),
            name: LabelName::new(&text).expect("32 characters"),
            flags: LabelFlags(flags),
            label_count: counts[0],
            position: counts[1],
            set_cookie: words[0],
            lba_size: words[1],
            dpa: pages * 4096,
            raw_size: len * 4096,
            alignment: if guids { alignment } else { 0 },
            type_guid: if guids { Uuid::from_u128(guid) } else { Uuid::nil() },
            abstraction: if guids { users[known] } else { Abstraction::None },
        })
    }
}

prop_compose! {
    fn cxl()(
        uuid: u128, region: bool, flags: u32, counts: [u16; 2], pages in 0u64..1 << 40, len in 0u64..1 << 40,
        hpa: u64, halves: [u32; 2], other: u128, lba_size: u16,
    ) -> Label {
        let (uuid, flags, position) = (Uuid::from_u128(uuid), LabelFlags(flags), counts[1]);
        let (dpa, raw_size, alignment) = (pages * 4096, len * 4096, halves[0]);
        if region {
            let (label_count, granularity) = (counts[0], halves[1]);
            Label::CxlRegion(CxlRegionLabel {
                uuid, flags, label_count, position, dpa, raw_size, hpa, granularity, alignment,
            })
        } else {
            Label::CxlNamespace(CxlNamespaceLabel {
                uuid, name: LabelName::new("cxl").expect("a short name"), flags, range_count: counts[0], position, dpa, raw_size,
                alignment, region_uuid: Uuid::from_u128(other),
                abstraction: Abstraction::from_uuid(Uuid::from_u128(other)), lba_size,
            })
        }
    }
}

fn any_label() -> impl Strategy<Value = (LabelFormat, Label)> {
    prop_oneof![
        namespace(LabelFormat::V1_1).prop_map(|label| (LabelFormat::V1_1, label)),
        namespace(LabelFormat::V1_2).prop_map(|label| (LabelFormat::V1_2, label)),
        cxl().prop_map(|label| (LabelFormat::V1_2, label)),
        cxl().prop_map(|label| (LabelFormat::V2_1, label)),
    ]
}

proptest! {
    #[test]
    fn labels_round_trip((format, label) in any_label()) {
        let (mut bytes, area) = formatted(format);
        let area = apply(&mut bytes, &area.put(&label).unwrap());
        prop_assert_eq!(area.labels().collect::<Vec<_>>(), [(0, &label)]);
        prop_assert_eq!(area.geometry().format(), format);
    }

    #[test]
    #[cfg_attr(miri, ignore = "tens of seconds in the interpreter")]
    fn decode_never_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..3000), keep_head: bool) {
        let (sound, area) = formatted(LabelFormat::V1_2);
        let sound = apply(&mut sound.clone(), &area.put(&label(LabelFormat::V1_2, 1, 1)).unwrap());
        if keep_head && bytes.len() >= 512 {
            let (fresh, _) = formatted(LabelFormat::V1_2);
            bytes[..512].copy_from_slice(&fresh[..512]);
        }
        if let Ok(area) = LabelArea::read(&bytes) {
            prop_assert_ne!(area, sound);
        }
    }

    /// Damages random bytes of an index block and corrects its checksum. The area is refused, or accepts further
    /// changes.
    #[test]
    fn index_decode_never_panics(changes in prop::collection::vec((0x10usize..0x100, any::<u8>()), 1..12)) {
        let (mut bytes, _) = formatted(LabelFormat::V1_2);
        bytes[256..512].fill(0);
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        store_checksum(&mut bytes, 0, 0x40);
        let Ok(area) = LabelArea::read(&bytes) else { return Ok(()) };
        prop_assert!(area.overlap().is_none());
        if let Ok(update) = area.put(&label(LabelFormat::V1_2, 1, 1)) {
            apply(&mut bytes, &update);
        }
        let area = LabelArea::read(&bytes).unwrap();
        apply(&mut bytes, &area.clear());
    }
}
