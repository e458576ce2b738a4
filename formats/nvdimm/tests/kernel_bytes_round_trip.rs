//! Label areas and info blocks that Linux 6.1 and ndctl 76 wrote on modules of QEMU. The tests compare them with
//! ndctl's listing, and encode them again byte for byte.
//!
//! The guest ran `ndctl init-labels -V 1.2 nmem0` and `-V 1.1 nmem1` on two modules of 128 MiB with label areas of
//! 128 KiB, and then `ndctl create-namespace` with `-m fsdax`, `-m sector`, `-m devdax` and `-m raw` on the first,
//! `-m sector -l 4096` and `-m fsdax -M mem` on the second. Zeros at the end of an area are left out.

use lode_nvdimm::{
    Abstraction, BttBlockCheck, BttDialect, BttFlog, BttFlogSlots, BttGeometry, BttInfo, BttVersion, Label,
    LabelArea, LabelFlags, LabelFormat, NamespaceLabel, PERSISTENT_MEMORY, PageMapInfo, PageMapLocation,
    PageMapRule, PageMapUser, SetInfo, set_cookie, set_cookie_v1_1,
};
use std::collections::BTreeMap;
use std::ops::Range;
use uuid::Uuid;

const AREA_LEN: usize = 128 << 10;
const MIB: u64 = 1 << 20;

fn area(bytes: &[u8]) -> Vec<u8> {
    let mut area = bytes.to_vec();
    area.resize(AREA_LEN, 0);
    area
}

/// Returns the UUID that the guest's script gave to namespace `number`.
fn namespace(number: u128) -> Uuid {
    Uuid::from_u128(0x1111_1111_2222_4333_8444_5555_5555_5500 | number)
}

fn only_module(id: &str) -> [SetInfo; 1] {
    [SetInfo { region_off: 0, module: id.parse().expect("an id") }]
}

/// Returns label, name, user, start and size in MiB, in the order of the ranges.
fn listed(area: &LabelArea) -> Vec<(Uuid, String, Abstraction, u64, u64)> {
    let mut list: Vec<_> = area
        .labels()
        .map(|(_, label)| {
            let Label::Namespace(label) = label else { panic!("{label:?}") };
            let NamespaceLabel { uuid, name, abstraction, dpa, raw_size, .. } = label;
            (*uuid, name.text().into_owned(), *abstraction, dpa / MIB, raw_size / MIB)
        })
        .collect();
    list.sort_by_key(|(_, _, _, start, _)| *start);
    list
}

/// Writes every label again into its slot, and the current index block, and compares the bytes.
fn assert_same_bytes_written(bytes: &[u8]) {
    let area = LabelArea::read(bytes).expect("an area");
    let of = |place: Range<u64>| &bytes[place.start as usize..place.end as usize];
    let labels: BTreeMap<u32, Label> = area.labels().map(|(slot, label)| (slot, *label)).collect();
    let slots = labels.keys().last().expect("a label") + 1;
    let mut again = area.clear().after;
    for slot in 0..slots {
        let label = labels.get(&slot).copied();
        // Takes a slot that the kernel left free, so that the next labels get their old slots.
        let update = again.put(&label.unwrap_or(missing(&area))).expect("room");
        let place = area.geometry().slot(slot);
        assert_eq!(update.writes[0].off, place.start);
        assert!(label.is_none() || update.writes[0].bytes == of(place), "slot {slot}");
        again = update.after;
    }
    // After twelve changes the block has the same place and the same sequence number again.
    let (mut index, mut again) = (Vec::new(), area.clone());
    for _ in 0..6 {
        let update =
            again.put(&missing(&area)).expect("room").after.remove(Uuid::nil()).expect("it is there");
        index = update.writes[0].bytes.clone();
        again = update.after;
    }
    assert_eq!(index, of(area.geometry().index(area.index().which())));
}

/// Returns a label that is not in the area.
fn missing(area: &LabelArea) -> Label {
    let Some((_, Label::Namespace(label))) = area.labels().next() else { panic!("a label") };
    Label::Namespace(NamespaceLabel { uuid: Uuid::nil(), dpa: 1 << 40, ..*label })
}

#[test]
#[cfg_attr(miri, ignore = "areas of 128 KiB are read again and again: minutes")]
fn labels_1_2() {
    let bytes = area(include_bytes!("kernel/labels-1.2.bin"));
    let area = LabelArea::read(&bytes).unwrap();
    assert_eq!(area.geometry().format(), LabelFormat::V1_2);
    assert_eq!((area.index().slot_count(), area.geometry().index_len()), (510, 256));
    assert_eq!((area.damaged().count(), area.overlap()), (0, None));
    let text = |text: &str| text.to_owned();
    assert_eq!(
        listed(&area),
        [
            (namespace(1), text("kernel fsdax"), Abstraction::PageMap, 0, 32),
            (namespace(2), text("kernel sector"), Abstraction::Btt2, 32, 32),
            (namespace(3), text("kernel devdax"), Abstraction::DeviceDax, 64, 32),
            (namespace(4), text(""), Abstraction::None, 96, 16),
        ]
    );
    let cookie = set_cookie(&only_module("8680-56341200"));
    assert_eq!(cookie, 0xba_9012_0012_b4dc, "what ndctl lists as iset_id");
    for (_, label) in area.labels() {
        let Label::Namespace(label) = label else { panic!("{label:?}") };
        assert_eq!((label.set_cookie, label.type_guid), (cookie, PERSISTENT_MEMORY));
        assert_eq!((label.label_count, label.position, label.flags), (1, 0, LabelFlags::default()));
    }
    assert_same_bytes_written(&bytes);
}

