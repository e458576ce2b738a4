//! Namespace labels: the assignment of ranges of a module to namespaces.
#![doc = include_str!("label_1_2.md")]
#![doc = include_str!("label_1_1.md")]

use crate::LabelError;
use crate::fletcher::fletcher64_without;
use crate::label_cxl::{CxlNamespaceLabel, CxlRegionLabel};
use crate::label_error::LabelDamage;
use lode_layout::drawing;
use lode_layout::drawing::Drawing;
use lode_layout::{Contradiction, Want};
use std::borrow::Cow;
use std::fmt;
use std::mem::offset_of;
use std::ops::Range;
use uuid::{Uuid, uuid};
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Alignment of the ranges of labels, in bytes.
const DPA_UNIT: u64 = 4096;

pub(crate) const DRAWING_1_1: Drawing = drawing!(
    "label_1_1",
    LabelBytes11,
    [uuid, name, flags, label_count, position, set_cookie, lba_size, dpa, raw_size, slot, reserved,]
);

pub(crate) const DRAWING_1_2: Drawing = drawing!(
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

/// The format of the labels of an area, as its index blocks state it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LabelFormat {
    /// Labels of 128 bytes without a checksum, from the time before UEFI specified them.
    V1_1,
    /// Labels of 256 bytes as UEFI specifies them. Linux writes them for all modules, including those of CXL.
    V1_2,
    /// Labels of 256 bytes that begin with their kind, as CXL specifies them.
    V2_1,
}

impl LabelFormat {
    /// Returns the length in bytes of a label and of its slot.
    pub const fn label_len(self) -> u64 {
        match self {
            LabelFormat::V1_1 => 128,
            LabelFormat::V1_2 | LabelFormat::V2_1 => 256,
        }
    }

    /// Returns the code of the label length, as stored in index blocks.
    pub(crate) const fn size_code(self) -> u8 {
        match self {
            LabelFormat::V1_1 => 0,
            LabelFormat::V1_2 | LabelFormat::V2_1 => 1,
        }
    }

    /// Returns the major and minor number as stored.
    pub(crate) const fn version(self) -> (u16, u16) {
        match self {
            LabelFormat::V1_1 => (1, 1),
            LabelFormat::V1_2 => (1, 2),
            LabelFormat::V2_1 => (2, 1),
        }
    }

    /// Returns the format with these numbers.
    pub(crate) const fn from_version(major: u16, minor: u16) -> Option<LabelFormat> {
        match (major, minor) {
            (1, 1) => Some(LabelFormat::V1_1),
            (1, 2) => Some(LabelFormat::V1_2),
            (2, 1) => Some(LabelFormat::V2_1),
            _ => None,
        }
    }
}

impl fmt::Display for LabelFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.version();
        write!(f, "{major}.{minor}")
    }
}

/// The name of a namespace, chosen by a user.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LabelName([u8; LabelName::LEN]);

impl LabelName {
    /// Bytes of the field; the longest name is one byte shorter.
    pub const LEN: usize = 64;
    /// No name.
    pub const NONE: LabelName = LabelName([0; LabelName::LEN]);

    /// Returns the name `text`.
    ///
    /// # Errors
    /// Fails if `text` has more than 63 bytes or contains a zero character.
    pub fn new(text: &str) -> Result<LabelName, LabelError> {
        if text.len() >= LabelName::LEN || text.contains('\0') {
            return Err(LabelError::Name { len: text.len() });
        }
        let mut field = [0; LabelName::LEN];
        field[..text.len()].copy_from_slice(text.as_bytes());
        Ok(LabelName(field))
    }

    /// Returns the name stored as `field`, without checks.
    pub(crate) const fn from_field(field: [u8; LabelName::LEN]) -> LabelName {
        LabelName(field)
    }

    /// Returns the field as stored, the inverse of [`from_field`](LabelName::from_field).
    pub(crate) const fn field(&self) -> [u8; LabelName::LEN] {
        self.0
    }

