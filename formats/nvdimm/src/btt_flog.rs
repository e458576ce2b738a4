//! The flog of an arena: the last write of each lane, and the blocks that are free.
#![doc = include_str!("btt_flog.md")]

use crate::btt_info::FLOG_LANE_LEN;
use crate::btt_map::block_number;
use crate::{BttBlockState, BttDamage, BttDialect, BttGeometry, BttMapEntry};
use lode_layout::format_table;
use lode_layout::format_table::FormatTable;
use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Entries that fit in a lane.
const SLOTS: usize = 4;
/// Bytes of an entry.
const ENTRY_LEN: usize = size_of::<FlogBytes>();
/// The sequence number of the first entry of a lane.
const SEQ_FIRST: u32 = 1;
const SEQ_MAX: u32 = 3;

pub(crate) const TABLE: FormatTable = format_table!("btt_flog", FlogBytes, [lba, old_map, new_map, seq]);

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FlogBytes {
    lba: U32,
    old_map: U32,
    new_map: U32,
    seq: U32,
}

const _: () = assert!(ENTRY_LEN * SLOTS == BttFlog::LANE_LEN as usize);

/// The last write of a lane, or the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BttFlogEntry {
    /// External block that was written.
    pub lba: u32,
    /// The block's former map value, with or without the state bits of a map entry.
    pub old_map: u32,
    /// The block's map value since this write.
    pub new_map: u32,
    /// 1, 2 or 3. It decides which of two entries is the newer one.
    pub seq: u32,
}

impl BttFlogEntry {
    /// Returns the block that is the lane's free block after the write.
    pub fn free_block(&self) -> u32 {
        block_number(self.old_map)
    }

    /// Returns the block that was written. It is free until the entry is written.
    pub fn written_block(&self) -> u32 {
        block_number(self.new_map)
    }

    /// Returns the seq of the entry that follows this one in its lane.
    pub fn next_seq(&self) -> u32 {
        self.seq % SEQ_MAX + 1
    }

    /// Returns the two words of the entry. The entry counts once the second one is stored, which holds seq.
    pub fn words(&self) -> [u64; 2] {
        let word = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        [word(self.lba, self.old_map), word(self.new_map, self.seq)]
    }

    /// Returns the two entries of a lane as they are stored, valid or not.
    pub fn stored_pair(lane: &[u8; FLOG_LANE_LEN as usize]) -> [BttFlogEntry; 2] {
        [0, 1].map(|slot| {
            let entry = FlogBytes::ref_from_prefix(&lane[slot * ENTRY_LEN..]);
            entry.map_or(BttFlogEntry { lba: 0, old_map: 0, new_map: 0, seq: 0 }, |(raw, _)| BttFlogEntry {
                lba: raw.lba.get(),
                old_map: raw.old_map.get(),
                new_map: raw.new_map.get(),
                seq: raw.seq.get(),
            })
        })
    }

    /// Replaces the two entries of a lane by this one alone. The rest of the lane stays.
    pub fn store_alone(&self, lane: &mut [u8; FLOG_LANE_LEN as usize]) {
        lane[..ENTRY_LEN].copy_from_slice(self.words().map(u64::to_le_bytes).as_flattened());
        lane[ENTRY_LEN..2 * ENTRY_LEN].fill(0);
    }

    fn follows(&self, other: &BttFlogEntry) -> bool {
        self.seq == other.next_seq()
    }
}

/// A lane of the flog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BttFlogLane {
    /// The current entry.
    pub current: BttFlogEntry,
    /// Offset of the place for the next entry, in bytes from the start of the lane.
    pub next_off: u64,
}

/// The slots of a lane that hold entries; a lane has four slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BttFlogSlots {
    /// The first and the second, as in UEFI; used for new tables.
    #[default]
    FirstAndSecond,
    /// The first and the third, as in older kernels.
    FirstAndThird,
}

impl BttFlogSlots {
    const fn second(self) -> usize {
        match self {
            BttFlogSlots::FirstAndSecond => 1,
            BttFlogSlots::FirstAndThird => 2,
        }
    }
}

/// The flog of an arena. Each lane of a value of this type has a current entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BttFlog {
    slots: BttFlogSlots,
    lanes: Vec<Pair>,
}

impl BttFlog {
    /// Bytes of a lane in the flog.
    pub const LANE_LEN: u64 = FLOG_LANE_LEN;

    /// Returns the flog of a new arena, as the kernel or PMDK writes it.
    pub fn new(geometry: &BttGeometry, dialect: BttDialect) -> BttFlog {
        let lane = |lane| {
            let free = BttMapEntry { state: BttBlockState::Zero, number: geometry.external_nlba() + lane };
            let free = dialect.flog_word(free);
            [Some(BttFlogEntry { lba: lane, old_map: free, new_map: free, seq: SEQ_FIRST }), None]
        };
        let lanes = (0..geometry.nfree()).map(lane).collect();
        BttFlog { slots: BttFlogSlots::default(), lanes }
    }

