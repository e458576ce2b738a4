//! The index blocks of a label storage area: slots in use, and offsets of the area's parts.
#![doc = include_str!("label_index.md")]

use crate::LabelError;
use crate::label_error::IndexDamage;
use crate::label_format::LabelFormat;
use lode_layout::Want;
use lode_layout::align_up;
use lode_layout::format_table;
use lode_layout::format_table::FormatTable;
use lode_layout::{fletcher64_with_hole, store_fletcher64};
use std::mem::offset_of;
use std::ops::Range;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const SIG: [u8; 16] = *b"NAMESPACE_INDEX\0";
/// Bytes of the fields; the bitmap begins here.
const HEAD: usize = size_of::<IndexBytes>();
/// Alignment of the length of an index block, in bytes.
const INDEX_UNIT: u64 = 256;
/// Significant bits of the sequence number.
const SEQUENCE_MASK: u32 = 3;
/// Least number of slots of an area.
const SLOTS_MIN: u64 = 2;

pub(crate) const TABLE: FormatTable = format_table!(
    "label_index",
    IndexBytes,
    [
        sig, flags, label_size, sequence, my_off, my_size, other_off, label_off, slot_count, major, minor,
        checksum,
    ]
);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct IndexBytes {
    sig: [u8; 16],
    flags: [u8; 3],
    label_size: u8,
    sequence: U32,
    my_off: U64,
    my_size: U64,
    other_off: U64,
    label_off: U64,
    slot_count: U32,
    major: U16,
    minor: U16,
    checksum: U64,
}

/// The offsets of the parts of a label storage area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelGeometry {
    size: u64,
    format: LabelFormat,
    index_len: u64,
    slot_count: u32,
}

impl LabelGeometry {
    /// The largest area in bytes: modules report its size in 32 bits.
    pub const SIZE_MAX: u64 = u32::MAX as u64;

    /// Plans an area of `size` bytes for labels of `format`, as the kernel, ndctl and firmware lay it out.
    ///
    /// # Errors
    /// Fails if there is no room for two index blocks and two labels, or if the size is above
    /// [`SIZE_MAX`](LabelGeometry::SIZE_MAX).
    pub fn plan(size: u64, format: LabelFormat) -> Result<LabelGeometry, LabelError> {
        if size > LabelGeometry::SIZE_MAX {
            return Err(LabelError::AreaTooLarge { size, size_max: LabelGeometry::SIZE_MAX });
        }
        let label_len = format.label_len();
        // Sized as if slots took the whole area, so the bitmap may have a few bits too many but never too few.
        let bitmap_len = (size / label_len).div_ceil(8);
        let index_len = align_up(HEAD as u64 + bitmap_len, INDEX_UNIT);
        let size_min = 2 * index_len + SLOTS_MIN * label_len;
        if size < size_min {
            return Err(LabelError::AreaTooSmall { size, size_min });
        }
        let slot_count = u32::try_from((size - 2 * index_len) / label_len)
            .map_err(|_| LabelError::AreaTooLarge { size, size_max: LabelGeometry::SIZE_MAX })?;
        // The blocks get the length for these slots. For a few sizes this is less than the room reserved above.
        let index_len = align_up(HEAD as u64 + u64::from(slot_count).div_ceil(8), INDEX_UNIT);
        Ok(LabelGeometry { size, format, index_len, slot_count })
    }

    /// Returns the same parts for labels of another format with the same length.
    pub(crate) fn for_format(self, format: LabelFormat) -> LabelGeometry {
        debug_assert_eq!(self.format.label_len(), format.label_len(), "other labels, other places");
        LabelGeometry { format, ..self }
    }

    /// Returns the size of the area in bytes.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Returns the format of its labels.
    pub const fn format(&self) -> LabelFormat {
        self.format
    }

    /// Returns the length of an index block in bytes, including its bitmap: a multiple of 256.
    pub const fn index_len(&self) -> u64 {
        self.index_len
    }

    /// Returns the number of slots.
    pub const fn slot_count(&self) -> u32 {
        self.slot_count
    }

