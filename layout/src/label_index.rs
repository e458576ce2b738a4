//! The index blocks of a label storage area: which slots are in use, and where everything lies.
#![doc = include_str!("label_index.md")]

use crate::align_up;
use crate::drawing::{Drawing, drawing};
use crate::fletcher::{fletcher64_seal, fletcher64_without};
use crate::label::LabelFormat;
use crate::label_error::IndexDamage;
use crate::{LabelError, Want};
use std::mem::offset_of;
use std::ops::Range;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const SIG: [u8; 16] = *b"NAMESPACE_INDEX\0";
/// Bytes of the fields; the bitmap begins here.
const HEAD: usize = size_of::<IndexBytes>();
/// What the length of an index block is a multiple of.
const INDEX_UNIT: u64 = 256;
/// The bits of the sequence number that count.
const SEQUENCE_MASK: u32 = 3;
/// The slots that an area must at least have room for.
const SLOTS_MIN: u64 = 2;

pub(crate) const DRAWING: Drawing = drawing!(
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

/// Where the parts of a label storage area lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelGeometry {
    size: u64,
    format: LabelFormat,
    index_len: u64,
    slot_count: u32,
}

impl LabelGeometry {
    /// The largest area in bytes: modules tell the size of theirs in 32 bits.
    pub const SIZE_MAX: u64 = u32::MAX as u64;

    /// The parts of an area of `size` bytes for labels of `format`, as the kernel, ndctl and firmware lay them out.
    ///
    /// # Errors
    /// There is no room for two index blocks and two labels, or the size is above
    /// [`SIZE_MAX`](LabelGeometry::SIZE_MAX).
    pub fn plan(size: u64, format: LabelFormat) -> Result<LabelGeometry, LabelError> {
        if size > LabelGeometry::SIZE_MAX {
            return Err(LabelError::AreaTooLarge { size, size_max: LabelGeometry::SIZE_MAX });
        }
        let label_len = format.label_len();
        // As if slots took it all: so the bitmap has a few bits too many rather than one too few.
        let bitmap_len = (size / label_len).div_ceil(8);
        let index_len = align_up(HEAD as u64 + bitmap_len, INDEX_UNIT);
        let size_min = 2 * index_len + SLOTS_MIN * label_len;
        if size < size_min {
            return Err(LabelError::AreaTooSmall { size, size_min });
        }
        let slot_count = u32::try_from((size - 2 * index_len) / label_len)
            .map_err(|_| LabelError::AreaTooLarge { size, size_max: LabelGeometry::SIZE_MAX })?;
        // The blocks are as long as these slots need, which for a few sizes is less than was set aside above.
        let index_len = align_up(HEAD as u64 + u64::from(slot_count).div_ceil(8), INDEX_UNIT);
        Ok(LabelGeometry { size, format, index_len, slot_count })
    }

    /// The same parts for labels of another format and the same length.
    pub(crate) fn for_format(self, format: LabelFormat) -> LabelGeometry {
        debug_assert_eq!(self.format.label_len(), format.label_len(), "other labels, other places");
        LabelGeometry { format, ..self }
    }

    /// Bytes of the area.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Which labels it holds.
    pub const fn format(&self) -> LabelFormat {
        self.format
    }

    /// Bytes of an index block, its bitmap included: a multiple of 256.
    pub const fn index_len(&self) -> u64 {
        self.index_len
    }

    /// How many labels fit.
    pub const fn slot_count(&self) -> u32 {
        self.slot_count
    }

    /// Where index block 0 or 1 lies, in bytes from the start of the area.
    pub const fn index(&self, which: usize) -> Range<u64> {
        let start = which as u64 * self.index_len;
        start..start + self.index_len
    }

    /// Where a slot lies, in bytes from the start of the area.
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
    // As stored, so that bits of no slot stay as they are.
    free: Vec<u8>,
}

impl LabelIndex {
    /// A block of a new area, with all slots free.
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

    /// The block that comes after this one: in the other place, with the next sequence number, otherwise equal.
    pub(crate) fn next(&self) -> LabelIndex {
        LabelIndex { which: 1 - self.which, sequence: after(self.sequence), ..self.clone() }
    }

    /// Which of the two blocks it is, 0 or 1.
    pub const fn which(&self) -> usize {
        self.which
    }

    /// Its sequence number: 1, 2 or 3.
    pub const fn sequence(&self) -> u8 {
        self.sequence
    }

    /// The version that is written in it.
    pub const fn format(&self) -> LabelFormat {
        self.format
    }

    /// The slots that it speaks of.
    pub const fn slot_count(&self) -> u32 {
        self.slot_count
    }

    /// Whether `slot` is free; a slot that does not exist is not.
    pub fn is_free(&self, slot: u32) -> bool {
        slot < self.slot_count && self.free[slot as usize / 8] >> (slot % 8) & 1 == 1
    }

    /// The slots that are free, in their order.
    pub fn free_slots(&self) -> impl Iterator<Item = u32> {
        (0..self.slot_count).filter(|slot| self.is_free(*slot))
    }

    pub(crate) fn set_free(&mut self, slot: u32, free: bool) {
        let byte = &mut self.free[slot as usize / 8];
        let bit = 1 << (slot % 8);
        *byte = if free { *byte | bit } else { *byte & !bit };
    }

    /// The bytes of the block, as long as the space for it.
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
        fletcher64_seal(&mut bytes, offset_of!(IndexBytes, checksum));
        bytes
    }

    /// Index block `which` of the area whose bytes these are, laid out as `geometry` says; of its format only the
    /// length of the labels counts.
    ///
    /// # Errors
    /// The first rule of the drawing that is broken, after the signature, the version and the checksum.
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
            (fletcher64_without(bytes, offset_of!(IndexBytes, checksum)), head.checksum.get());
        if want != found {
            return Err(IndexDamage::Checksum { want, found });
        }
        use Want::{AtLeast, AtMost, Exactly};
        let rule = |field, found: u64, want: Want| want.check(field, which, found);
        let label_len = geometry.format.label_len();
        // Labels 1.1 have one length only, and what their index blocks say of it is not looked at.
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

    /// The block that counts in the area whose bytes these are.
    ///
    /// # Errors
    /// Neither is valid.
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

/// The sequence number after `sequence`: they go in a circle, and 0 is none.
const fn after(sequence: u8) -> u8 {
    sequence % 3 + 1
}

/// Whether block 0 of `area`, which lies at its start in every version, says that the labels are 1.1.
pub(crate) fn says_1_1(area: &[u8]) -> bool {
    IndexBytes::ref_from_prefix(area).is_ok_and(|(head, _)| {
        head.sig == SIG
            && LabelFormat::from_version(head.major.get(), head.minor.get()) == Some(LabelFormat::V1_1)
    })
}
