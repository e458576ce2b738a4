//! Namespace labels: the assignment of ranges of a module to namespaces.
#![doc = include_str!("label_1_2.md")]
#![doc = include_str!("label_1_1.md")]

use crate::label_cxl::{CxlNamespaceLabel, CxlRegionLabel};
use crate::label_error::{LabelDamage, LabelError};
use crate::label_fields::{Abstraction, LabelFlags, LabelName, check_place, check_sum};
use crate::label_format::LabelFormat;
use lode_layout::fletcher64_with_hole;
use lode_layout::format_table;
use lode_layout::format_table::FormatTable;

use std::mem::offset_of;
use std::ops::Range;
use uuid::Uuid;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

pub(crate) const TABLE_1_1: FormatTable = format_table!(
    "label_1_1",
    LabelBytes11,
    [uuid, name, flags, label_count, position, set_cookie, lba_size, dpa, raw_size, slot, reserved,]
);

pub(crate) const TABLE_1_2: FormatTable = format_table!(
    "label_1_2",
    LabelBytes12,
    [
        uuid,
        name,
        flags,
        label_count,
        position,
        set_cookie,
        lba_size,
        dpa,
        raw_size,
        slot,
        alignment,
        reserved,
        type_guid,
        abstraction,
        reserved2,
        checksum,
    ]
);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct LabelBytes11 {
    uuid: [u8; 16],
    name: [u8; LabelName::LEN],
    flags: U32,
    label_count: U16,
    position: U16,
    set_cookie: U64,
    lba_size: U64,
    dpa: U64,
    raw_size: U64,
    slot: U32,
    reserved: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct LabelBytes12 {
    uuid: [u8; 16],
    name: [u8; LabelName::LEN],
    flags: U32,
    label_count: U16,
    position: U16,
    set_cookie: U64,
    lba_size: U64,
    dpa: U64,
    raw_size: U64,
    slot: U32,
    alignment: u8,
    reserved: [u8; 3],
    type_guid: [u8; 16],
    abstraction: [u8; 16],
    reserved2: [u8; 88],
    checksum: U64,
}

const _: () = assert!(size_of::<LabelBytes11>() == LabelFormat::V1_1.label_len() as usize);
const _: () = assert!(size_of::<LabelBytes12>() == LabelFormat::V1_2.label_len() as usize);

/// The fields of a namespace label as they are stored, valid or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredLabel {
    /// UUID of the namespace.
    pub uuid: [u8; 16],
    /// Name of the namespace, up to its first zero byte.
    pub name: [u8; LabelName::LEN],
    /// Flags.
    pub flags: u32,
    /// Number of labels of the namespace.
    pub label_count: u16,
    /// Position of the module in its interleave set.
    pub position: u16,
    /// Cookie of the interleave set.
    pub set_cookie: u64,
    /// Sector size in bytes; 0 stands for 512.
    pub lba_size: u64,
    /// Offset of the range on the module, in bytes.
    pub dpa: u64,
    /// Length of the range, in bytes.
    pub raw_size: u64,
    /// Number of the label's slot.
    pub slot: u32,
    /// GUIDs of type and abstraction; `None` for labels 1.1.
    pub guids: Option<[[u8; 16]; 2]>,
}

impl StoredLabel {
    /// Reads the fields at the start of `bytes`, which are a slot of a label of `format`. Returns `None` if the bytes
    /// are too few.
    pub fn read(bytes: &[u8], format: LabelFormat) -> Option<StoredLabel> {
        // Labels 1.2 begin with the fields of labels 1.1.
        let (head, _) = LabelBytes11::ref_from_prefix(bytes).ok()?;
        let guids = match format {
            LabelFormat::V1_1 => None,
            LabelFormat::V1_2 | LabelFormat::V2_1 => {
                let (label, _) = LabelBytes12::ref_from_prefix(bytes).ok()?;
                Some([label.type_guid, label.abstraction])
            }
        };
        Some(StoredLabel {
            uuid: head.uuid,
            name: head.name,
            flags: head.flags.get(),
            label_count: head.label_count.get(),
            position: head.position.get(),
            set_cookie: head.set_cookie.get(),
            lba_size: head.lba_size.get(),
            dpa: head.dpa.get(),
            raw_size: head.raw_size.get(),
            slot: head.slot.get(),
            guids,
        })
    }
}

