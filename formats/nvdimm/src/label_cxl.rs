//! Labels of CXL modules: namespaces and the regions that they are in.
#![doc = include_str!("label_cxl_namespace.md")]
#![doc = include_str!("label_cxl_region.md")]

use crate::label_error::LabelDamage;
use crate::label_fields::{Abstraction, LabelFlags, LabelName, check_place, check_sum};
use lode_layout::fletcher64_with_hole;
use lode_layout::format_table;
use lode_layout::format_table::FormatTable;
use std::mem::offset_of;
use uuid::{Uuid, uuid};
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

pub(crate) const TABLE_NAMESPACE: FormatTable = format_table!(
    "label_cxl_namespace",
    NamespaceBytes,
    [
        kind,
        uuid,
        name,
        flags,
        range_count,
        position,
        dpa,
        raw_size,
        slot,
        alignment,
        region_uuid,
        abstraction,
        lba_size,
        reserved,
        checksum,
    ]
);

pub(crate) const TABLE_REGION: FormatTable = format_table!(
    "label_cxl_region",
    RegionBytes,
    [
        kind,
        uuid,
        flags,
        label_count,
        position,
        dpa,
        raw_size,
        hpa,
        slot,
        granularity,
        alignment,
        reserved,
        checksum,
    ]
);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct NamespaceBytes {
    kind: [u8; 16],
    uuid: [u8; 16],
    name: [u8; LabelName::LEN],
    flags: U32,
    range_count: U16,
    position: U16,
    dpa: U64,
    raw_size: U64,
    slot: U32,
    alignment: U32,
    region_uuid: [u8; 16],
    abstraction: [u8; 16],
    lba_size: U16,
    reserved: [u8; 86],
    checksum: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RegionBytes {
    kind: [u8; 16],
    uuid: [u8; 16],
    flags: U32,
    label_count: U16,
    position: U16,
    dpa: U64,
    raw_size: U64,
    hpa: U64,
    slot: U32,
    granularity: U32,
    alignment: U32,
    reserved: [u8; 172],
    checksum: U64,
}

/// A CXL module's part of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CxlNamespaceLabel {
    /// UUID of the namespace.
    pub uuid: Uuid,
    /// Name of the namespace.
    pub name: LabelName,
    /// Flags of the label.
    pub flags: LabelFlags,
    /// Number of ranges of the namespace.
    pub range_count: u16,
    /// The position of this range, from 0.
    pub position: u16,
    /// Offset of the range in the module, in bytes.
    pub dpa: u64,
    /// Length of the range, in bytes.
    pub raw_size: u64,
    /// Alignment of the namespace in units of 256 MiB; 0 for any.
    pub alignment: u32,
    /// UUID of the region that contains the namespace.
    pub region_uuid: Uuid,
    /// User of the namespace.
    pub abstraction: Abstraction,
    /// Bytes of a logical block, 0 if none was requested.
    pub lba_size: u16,
}

/// A CXL module's part of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CxlRegionLabel {
    /// UUID of the region.
    pub uuid: Uuid,
    /// Flags of the label.
    pub flags: LabelFlags,
    /// Number of labels of the region, one for each interleave way.
    pub label_count: u16,
    /// The position of the module in the set, from 0.
    pub position: u16,
    /// Offset of the range in the module, in bytes.
    pub dpa: u64,
    /// Length of the range, in bytes.
    pub raw_size: u64,
    /// Physical address of the host at which the region is mapped.
    pub hpa: u64,
    /// The region continues in the next module every `256 << granularity` bytes.
    pub granularity: u32,
    /// Alignment of the region in units of 256 MiB; 0 for any.
    pub alignment: u32,
}

impl CxlNamespaceLabel {
    /// Kind at the start of these labels.
    pub(crate) const KIND: Uuid = uuid!("68bb2c0a-5a77-4937-9f85-3caf41a0f93c");