    /// Returns the range of index block 0 or 1, in bytes from the start of the area.
    pub const fn index(&self, which: usize) -> Range<u64> {
        let start = which as u64 * self.index_len;
        start..start + self.index_len
    }

    /// Returns the range of a slot, in bytes from the start of the area.
    pub const fn slot(&self, slot: u32) -> Range<u64> {
        let start = 2 * self.index_len + slot as u64 * self.format.label_len();
        start..start + self.format.label_len()
    }
}

/// A valid index block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelIndex {
    which: usize,
    format: LabelFormat,
    sequence: u8,
    slot_count: u32,
    // As stored: bits that belong to no slot are kept.
    free: Vec<u8>,
}

impl LabelIndex {
    /// Returns a block of a new area, with all slots free.
    pub(crate) fn new(geometry: &LabelGeometry, which: usize, sequence: u8) -> LabelIndex {
        let mut index = LabelIndex {
            which,
            format: geometry.format,
            sequence,
            slot_count: geometry.slot_count,
            free: vec![0; geometry.index_len as usize - HEAD],
        };
        (0..geometry.slot_count).for_each(|slot| index.set_free(slot, true));
        index
    }

    /// Returns the successor of this block: in the other place, with the next sequence number, otherwise equal.
    pub(crate) fn next(&self) -> LabelIndex {
        LabelIndex { which: 1 - self.which, sequence: after(self.sequence), ..self.clone() }
    }

    /// Returns the place of the block, 0 or 1.
    pub const fn which(&self) -> usize {
        self.which
    }

    /// Returns the sequence number: 1, 2 or 3.
    pub const fn sequence(&self) -> u8 {
        self.sequence
    }

    /// Returns the label format that the block states.
    pub const fn format(&self) -> LabelFormat {
        self.format
    }

    /// Returns the number of slots that the block covers.
    pub const fn slot_count(&self) -> u32 {
        self.slot_count
    }

    /// Returns true if `slot` is free; false for a slot that does not exist.
    pub fn is_free(&self, slot: u32) -> bool {
        slot < self.slot_count && self.free[slot as usize / 8] >> (slot % 8) & 1 == 1
    }

    /// Returns the free slots in ascending order.
    pub fn free_slots(&self) -> impl Iterator<Item = u32> {
        (0..self.slot_count).filter(|slot| self.is_free(*slot))
    }

    pub(crate) fn set_free(&mut self, slot: u32, free: bool) {
        let byte = &mut self.free[slot as usize / 8];
        let bit = 1 << (slot % 8);
        *byte = if free { *byte | bit } else { *byte & !bit };
    }