/// A module's part of a namespace, in labels 1.1 and 1.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceLabel {
    /// UUID of the namespace.
    pub uuid: Uuid,
    /// Name of the namespace.
    pub name: LabelName,
    /// Flags of the label.
    pub flags: LabelFlags,
    /// Number of labels of the namespace, one for each module of the set.
    pub label_count: u16,
    /// The position of the module in the set, from 0.
    pub position: u16,
    /// The identity of the set: [`set_cookie`](crate::set_cookie), in labels 1.1
    /// [`set_cookie_v1_1`](crate::set_cookie_v1_1).
    pub set_cookie: u64,
    /// Bytes of a logical block, 0 if none was requested.
    pub lba_size: u64,
    /// Offset of the range in the module, in bytes.
    pub dpa: u64,
    /// Length of the range, in bytes.
    pub raw_size: u64,
    /// The data should lie at multiples of 2^n bytes; 0 in labels 1.1.
    pub alignment: u8,
    /// The kind of memory, [`PERSISTENT_MEMORY`](crate::PERSISTENT_MEMORY); nil in labels 1.1.
    pub type_guid: Uuid,
    /// User of the namespace; `None` in labels 1.1.
    pub abstraction: Abstraction,
}

/// The content of a slot of a label storage area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// A range of a namespace, as UEFI specifies it.
    Namespace(NamespaceLabel),
    /// A range of a namespace, as CXL specifies it.
    CxlNamespace(CxlNamespaceLabel),
    /// A range of a region of CXL.
    CxlRegion(CxlRegionLabel),
}

impl Label {
    /// Returns the UUID of the namespace or the region.
    pub fn uuid(&self) -> Uuid {
        match self {
            Label::Namespace(label) => label.uuid,
            Label::CxlNamespace(label) => label.uuid,
            Label::CxlRegion(label) => label.uuid,
        }
    }

    /// Returns the range of the module, in bytes.
    pub fn dpas(&self) -> Range<u64> {
        let (dpa, raw_size) = match self {
            Label::Namespace(label) => (label.dpa, label.raw_size),
            Label::CxlNamespace(label) => (label.dpa, label.raw_size),
            Label::CxlRegion(label) => (label.dpa, label.raw_size),
        };
        dpa..dpa.saturating_add(raw_size)
    }

    /// Returns true if the label is of the same namespace or region as `other`. A new label then replaces the old one.
    pub fn replaces(&self, other: &Label) -> bool {
        self.is_region() == other.is_region() && self.uuid() == other.uuid()
    }

    /// Returns true for the label of a region. Namespaces lie inside of regions; regions do not overlap.
    pub const fn is_region(&self) -> bool {
        matches!(self, Label::CxlRegion(_))
    }

    /// Returns the bytes of the label in slot `slot` of an area of `format`.
    ///
    /// # Errors
    /// Fails for labels 1.1 if the label is one of CXL, or has an alignment, a kind or a user.
    pub(crate) fn encode(&self, format: LabelFormat, slot: u32) -> Result<Vec<u8>, LabelError> {
        match (self, format) {
            (Label::Namespace(label), LabelFormat::V1_1) => label.encode_1_1(slot),
            (Label::Namespace(label), LabelFormat::V1_2) => Ok(label.encode_1_2(slot)),
            (Label::CxlNamespace(label), LabelFormat::V1_2 | LabelFormat::V2_1) => Ok(label.encode(slot)),
            (Label::CxlRegion(label), LabelFormat::V1_2 | LabelFormat::V2_1) => Ok(label.encode(slot)),
            (_, format) => Err(LabelError::Format { format }),
        }
    }

    /// Decodes the label in slot `slot` of an area of `format` from the bytes of the slot.
    ///
    /// Linux stores labels of CXL under index blocks of version 1.2, so those are decoded by their kind, too.
    ///
    /// # Errors
    /// Names the first broken rule of the table. The checksum is checked first.
    pub(crate) fn decode(bytes: &[u8], format: LabelFormat, slot: u32) -> Result<Label, LabelDamage> {
        if format == LabelFormat::V1_1 {
            return NamespaceLabel::decode_1_1(bytes, slot).map(Label::Namespace);
        }
        let kind = bytes.first_chunk().copied().map(Uuid::from_bytes);
        match kind {
            Some(CxlNamespaceLabel::KIND) => CxlNamespaceLabel::decode(bytes, slot).map(Label::CxlNamespace),
            Some(CxlRegionLabel::KIND) => CxlRegionLabel::decode(bytes, slot).map(Label::CxlRegion),
            Some(kind) if format == LabelFormat::V2_1 => Err(LabelDamage::Kind { found: kind }),
            _ => NamespaceLabel::decode_1_2(bytes, slot).map(Label::Namespace),
        }
    }
}