    /// Returns the length of an arena's flog in bytes, up to its last lane.
    pub const fn len_of(geometry: &BttGeometry) -> u64 {
        geometry.nfree() as u64 * BttFlog::LANE_LEN
    }

    /// Decodes the flog at the start of `bytes`, in an arena with these parts. Never panics, for any content.
    ///
    /// # Errors
    /// Reports the first lane that breaks the table.
    pub fn decode(bytes: &[u8], geometry: &BttGeometry) -> Result<BttFlog, BttDamage> {
        let len = BttFlog::len_of(geometry);
        let bytes = bytes
            .get(..len as usize)
            .ok_or(BttDamage::FlogTooShort { len: bytes.len() as u64, want: len })?;
        let (slots, lanes) = decode_lanes(bytes, geometry);
        Ok(BttFlog { slots, lanes: lanes.into_iter().collect::<Result<_, _>>()? })
    }

    /// Decodes the flog at the start of `bytes` as far as it is sound. Returns the current entry of each lane, or the
    /// damage of the lane.
    ///
    /// # Errors
    /// Fails if there are fewer bytes than the flog has.
    pub fn salvage(
        bytes: &[u8],
        geometry: &BttGeometry,
    ) -> Result<Vec<Result<BttFlogEntry, BttDamage>>, BttDamage> {
        let len = BttFlog::len_of(geometry);
        let bytes = bytes
            .get(..len as usize)
            .ok_or(BttDamage::FlogTooShort { len: bytes.len() as u64, want: len })?;
        let (slots, lanes) = decode_lanes(bytes, geometry);
        let current = |(lane, pair): (u32, Result<Pair, BttDamage>)| {
            let flog = BttFlog { slots, lanes: vec![pair?] };
            flog.current().next().ok_or(BttDamage::NoEntry { lane })
        };
        Ok((0..).zip(lanes).map(current).collect())
    }

    /// Returns the bytes of a lane that was never used, with this free block. They suit tables with any
    /// [slots](BttFlogSlots).
    pub fn unused_lane(free: u32) -> [u8; FLOG_LANE_LEN as usize] {
        let words = BttFlogEntry { lba: 0, old_map: free, new_map: free, seq: SEQ_FIRST }.words();
        let mut bytes = [0; FLOG_LANE_LEN as usize];
        bytes[..ENTRY_LEN].copy_from_slice(words.map(u64::to_le_bytes).as_flattened());
        bytes
    }

    /// Returns the bytes of the flog, up to its last lane.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.lanes.len() * BttFlog::LANE_LEN as usize);
        for [first, second] in &self.lanes {
            let mut slots = [None; SLOTS];
            slots[0] = *first;
            slots[self.slots.second()] = *second;
            for entry in slots {
                let BttFlogEntry { lba, old_map, new_map, seq } =
                    entry.unwrap_or(BttFlogEntry { lba: 0, old_map: 0, new_map: 0, seq: 0 });
                let words = [lba, old_map, new_map, seq].map(U32::new);
                bytes.extend_from_slice(words.as_bytes());
            }
        }
        bytes
    }

    /// Returns the slots of a lane that hold entries.
    pub fn slots(&self) -> BttFlogSlots {
        self.slots
    }

    /// Returns the current entry of each lane.
    pub fn current(&self) -> impl Iterator<Item = BttFlogEntry> {
        self.lanes().map(|lane| lane.current)
    }

    /// Returns the lanes, in order.
    pub fn lanes(&self) -> impl Iterator<Item = BttFlogLane> {
        let (first_off, second_off) = (0, (self.slots.second() * ENTRY_LEN) as u64);
        self.lanes.iter().filter_map(move |pair| match pair {
            [Some(first), Some(second)] if second.follows(first) => {
                Some(BttFlogLane { current: *second, next_off: first_off })
            }
            [Some(first), _] => Some(BttFlogLane { current: *first, next_off: second_off }),
            [None, second] => second.map(|current| BttFlogLane { current, next_off: first_off }),
        })
    }

    /// Returns the offset of the other place of a lane: entries are written to both places in turn.
    pub fn other_off(&self, off: u64) -> u64 {
        (self.slots.second() * ENTRY_LEN) as u64 - off
    }
}