#[test]
#[cfg_attr(miri, ignore = "areas of 128 KiB are read again and again: minutes")]
fn labels_1_1() {
    let bytes = area(include_bytes!("kernel/labels-1.1.bin"));
    let area = LabelArea::read(&bytes).unwrap();
    assert_eq!(area.geometry().format(), LabelFormat::V1_1);
    assert_eq!((area.index().slot_count(), area.damaged().count()), (1020, 0));
    let text = |text: &str| text.to_owned();
    assert_eq!(
        listed(&area),
        [
            (namespace(0x11), text("old sector"), Abstraction::None, 0, 32),
            (namespace(0x12), text("old fsdax"), Abstraction::None, 32, 32),
        ]
    );
    let cookie = set_cookie_v1_1(&only_module("8680-57341200"));
    assert_eq!(cookie, 0x24_68ae_0012_3457, "what ndctl lists as iset_id");
    for (_, label) in area.labels() {
        let Label::Namespace(label) = label else { panic!("{label:?}") };
        assert_eq!(label.set_cookie, cookie);
    }
    assert_same_bytes_written(&bytes);
}

#[test]
fn page_maps() {
    let blocks = [
        (
            &include_bytes!("kernel/page-map-dev.bin")[..],
            PageMapUser::FileSystem,
            PageMapLocation::Namespace,
            1,
        ),
        (
            &include_bytes!("kernel/page-map-mem.bin")[..],
            PageMapUser::FileSystem,
            PageMapLocation::Dram,
            0x12,
        ),
        (&include_bytes!("kernel/device-dax.bin")[..], PageMapUser::Device, PageMapLocation::Namespace, 3),
    ];
    for (bytes, user, place, parent) in blocks {
        let info = PageMapInfo::decode(bytes).unwrap();
        assert_eq!((info.user, info.location, info.parent_uuid), (user, place, namespace(parent)));
        assert_eq!(info.data_len(32 * MIB), 31_457_280, "what ndctl lists as size");
        assert_eq!(info.encode()[..], *bytes);
        let plan = PageMapInfo::plan(user, place, PageMapRule::Pages, 0, 32 * MIB, 2 * MIB).unwrap();
        assert_eq!(PageMapInfo { uuid: info.uuid, parent_uuid: info.parent_uuid, ..plan }, info);
    }
}

#[test]
fn block_translation_tables() {
    let blocks = [
        (&include_bytes!("kernel/btt-1.1.bin")[..], BttVersion::V1_1, 0x11, 32_440_320),
        (&include_bytes!("kernel/btt-2.0.bin")[..], BttVersion::V2_0, 2, 32_444_416),
    ];
    for (bytes, version, parent, size) in blocks {
        let info = BttInfo::decode(bytes).unwrap();
        assert_eq!((info.version, info.parent_uuid), (version, namespace(parent)));
        assert_eq!(info.encode()[..], *bytes);
        let plan = BttGeometry::plan(32 * MIB, 4096, version).unwrap();
        assert_eq!(plan, [(version.arenas_off(), info.geometry)]);
        assert_eq!(info.geometry.capacity(), size, "what ndctl lists as size");
    }
}

/// Map and flog that fit the kernel's info blocks. The map is all zeros. Each 64 bytes of the flog hold one entry,
/// which gives the lane a free block after the last block that the user sees.
#[test]
#[cfg_attr(miri, ignore = "tens of seconds in the interpreter")]
fn flog_of_new_btt() {
    for (bytes, free) in
        [(&include_bytes!("kernel/btt-1.1.bin")[..], 7920), (&include_bytes!("kernel/btt-2.0.bin")[..], 7921)]
    {
        let geometry = BttInfo::decode(bytes).unwrap().geometry;
        let mut expected = vec![0; 256 * 64];
        for (lane, group) in (0u32..).zip(expected.chunks_mut(64)) {
            let words = [lane, free + lane, free + lane, 1].map(u32::to_le_bytes);
            group[..16].copy_from_slice(words.as_flattened());
        }
        let flog = BttFlog::new(&geometry, BttDialect::Kernel);
        assert_eq!(flog.encode(), expected);
        assert_eq!(geometry.infooff() - geometry.flogoff(), expected.len() as u64);
        assert_eq!(BttFlog::decode(&expected, &geometry), Ok(flog.clone()));
        assert_eq!(flog.slots(), BttFlogSlots::FirstAndSecond);
        let mut check = BttBlockCheck::new(&geometry, &flog).unwrap();
        check.map(&vec![0; (geometry.flogoff() - geometry.mapoff()) as usize]).unwrap();
        check.finish().unwrap();
    }
}
