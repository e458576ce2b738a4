//! The label storage area of a module as a value, and its changes as writes in the order of the kernel.
//!
//! ```text
//! 0              index_len      2 * index_len
//! | index 0      | index 1      | slot 0 | slot 1 | ... |
//! ```
//!
//! No current data is overwritten in place. A change writes at most one label, into a free slot. Then it writes the
//! older index block with the next sequence number. Each write is durable before the next begins.
//!
//! | stops after       | media shows                                    | reading takes                                   |
//! |-------------------|------------------------------------------------|-------------------------------------------------|
//! | nothing           | old                                            | old                                             |
//! | part of the label | a slot that the current block calls free       | old: free slots are not read                    |
//! | the label         | the same                                       | old                                             |
//! | part of the index | the older block torn: checksum                 | old: the other block alone is valid             |
//! | the index         | two valid blocks                               | new: its sequence comes after the other's       |
//!
//! Format: first block 0 with sequence 3, then block 1 with sequence 2. The first write alone makes it a valid area.
//! Erase: first the older block, then the current one. Only the second write makes it blank.

use crate::LabelError;
use crate::label::Label;
use crate::label_error::{IndexDamage, LabelDamage};
use crate::label_fields::check_place;
use crate::label_format::LabelFormat;
use crate::label_index::{LabelGeometry, LabelIndex, is_version_1_1};
use std::collections::BTreeMap;
use std::ops::Range;
use uuid::Uuid;

/// The content of a label storage area: the current index block, and the slots in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelArea {
    geometry: LabelGeometry,
    index: LabelIndex,
    used: BTreeMap<u32, Result<Label, LabelDamage>>,
}

/// One write to a label storage area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelWrite {
    /// Offset of the write, in bytes from the start of the area.
    pub off: u64,
    /// Bytes to write.
    pub bytes: Vec<u8>,
}

/// A change of a label storage area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelUpdate {
    /// The writes. Each must be durable before the next one begins. The area reads as before or as
    /// [`after`](LabelUpdate::after) if the sequence stops at any write, even if that write is only partly done.
    pub writes: Vec<LabelWrite>,
    /// The area after all writes.
    pub after: LabelArea,
}

impl LabelWrite {
    fn at(place: Range<u64>, bytes: Vec<u8>) -> LabelWrite {
        debug_assert_eq!(place.end - place.start, bytes.len() as u64, "a write is as long as its place");
        LabelWrite { off: place.start, bytes }
    }

    /// Applies the write to `area`, the bytes of the whole area for which it was made.
    ///
    /// # Panics
    /// Panics if the area is too short.
    pub fn apply(&self, area: &mut [u8]) {
        area[self.off as usize..][..self.bytes.len()].copy_from_slice(&self.bytes);
    }
}

impl LabelArea {
    /// Decodes the area from all its bytes. Never panics, for any content.
    ///
    /// # Errors
    /// [`LabelError::Blank`] if no index block has the signature. [`LabelError::NoIndex`] if one has it, but none is
    /// valid. Also fails for sizes that no area has.
    ///
    /// # Cost
    /// One checksum for each index block and for each label.
    pub fn read(bytes: &[u8]) -> Result<LabelArea, LabelError> {
        // The offset of the second block depends on the label length, which only the blocks state. So both lengths are
        // tried, the shorter first, as the kernel does.
        let size = bytes.len() as u64;
        let short = LabelGeometry::plan(size, LabelFormat::V1_1)?;
        let of_short = match LabelIndex::newest(bytes, &short) {
            Ok(index) => return Ok(LabelArea::with_labels(short, index, bytes)),
            Err(damage) => damage,
        };
        let of_long = match LabelGeometry::plan(size, LabelFormat::V1_2) {
            Ok(long) => match LabelIndex::newest(bytes, &long) {
                Ok(index) => return Ok(LabelArea::with_labels(long, index, bytes)),
                Err(damage) => damage,
            },
            Err(_) => of_short,
        };
        match if is_version_1_1(bytes) { of_short } else { of_long } {
            [IndexDamage::Absent, IndexDamage::Absent] => Err(LabelError::Blank),
            [first, second] => Err(LabelError::NoIndex { first, second }),
        }
    }

    fn with_labels(geometry: LabelGeometry, index: LabelIndex, bytes: &[u8]) -> LabelArea {
        let geometry = geometry.for_format(index.format());
        let used = (0..index.slot_count()).filter(|slot| !index.is_free(*slot)).map(|slot| {
            let Range { start, end } = geometry.slot(slot);
            (slot, Label::decode(&bytes[start as usize..end as usize], index.format(), slot))
        });
        LabelArea { geometry, used: used.collect(), index }
    }

    /// Plans a new, empty area of `size` bytes. Returns the writes that make it from a blank area.
    ///
    /// # Errors
    /// Fails for sizes that no area has.
    pub fn format(size: u64, format: LabelFormat) -> Result<LabelUpdate, LabelError> {
        let geometry = LabelGeometry::plan(size, format)?;
        let [first, second] =
            [(0, 3), (1, 2)].map(|(which, sequence)| LabelIndex::new(&geometry, which, sequence));
        let writes = [&first, &second]
            .map(|index| LabelWrite::at(geometry.index(index.which()), index.encode()))
            .to_vec();
        Ok(LabelUpdate { writes, after: LabelArea { geometry, index: first, used: BTreeMap::new() } })
    }

    /// Returns the writes that make the area blank. It is blank only after the last one.
    pub fn erase(&self) -> Vec<LabelWrite> {
        let blank =
            |which| LabelWrite::at(self.geometry.index(which), vec![0; self.geometry.index_len() as usize]);
        vec![blank(1 - self.index.which()), blank(self.index.which())]
    }