    pub(crate) fn encode(&self, slot: u32) -> Vec<u8> {
        let mut raw = NamespaceBytes::new_zeroed();
        raw.kind = Self::KIND.into_bytes();
        raw.uuid = self.uuid.into_bytes();
        raw.name = self.name.field();
        raw.flags = self.flags.0.into();
        raw.range_count = self.range_count.into();
        raw.position = self.position.into();
        raw.dpa = self.dpa.into();
        raw.raw_size = self.raw_size.into();
        raw.slot = slot.into();
        raw.alignment = self.alignment.into();
        raw.region_uuid = self.region_uuid.into_bytes();
        raw.abstraction = self.abstraction.uuid().into_bytes();
        raw.lba_size = self.lba_size.into();
        raw.checksum = fletcher64_with_hole(raw.as_bytes(), offset_of!(NamespaceBytes, checksum)).into();
        raw.as_bytes().to_vec()
    }

    pub(crate) fn decode(bytes: &[u8], slot: u32) -> Result<CxlNamespaceLabel, LabelDamage> {
        let (raw, _) = NamespaceBytes::ref_from_prefix(bytes)
            .map_err(|_| LabelDamage::TooShort { len: bytes.len() as u64 })?;
        check_sum(raw.as_bytes(), offset_of!(NamespaceBytes, checksum), raw.checksum.get())?;
        check_place(raw.slot.get(), slot, raw.dpa.get(), raw.raw_size.get())?;
        Ok(CxlNamespaceLabel {
            uuid: Uuid::from_bytes(raw.uuid),
            name: LabelName::from_field(raw.name),
            flags: LabelFlags(raw.flags.get()),
            range_count: raw.range_count.get(),
            position: raw.position.get(),
            dpa: raw.dpa.get(),
            raw_size: raw.raw_size.get(),
            alignment: raw.alignment.get(),
            region_uuid: Uuid::from_bytes(raw.region_uuid),
            abstraction: Abstraction::from_uuid(Uuid::from_bytes(raw.abstraction)),
            lba_size: raw.lba_size.get(),
        })
    }
}

impl CxlRegionLabel {
    /// Kind at the start of these labels.
    pub(crate) const KIND: Uuid = uuid!("529d7c61-da07-47c4-a93f-ecdf2c06f444");

    pub(crate) fn encode(&self, slot: u32) -> Vec<u8> {
        let mut raw = RegionBytes::new_zeroed();
        raw.kind = Self::KIND.into_bytes();
        raw.uuid = self.uuid.into_bytes();
        raw.flags = self.flags.0.into();
        raw.label_count = self.label_count.into();
        raw.position = self.position.into();
        raw.dpa = self.dpa.into();
        raw.raw_size = self.raw_size.into();
        raw.hpa = self.hpa.into();
        raw.slot = slot.into();
        raw.granularity = self.granularity.into();
        raw.alignment = self.alignment.into();
        raw.checksum = fletcher64_with_hole(raw.as_bytes(), offset_of!(RegionBytes, checksum)).into();
        raw.as_bytes().to_vec()
    }

    pub(crate) fn decode(bytes: &[u8], slot: u32) -> Result<CxlRegionLabel, LabelDamage> {
        let (raw, _) = RegionBytes::ref_from_prefix(bytes)
            .map_err(|_| LabelDamage::TooShort { len: bytes.len() as u64 })?;
        check_sum(raw.as_bytes(), offset_of!(RegionBytes, checksum), raw.checksum.get())?;
        check_place(raw.slot.get(), slot, raw.dpa.get(), raw.raw_size.get())?;
        Ok(CxlRegionLabel {
            uuid: Uuid::from_bytes(raw.uuid),
            flags: LabelFlags(raw.flags.get()),
            label_count: raw.label_count.get(),
            position: raw.position.get(),
            dpa: raw.dpa.get(),
            raw_size: raw.raw_size.get(),
            hpa: raw.hpa.get(),
            granularity: raw.granularity.get(),
            alignment: raw.alignment.get(),
        })
    }
}