    /// Returns the name up to its first zero. Replaces bytes that are not UTF-8.
    pub fn text(&self) -> Cow<'_, str> {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(LabelName::LEN);
        String::from_utf8_lossy(&self.0[..end])
    }
}

impl fmt::Debug for LabelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text())
    }
}

/// The flags of a label, including bits without a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LabelFlags(pub u32);

impl LabelFlags {
    /// The label must not be changed.
    pub const READ_ONLY: LabelFlags = LabelFlags(1);
    /// The namespace lies inside of one module: a block-window namespace. Current kernels do not support it.
    pub const LOCAL: LabelFlags = LabelFlags(2);
    /// The labels of the set are being written. The namespace is complete when all of them are written without this
    /// flag.
    pub const UPDATING: LabelFlags = LabelFlags(8);

    /// Returns true if all bits of `flags` are set.
    pub const fn has(self, flags: LabelFlags) -> bool {
        self.0 & flags.0 == flags.0
    }
}

/// The user of a namespace, which determines the kind of info block in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abstraction {
    /// No user: a raw namespace, or a label from before labels named a user.
    None,
    /// A BTT with its info block at 4096.
    Btt,
    /// A BTT with its info block at 0.
    Btt2,
    /// A page map: fsdax.
    PageMap,
    /// A character device: devdax.
    DeviceDax,
    /// A user that this code does not know.
    Other(Uuid),
}

impl Abstraction {
    const KNOWN: [(Abstraction, Uuid); 5] = [
        (Abstraction::None, Uuid::nil()),
        (Abstraction::Btt, uuid!("8aed63a2-29a2-4c66-8b12-f05d15d3922a")),
        (Abstraction::Btt2, uuid!("18633bfc-1735-4217-8ac9-17239282d3f8")),
        (Abstraction::PageMap, uuid!("266400ba-fb9f-4677-bcb0-968f11d0d225")),
        (Abstraction::DeviceDax, uuid!("97a86d9c-3cdd-4eda-986f-5068b4f80088")),
    ];

    /// Returns the GUID of the user.
    pub fn uuid(self) -> Uuid {
        match self {
            Abstraction::Other(uuid) => uuid,
            known => Abstraction::KNOWN
                .iter()
                .find(|(one, _)| *one == known)
                .map_or(Uuid::nil(), |(_, uuid)| *uuid),
        }
    }

    /// Returns the user with this GUID.
    pub fn from_uuid(uuid: Uuid) -> Abstraction {
        let known = Abstraction::KNOWN.iter().find(|(_, one)| *one == uuid);
        known.map_or(Abstraction::Other(uuid), |(abstraction, _)| *abstraction)
    }
}

/// The kind of memory that is persistent and byte-addressable, as in the range type of the NFIT.
pub const PERSISTENT_MEMORY: Uuid = uuid!("66f0d379-b4f3-4074-ac43-0d3318b78cdb");

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
    /// The kind of memory, [`PERSISTENT_MEMORY`]; nil in labels 1.1.
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
    /// Names the first broken rule of the drawing. The checksum is checked first.
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
        raw.checksum = fletcher64_without(raw.as_bytes(), offset_of!(LabelBytes12, checksum)).into();
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

/// Checks the checksum `found` of a label, stored at `hole` in its `bytes`.
pub(crate) fn check_sum(bytes: &[u8], hole: usize, found: u64) -> Result<(), LabelDamage> {
    let want = fletcher64_without(bytes, hole);
    if want == found { Ok(()) } else { Err(LabelDamage::Checksum { want, found }) }
}

/// Checks the slot number and the range that the label in slot `slot` states.
pub(crate) fn check_place(found: u32, slot: u32, dpa: u64, raw_size: u64) -> Result<(), Contradiction> {
    Want::Exactly(slot.into()).check("slot", 0, found.into())?;
    Want::MultipleOf(DPA_UNIT).check("dpa", 0, dpa)?;
    Want::MultipleOf(DPA_UNIT).check("raw_size", 0, raw_size)?;
    Want::AtMost(u64::MAX - dpa).check("raw_size", 0, raw_size)?;
    Ok(())
}