    /// Writes `label`, and frees the existing labels of the same namespace or of the same region.
    ///
    /// To make a namespace over several modules, first put its labels with [`UPDATING`](crate::LabelFlags::UPDATING)
    /// into all areas. Then put them without that flag.
    ///
    /// # Errors
    /// - [`LabelError::Field`] if the range is not of whole pages.
    /// - [`LabelError::Format`] if labels of this area can't express the label.
    /// - [`LabelError::Overlap`] if another namespace or region has the range.
    /// - [`LabelError::SlotsExhausted`] if there is no slot left.
    ///
    /// # Durability
    /// No change is durable before the writes of the update are.
    pub fn put(&self, label: &Label) -> Result<LabelUpdate, LabelError> {
        let dpas = label.dpas();
        check_place(0, 0, dpas.start, dpas.end - dpas.start).map_err(LabelError::Field)?;
        let victims: Vec<u32> =
            self.labels().filter(|(_, old)| label.replaces(old)).map(|(slot, _)| slot).collect();
        let others = self
            .labels()
            .filter(|(slot, old)| old.is_region() == label.is_region() && !victims.contains(slot));
        if let Some((_, other)) = others.into_iter().find(|(_, other)| intersect(&other.dpas(), &dpas)) {
            return Err(LabelError::Overlap { with: other.uuid() });
        }
        // A label changes by a write into a free slot, so new namespaces must leave one slot free.
        let spare = usize::from(victims.is_empty());
        let exhausted = LabelError::SlotsExhausted { slot_count: self.index.slot_count() };
        let slot = self.index.free_slots().next().ok_or(exhausted)?;
        self.index.free_slots().nth(spare).ok_or(exhausted)?;
        let bytes = label.encode(self.index.format(), slot)?;
        let mut update = self.with_index(|index| {
            index.set_free(slot, false);
            victims.iter().for_each(|victim| index.set_free(*victim, true));
        });
        update.writes.insert(0, LabelWrite::at(self.geometry.slot(slot), bytes));
        update.after.used.insert(slot, Ok(*label));
        Ok(update)
    }

    /// Frees the labels of the namespace or region `uuid`.
    ///
    /// # Errors
    /// [`LabelError::Unknown`] if there is no such label.
    pub fn remove(&self, uuid: Uuid) -> Result<LabelUpdate, LabelError> {
        let victims: Vec<u32> =
            self.labels().filter(|(_, label)| label.uuid() == uuid).map(|(slot, _)| slot).collect();
        if victims.is_empty() {
            return Err(LabelError::Unknown { uuid });
        }
        Ok(self.with_index(|index| victims.iter().for_each(|slot| index.set_free(*slot, true))))
    }

    /// Frees all slots, including those of damaged labels.
    pub fn clear(&self) -> LabelUpdate {
        self.with_index(|index| (0..index.slot_count()).for_each(|slot| index.set_free(slot, true)))
    }

    /// Returns the update that applies `change` to the index block and writes it as the next one. Slots that it frees
    /// lose their labels.
    fn with_index(&self, change: impl FnOnce(&mut LabelIndex)) -> LabelUpdate {
        let mut index = self.index.next();
        change(&mut index);
        let write = LabelWrite::at(self.geometry.index(index.which()), index.encode());
        let mut used = self.used.clone();
        used.retain(|slot, _| !index.is_free(*slot));
        LabelUpdate { writes: vec![write], after: LabelArea { geometry: self.geometry, index, used } }
    }

    /// Returns the offsets of the area's parts.
    pub const fn geometry(&self) -> &LabelGeometry {
        &self.geometry
    }

    /// Returns the current index block.
    pub const fn index(&self) -> &LabelIndex {
        &self.index
    }

    /// Returns the number of new labels that fit. The last free slot is reserved for changes of existing labels.
    pub fn slots_left(&self) -> u64 {
        (self.index.free_slots().count() as u64).saturating_sub(1)
    }

    /// Returns the labels and their slots, in the order of the slots.
    pub fn labels(&self) -> impl Iterator<Item = (u32, &Label)> {
        self.used.iter().filter_map(|(slot, label)| Some((*slot, label.as_ref().ok()?)))
    }

    /// Returns the slots that are in use without a valid label, and the damage of each. The kernel skips them and
    /// leaves them in use; [`clear`](LabelArea::clear) frees them.
    pub fn damaged(&self) -> impl Iterator<Item = (u32, &LabelDamage)> {
        self.used.iter().filter_map(|(slot, label)| Some((*slot, label.as_ref().err()?)))
    }

    /// Returns the first two slots whose labels share a part of the module. The kernel refuses such areas.
    pub fn overlap(&self) -> Option<(u32, u32)> {
        let mut ranges: Vec<_> =
            self.labels().map(|(slot, label)| (label.is_region(), label.dpas(), slot)).collect();
        ranges.sort_by_key(|(is_region, dpas, slot)| (*is_region, dpas.start, dpas.end, *slot));
        let mut widest: Option<&(bool, Range<u64>, u32)> = None;
        for range in &ranges {
            match widest.filter(|before| before.0 == range.0) {
                Some(before) if intersect(&before.1, &range.1) => return Some((before.2, range.2)),
                Some(before) if before.1.end >= range.1.end => {}
                _ => widest = Some(range),
            }
        }
        None
    }
}

/// Returns true if the ranges share a byte.
fn intersect(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start.max(other.start) < one.end.min(other.end)
}