/// Returns the entries at the four slots of a lane; `None` for a slot of zeros.
fn entries(lane: &[u8]) -> [Option<BttFlogEntry>; SLOTS] {
    std::array::from_fn(|slot| {
        let (raw, _) = FlogBytes::read_from_prefix(lane.get(slot * ENTRY_LEN..)?).ok()?;
        let entry = BttFlogEntry {
            lba: raw.lba.get(),
            old_map: raw.old_map.get(),
            new_map: raw.new_map.get(),
            seq: raw.seq.get(),
        };
        raw.as_bytes().iter().any(|byte| *byte != 0).then_some(entry)
    })
}

/// The entries at the two places of a lane.
type Pair = [Option<BttFlogEntry>; 2];

/// Decodes each lane by itself, once it is known which slots the table uses.
fn decode_lanes(bytes: &[u8], geometry: &BttGeometry) -> (BttFlogSlots, Vec<Result<Pair, BttDamage>>) {
    let lanes = bytes.chunks_exact(FLOG_LANE_LEN as usize);
    let lanes: Vec<[Option<BttFlogEntry>; SLOTS]> = lanes.map(entries).collect();
    // A slot that any lane uses may hold entries in every lane.
    let is_used = |slot: usize| lanes.iter().any(|lane| lane[slot].is_some());
    let slots = if is_used(2) { BttFlogSlots::FirstAndThird } else { BttFlogSlots::FirstAndSecond };
    let padding = [3 - slots.second(), 3];
    let decode = |(number, lane): (u32, &[Option<BttFlogEntry>; SLOTS])| match padding
        .into_iter()
        .find(|slot| lane[*slot].is_some())
    {
        Some(slot) => Err(BttDamage::Padding { lane: number, slot: slot as u32 }),
        None => pair_of(number, [lane[0], lane[slots.second()]], geometry),
    };
    (slots, (0..).zip(&lanes).map(decode).collect())
}

/// Returns the entries of a lane that were written. A power cut may leave the first half of an entry that was never
/// written before: its seq is 0.
fn pair_of(lane: u32, pair: Pair, geometry: &BttGeometry) -> Result<Pair, BttDamage> {
    let is_half = |entry: &BttFlogEntry| entry.seq == 0 && entry.new_map == 0;
    let pair = pair.map(|entry| entry.filter(|entry| !is_half(entry)));
    for entry in pair.iter().flatten() {
        check(lane, entry, geometry)?;
    }
    match pair {
        [Some(first), Some(second)] if first.follows(&second) || second.follows(&first) => Ok(pair),
        [Some(_), Some(_)] => Err(BttDamage::EqualSeq { lane }),
        [None, None] => Err(BttDamage::NoEntry { lane }),
        _ => Ok(pair),
    }
}

