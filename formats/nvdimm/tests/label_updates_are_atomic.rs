//! Tests that an area reads as before or as after an update, for every part of the update that arrives.

use lode_nvdimm::{
    Abstraction, Label, LabelArea, LabelError, LabelFlags, LabelFormat, LabelName, LabelUpdate, LabelWrite,
    NamespaceLabel, PERSISTENT_MEMORY,
};
use uuid::Uuid;

const SIZE: u64 = 4096;

/// Returns a label of the namespace `number`, which has the `number`th GiB of the module.
fn label(number: u128) -> Label {
    Label::Namespace(NamespaceLabel {
        uuid: Uuid::from_u128(number << 64 | 0xABCD),
        name: LabelName::new("a name").expect("a short name"),
        flags: LabelFlags::default(),
        label_count: 2,
        position: 1,
        set_cookie: 0x8baa_eeb8_535e_2444,
        lba_size: 512,
        dpa: (number as u64) << 30,
        raw_size: 1 << 30,
        alignment: 0,
        type_guid: PERSISTENT_MEMORY,
        abstraction: Abstraction::PageMap,
    })
}

/// Returns the parts of `write` that a power cut may leave: each prefix, each suffix, and every other line and word.
fn torn(write: &LabelWrite) -> Vec<Vec<bool>> {
    let len = write.bytes.len();
    let beginnings = (0..=len).map(|cut| (0..len).map(|at| at < cut).collect());
    let ends = (0..=len).map(|cut| (0..len).map(|at| at >= cut).collect());
    let combs = [8, 16, 64, 128]
        .into_iter()
        .flat_map(|unit| [0, 1].map(|odd| (0..len).map(|at| at / unit % 2 == odd).collect()));
    beginnings.chain(ends).chain(combs).collect()
}

/// Cuts the power in each of `writes`, begun on `bytes`. Passes the remaining bytes to `check`, with the number of
/// writes that completed before the cut.
fn cuts(bytes: &[u8], writes: &[LabelWrite], mut check: impl FnMut(&[u8], usize)) {
    let mut bytes = bytes.to_vec();
    for (number, write) in writes.iter().enumerate() {
        for arrives in torn(write) {
            let mut left = bytes.clone();
            let place = &mut left[write.off as usize..][..write.bytes.len()];
            for ((byte, new), arrived) in place.iter_mut().zip(&write.bytes).zip(arrives) {
                if arrived {
                    *byte = *new;
                }
            }
            check(&left, number);
        }
        write.apply(&mut bytes);
        check(&bytes, number + 1);
    }
}

/// Checks every cut of `update` on `bytes`, and applies it.
fn run(bytes: &mut [u8], update: &LabelUpdate, what: &str) -> LabelArea {
    let before = LabelArea::read(bytes).expect("an area before");
    let mut seen = [false; 2];
    cuts(bytes, &update.writes, |left, done| {
        let found = LabelArea::read(left).unwrap_or_else(|error| panic!("{what}: {error}"));
        let is_after = found == update.after;
        assert!(is_after || found == before, "{what}, after {done} writes: {found:?}");
        assert!(is_after || done < update.writes.len(), "{what}: all is written and it reads as before");
        seen[usize::from(is_after)] = true;
    });
    assert_eq!(seen, [true; 2], "{what}: both were left by some cut");
    update.writes.iter().for_each(|write| write.apply(bytes));
    LabelArea::read(bytes).expect("an area after")
}

#[test]
#[cfg_attr(miri, ignore = "thousands of areas are read: minutes")]
fn torn_updates_read_old_or_new() {
    let mut bytes = vec![0; SIZE as usize];
    let format = LabelArea::format(SIZE, LabelFormat::V1_2).unwrap();
    format.writes.iter().for_each(|write| write.apply(&mut bytes));
    let mut area = LabelArea::read(&bytes).unwrap();
    let uuid = |number| label(number).uuid();
    // Enough rounds for the sequence numbers to repeat twice and for slots to be reused.
    for round in 1..=3 {
        let Label::Namespace(inner) = label(1) else { unreachable!() };
        let updating = Label::Namespace(NamespaceLabel { flags: LabelFlags::UPDATING, ..inner });
        area = run(&mut bytes, &area.put(&updating).unwrap(), "first label");
        area = run(&mut bytes, &area.put(&label(1)).unwrap(), "label replaced");
        area = run(&mut bytes, &area.put(&label(round + 10)).unwrap(), "another label");
        area = run(&mut bytes, &area.remove(uuid(1)).unwrap(), "label removed");
        assert_eq!(area.labels().count(), round as usize);
    }
    area = run(&mut bytes, &area.clear(), "cleared");
    assert_eq!(area.labels().count(), 0);
}

#[test]
#[cfg_attr(miri, ignore = "thousands of areas are read: minutes")]
fn formatting_is_atomic() {
    for format in [LabelFormat::V1_1, LabelFormat::V1_2, LabelFormat::V2_1] {
        let update = LabelArea::format(SIZE, format).unwrap();
        let mut bytes = vec![0; SIZE as usize];
        cuts(&bytes.clone(), &update.writes, |left, done| match LabelArea::read(left) {
            Ok(found) => assert_eq!(found, update.after),
            Err(LabelError::Blank | LabelError::NoIndex { .. }) => assert_eq!(done, 0, "{format}"),
            Err(error) => panic!("{error}"),
        });
        update.writes.iter().for_each(|write| write.apply(&mut bytes));
        let area = LabelArea::read(&bytes).unwrap();
        assert_eq!(area, update.after);
        let erase = area.erase();
        cuts(&bytes, &erase, |left, done| match LabelArea::read(left) {
            Ok(found) => assert!(found == area && done < 2),
            Err(LabelError::Blank | LabelError::NoIndex { .. }) => assert!(done >= 1, "{format}"),
            Err(error) => panic!("{error}"),
        });
    }
}