impl NamespaceLabel {
    fn encode_1_1(&self, slot: u32) -> Result<Vec<u8>, LabelError> {
        let nothing_more =
            self.alignment == 0 && self.type_guid.is_nil() && self.abstraction == Abstraction::None;
        if !nothing_more {
            return Err(LabelError::Format { format: LabelFormat::V1_1 });
        }
        let raw = LabelBytes11 {
            uuid: self.uuid.into_bytes(),
            name: self.name.field(),
            flags: self.flags.0.into(),
            label_count: self.label_count.into(),
            position: self.position.into(),
            set_cookie: self.set_cookie.into(),
            lba_size: self.lba_size.into(),
            dpa: self.dpa.into(),
            raw_size: self.raw_size.into(),
            slot: slot.into(),
            reserved: 0.into(),
        };
        Ok(raw.as_bytes().to_vec())
    }

    fn decode_1_1(bytes: &[u8], slot: u32) -> Result<NamespaceLabel, LabelDamage> {
        let (raw, _) = LabelBytes11::ref_from_prefix(bytes)
            .map_err(|_| LabelDamage::TooShort { len: bytes.len() as u64 })?;
        check_place(raw.slot.get(), slot, raw.dpa.get(), raw.raw_size.get())?;
        Ok(NamespaceLabel {
            uuid: Uuid::from_bytes(raw.uuid),
            name: LabelName::from_field(raw.name),
            flags: LabelFlags(raw.flags.get()),
            label_count: raw.label_count.get(),
            position: raw.position.get(),
            set_cookie: raw.set_cookie.get(),
            lba_size: raw.lba_size.get(),
            dpa: raw.dpa.get(),
            raw_size: raw.raw_size.get(),
            alignment: 0,
            type_guid: Uuid::nil(),
            abstraction: Abstraction::None,
        })
    }

    fn encode_1_2(&self, slot: u32) -> Vec<u8> {
        let mut raw = LabelBytes12::new_zeroed();
        raw.uuid = self.uuid.into_bytes();
        raw.name = self.name.field();
        raw.flags = self.flags.0.into();
        raw.label_count = self.label_count.into();
        raw.position = self.position.into();
        raw.set_cookie = self.set_cookie.into();
        raw.lba_size = self.lba_size.into();
        raw.dpa = self.dpa.into();
        raw.raw_size = self.raw_size.into();
        raw.slot = slot.into();
        raw.alignment = self.alignment;
        raw.type_guid = self.type_guid.to_bytes_le();
        raw.abstraction = self.abstraction.uuid().to_bytes_le();
        raw.checksum = fletcher64_with_hole(raw.as_bytes(), offset_of!(LabelBytes12, checksum)).into();
        raw.as_bytes().to_vec()
    }

    fn decode_1_2(bytes: &[u8], slot: u32) -> Result<NamespaceLabel, LabelDamage> {
        let (raw, _) = LabelBytes12::ref_from_prefix(bytes)
            .map_err(|_| LabelDamage::TooShort { len: bytes.len() as u64 })?;
        check_sum(raw.as_bytes(), offset_of!(LabelBytes12, checksum), raw.checksum.get())?;
        check_place(raw.slot.get(), slot, raw.dpa.get(), raw.raw_size.get())?;
        Ok(NamespaceLabel {
            uuid: Uuid::from_bytes(raw.uuid),
            name: LabelName::from_field(raw.name),
            flags: LabelFlags(raw.flags.get()),
            label_count: raw.label_count.get(),
            position: raw.position.get(),
            set_cookie: raw.set_cookie.get(),
            lba_size: raw.lba_size.get(),
            dpa: raw.dpa.get(),
            raw_size: raw.raw_size.get(),
            alignment: raw.alignment,
            type_guid: Uuid::from_bytes_le(raw.type_guid),
            abstraction: Abstraction::from_uuid(Uuid::from_bytes_le(raw.abstraction)),
        })
    }
}