/// Checks the fields of an entry one by one.
fn check(lane: u32, entry: &BttFlogEntry, geometry: &BttGeometry) -> Result<(), BttDamage> {
    let (external, internal) = (geometry.external_nlba() - 1, geometry.internal_nlba() - 1);
    let rules = [
        ("lba", entry.lba, 0, external),
        ("old_map", entry.free_block(), 0, internal),
        ("new_map", entry.written_block(), 0, internal),
        ("seq", entry.seq, SEQ_FIRST, SEQ_MAX),
    ];
    match rules.into_iter().find(|(_, found, min, max)| found < min || found > max) {
        Some((field, found, min, max)) => Err(BttDamage::FlogField { lane, field, found, min, max }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::BttVersion;
    use proptest::prelude::*;

    fn geometry() -> BttGeometry {
        BttGeometry::plan(16 << 20, 4096, BttVersion::V2_0).unwrap()[0].1
    }

    #[test]
    fn lane_gets_one_entry_and_keeps_its_rest() {
        let mut lane = [9; FLOG_LANE_LEN as usize];
        let entry = BttFlogEntry { lba: 1, old_map: 2, new_map: 3, seq: 1 };
        entry.store_alone(&mut lane);
        let absent = BttFlogEntry { lba: 0, old_map: 0, new_map: 0, seq: 0 };
        assert_eq!(BttFlogEntry::stored_pair(&lane), [entry, absent]);
        assert!(lane[2 * ENTRY_LEN..].iter().all(|byte| *byte == 9));
    }

    /// Returns the flog of a new arena with these words in slot `slot` of lane 1.
    fn with(slot: usize, words: [u32; 4]) -> Vec<u8> {
        let mut bytes = BttFlog::new(&geometry(), BttDialect::Kernel).encode();
        let at = 64 + slot * ENTRY_LEN;
        bytes[at..at + ENTRY_LEN].copy_from_slice(words.map(U32::new).as_bytes());
        bytes
    }

    #[test]
    #[cfg_attr(miri, ignore = "tens of seconds in the interpreter: in `make soak`")]
    fn new_flog_round_trips() {
        let flog = BttFlog::new(&geometry(), BttDialect::Kernel);
        assert_eq!(BttFlog::decode(&flog.encode(), &geometry()), Ok(flog.clone()));
        let free: Vec<u32> = flog.current().map(|entry| entry.free_block()).collect();
        assert!(free.into_iter().eq(geometry().external_nlba()..geometry().internal_nlba()));
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes in the interpreter: in `make soak`")]
    fn newer_flog_entry_is_current() {
        for (first, second, counts) in [(1, 2, 5), (2, 3, 5), (3, 1, 5), (2, 1, 6), (3, 2, 6), (1, 3, 6)] {
            for (slot, slots) in [(1, BttFlogSlots::FirstAndSecond), (2, BttFlogSlots::FirstAndThird)] {
                let mut bytes = with(0, [6, 6, 7, first]);
                bytes[64 + slot * ENTRY_LEN..][..ENTRY_LEN]
                    .copy_from_slice([5, 8, 9, second].map(U32::new).as_bytes());
                let flog = BttFlog::decode(&bytes, &geometry()).unwrap();
                assert_eq!(flog.current().nth(1).unwrap().lba, counts, "{first} and {second}");
                assert_eq!((flog.slots(), flog.encode()), (slots, bytes));
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "every flipped bit of a flog: minutes")]
    fn invalid_flog_is_refused() {
        let refused = |bytes: &[u8]| BttFlog::decode(bytes, &geometry()).unwrap_err();
        let big = geometry().internal_nlba();
        assert_eq!(refused(&[0; 99]), BttDamage::FlogTooShort { len: 99, want: 256 * 64 });
        assert_eq!(refused(&with(3, [0, 0, 0, 1])), BttDamage::Padding { lane: 1, slot: 3 });
        assert_eq!(refused(&with(1, [1, 1, 1, 1])), BttDamage::EqualSeq { lane: 1 });
        assert_eq!(refused(&with(0, [0; 4])), BttDamage::NoEntry { lane: 1 });
        let fields = [
            ("lba", [big, 1, 1, 2]),
            ("old_map", [1, big, 1, 2]),
            ("new_map", [1, 1, big, 2]),
            ("seq", [1, 1, 1, 4]),
            ("seq", [1, 1, 1, 0]),
        ];
        for (name, words) in fields {
            let found = refused(&with(0, words));
            assert!(matches!(found, BttDamage::FlogField { lane: 1, field, .. } if field == name), "{found}");
        }
        // With both kinds of padding, the second slot counts as padding.
        let mut both = with(1, [1, 1, 1, 2]);
        both[128 + 2 * ENTRY_LEN + 12] = 2;
        assert_eq!(refused(&both), BttDamage::Padding { lane: 1, slot: 1 });
    }

    #[test]
    #[cfg_attr(miri, ignore = "tens of seconds in the interpreter: in `make soak`")]
    fn first_half_of_an_entry_is_no_entry() {
        let bytes = with(1, [5, 8, 0, 0]);
        let flog = BttFlog::decode(&bytes, &geometry()).unwrap();
        assert_eq!(flog, BttFlog::new(&geometry(), BttDialect::Kernel));
        assert_eq!(flog.lanes().nth(1).unwrap().next_off, 16);
        // The words of an entry are its bytes.
        let entry = BttFlogEntry { lba: 5, old_map: 8, new_map: 9, seq: 2 };
        let bytes = entry.words().map(u64::to_le_bytes);
        assert_eq!(bytes.as_flattened(), [5u32, 8, 9, 2].map(U32::new).as_bytes());
    }

    #[test]
    #[cfg_attr(miri, ignore = "tens of seconds in the interpreter: in `make soak`")]
    fn map_entry_flags_are_masked() {
        // The words that PMDK writes for a free block.
        let bytes = with(0, [1, 0x8000_0009, 0xc000_0008, 1]);
        let entry = BttFlog::decode(&bytes, &geometry()).unwrap().current().nth(1).unwrap();
        assert_eq!((entry.free_block(), entry.written_block()), (9, 8));
    }

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "minutes in the interpreter: in `make soak`")]
        fn flog_decode_never_panics(changes in prop::collection::vec((0usize..256 * 64, any::<u8>()), 1..24)) {
            let mut bytes = BttFlog::new(&geometry(), BttDialect::Kernel).encode();
            for (at, byte) in changes {
                bytes[at] = byte;
            }
            if let Ok(flog) = BttFlog::decode(&bytes, &geometry()) {
                let again = BttFlog::decode(&flog.encode(), &geometry()).unwrap();
                prop_assert!(again.current().eq(flog.current()));
                prop_assert_eq!(flog.current().count(), 256);
            }
        }
    }
}