    /// Returns the bytes of the block. They fill its place in the area.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let len = HEAD + self.free.len();
        let (major, minor) = self.format.version();
        let head = IndexBytes {
            sig: SIG,
            flags: [0; 3],
            label_size: self.format.size_code(),
            sequence: u32::from(self.sequence).into(),
            my_off: ((self.which * len) as u64).into(),
            my_size: (len as u64).into(),
            other_off: (((1 - self.which) * len) as u64).into(),
            label_off: ((2 * len) as u64).into(),
            slot_count: self.slot_count.into(),
            major: major.into(),
            minor: minor.into(),
            checksum: 0.into(),
        };
        let mut bytes = [head.as_bytes(), &self.free].concat();
        store_fletcher64(&mut bytes, offset_of!(IndexBytes, checksum));
        bytes
    }

    /// Decodes index block `which` of `area`, the bytes of a whole area, laid out as `geometry` says. Uses only the
    /// label length of the format in `geometry`.
    ///
    /// # Errors
    /// Names the first broken rule of the table. Signature, version and checksum are checked first.
    pub(crate) fn decode(
        area: &[u8],
        geometry: &LabelGeometry,
        which: usize,
    ) -> Result<LabelIndex, IndexDamage> {
        let Range { start, end } = geometry.index(which);
        let bytes = &area[start as usize..end as usize];
        let (head, free) = IndexBytes::ref_from_prefix(bytes).map_err(|_| IndexDamage::Absent)?;
        if head.sig != SIG {
            return Err(IndexDamage::Absent);
        }
        let (major, minor) = (head.major.get(), head.minor.get());
        let format = LabelFormat::from_version(major, minor).ok_or(IndexDamage::Version { major, minor })?;
        let (want, found) =
            (fletcher64_with_hole(bytes, offset_of!(IndexBytes, checksum)), head.checksum.get());
        if want != found {
            return Err(IndexDamage::Checksum { want, found });
        }
        use Want::{AtLeast, AtMost, Exactly};
        let rule = |field, found: u64, want: Want| want.check(field, which, found);
        let label_len = geometry.format.label_len();
        // Labels 1.1 have only one length, so the stored length is ignored.
        let stored_len = match format {
            LabelFormat::V1_1 => format.label_len(),
            _ => 128_u64.checked_shl(head.label_size.into()).unwrap_or(u64::MAX),
        };
        rule("label_size", stored_len, Exactly(format.label_len()))?;
        rule("label_size", stored_len, Exactly(label_len))?;
        let sequence = head.sequence.get() & SEQUENCE_MASK;
        rule("sequence", sequence.into(), AtLeast(1))?;
        rule("my_off", head.my_off.get(), Exactly(start))?;
        rule("my_size", head.my_size.get(), AtLeast(HEAD as u64))?;
        rule("my_size", head.my_size.get(), AtMost(geometry.index_len))?;
        rule("other_off", head.other_off.get(), Exactly(geometry.index(1 - which).start))?;
        rule("label_off", head.label_off.get(), Exactly(geometry.slot(0).start))?;
        rule("slot_count", head.slot_count.get().into(), AtMost(geometry.slot_count.into()))?;
        Ok(LabelIndex {
            which,
            format,
            sequence: sequence as u8,
            slot_count: head.slot_count.get(),
            free: free.to_vec(),
        })
    }

    /// Returns the current index block of `area`, the bytes of a whole area.
    ///
    /// # Errors
    /// Fails if neither block is valid.
    pub(crate) fn newest(area: &[u8], geometry: &LabelGeometry) -> Result<LabelIndex, [IndexDamage; 2]> {
        match [0, 1].map(|which| LabelIndex::decode(area, geometry, which)) {
            [Ok(first), Ok(second)] => {
                let second_counts = [first.sequence, after(first.sequence)].contains(&second.sequence);
                Ok(if second_counts { second } else { first })
            }
            [Ok(one), Err(_)] | [Err(_), Ok(one)] => Ok(one),
            [Err(first), Err(second)] => Err([first, second]),
        }
    }
}

/// The fields of an index block as they are stored, valid or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredIndex {
    /// The signature.
    pub sig: [u8; 16],
    /// The major number of the label format.
    pub major: u16,
    /// The minor number of the label format.
    pub minor: u16,
    /// The code of the label length, which is 128 bytes shifted by it.
    pub label_size: u8,
    /// The sequence number.
    pub sequence: u32,
    /// The number of slots.
    pub slot_count: u32,
}

impl StoredIndex {
    /// Reads the fields at the start of `bytes`; `None` if the bytes are too few.
    pub fn read(bytes: &[u8]) -> Option<StoredIndex> {
        let (head, _) = IndexBytes::ref_from_prefix(bytes).ok()?;
        Some(StoredIndex {
            sig: head.sig,
            major: head.major.get(),
            minor: head.minor.get(),
            label_size: head.label_size,
            sequence: head.sequence.get(),
            slot_count: head.slot_count.get(),
        })
    }
}

/// Returns the sequence number after `sequence`. The numbers 1, 2 and 3 repeat; 0 is none.
const fn after(sequence: u8) -> u8 {
    sequence % 3 + 1
}

/// Returns true if block 0 of `area` says that the labels are 1.1. It lies at the start in every version.
pub(crate) fn is_version_1_1(area: &[u8]) -> bool {
    IndexBytes::ref_from_prefix(area).is_ok_and(|(head, _)| {
        head.sig == SIG
            && LabelFormat::from_version(head.major.get(), head.minor.get()) == Some(LabelFormat::V1_1)
    })
}
