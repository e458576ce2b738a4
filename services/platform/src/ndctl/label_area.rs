//! Label areas in the format of `ndctl read-labels --json`.
//!
//! ndctl reads the areas without validation: it lists each slot that holds its own number, used or free. So a blank
//! area has a blank label in slot 0.

use crate::listing::{Fields, Json};
use lode_nvdimm::{LabelArea, LabelFormat, LabelGeometry, StoredIndex, StoredLabel};
use uuid::Uuid;

/// Length of an index block in areas of up to 256 KiB, in bytes.
const INDEX_LEN: usize = 256;

/// The label area of the module nmemN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelAreaBytes {
    /// N of nmemN.
    pub module: u32,
    /// All bytes of the area.
    pub bytes: Vec<u8>,
}

/// Returns the length in bytes of the index blocks of an area of `size` bytes, as ndctl limits a read to them: those
/// of the shortest labels, which are the longest.
pub fn index_area_len(size: u64) -> u64 {
    LabelGeometry::plan(size, LabelFormat::V1_1).map_or(size, |geometry| 2 * geometry.index_len())
}

/// Returns the areas as ndctl prints them: index blocks and labels, or index blocks alone.
pub fn label_areas(areas: &[LabelAreaBytes], index_only: bool, human: bool) -> String {
    let listed = areas.iter().map(|area| area.json(index_only)).collect();
    Json::Array(listed).print(human) + "\n"
}

impl LabelAreaBytes {
    fn json(&self, index_only: bool) -> Json {
        let mut fields = Fields::default();
        fields.add("dev", Json::text(format!("nmem{}", self.module)));
        let (format, index_len) = self.layout();
        let indexes = [0, index_len].map(|at| self.bytes.get(at..).and_then(StoredIndex::read));
        fields.add("index", Json::Array(indexes.iter().flatten().map(index).collect()));
        if !index_only {
            let slots = self.bytes.get(2 * index_len..).unwrap_or_default();
            let labels =
                (0..).zip(slots.chunks_exact(format.label_len() as usize)).filter_map(|(slot, bytes)| {
                    StoredLabel::read(bytes, format).filter(|label| label.slot == slot).map(|one| label(&one))
                });
            fields.add("label", Json::Array(labels.collect()));
        }
        Json::Object(fields.into())
    }

    /// Returns the format of the labels and the length of an index block. In an area without a valid index block, most
    /// of the stored version numbers decide, as in ndctl.
    fn layout(&self) -> (LabelFormat, usize) {
        if let Ok(area) = LabelArea::read(&self.bytes) {
            return (area.index().format(), area.geometry().index_len() as usize);
        }
        let count = |minor: u16| {
            let stored = [0, INDEX_LEN].map(|at| self.bytes.get(at..).and_then(StoredIndex::read));
            stored.into_iter().flatten().filter(|index| (index.major, index.minor) == (1, minor)).count()
        };
        (if count(2) > count(1) { LabelFormat::V1_2 } else { LabelFormat::V1_1 }, INDEX_LEN)
    }
}

fn index(index: &StoredIndex) -> Json {
    let mut fields = Fields::default();
    fields.add("signature", c_text(&index.sig));
    fields.add("major", Json::Number(index.major.into()));
    fields.add("minor", Json::Number(index.minor.into()));
    fields.add("labelsize", Json::Number(1_i32.wrapping_shl(7 + u32::from(index.label_size)).into()));
    // ndctl prints 32 bits as signed numbers.
    fields.add("seq", Json::Number((index.sequence as i32).into()));
    fields.add("nslot", Json::Number((index.slot_count as i32).into()));
    Json::Object(fields.into())
}

fn label(label: &StoredLabel) -> Json {
    let uuid = |bytes: [u8; 16]| Json::text(Uuid::from_bytes(bytes));
    let mut fields = Fields::default();
    fields.add("uuid", uuid(label.uuid));
    fields.add("name", c_text(&label.name));
    fields.add("slot", Json::Number((label.slot as i32).into()));
    fields.add("position", Json::Number(label.position.into()));
    fields.add("nlabel", Json::Number(label.label_count.into()));
    fields.add("flags", Json::Hex(label.flags.into()));
    fields.add("isetcookie", Json::Hex(label.set_cookie));
    fields.add("lbasize", Json::Number(label.lba_size as i64));
    fields.add("dpa", Json::Hex(label.dpa));
    fields.add("rawsize", Json::Size(label.raw_size));
    if let Some([kind, abstraction]) = label.guids {
        fields.add("type_guid", uuid(kind));
        fields.add("abstraction_guid", uuid(abstraction));
    }
    Json::Object(fields.into())
}

/// Returns the text of a field of C: up to the first zero byte, and without the last byte, which ndctl sets to zero.
pub(super) fn c_text<const LEN: usize>(bytes: &[u8; LEN]) -> Json {
    let text = bytes[..LEN - 1].split(|byte| *byte == 0).next().unwrap_or_default();
    Json::text(String::from_utf8_lossy(text))
}
