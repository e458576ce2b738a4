//! The header of a type table.
#![doc = include_str!("type_table_header.md")]

use crate::format_table;
use crate::format_table::FormatTable;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct TypeTableHeader {
    pub(crate) magic: u64,
    pub(crate) older: u64,
    pub(crate) crc: u32,
    pub(crate) version: u32,
    pub(crate) len: u32,
    pub(crate) count: u32,
    pub(crate) root: u32,
    pub(crate) reserved: u32,
}

pub(crate) const TABLE: FormatTable = format_table!(
    "type_table_header",
    TypeTableHeader,
    [magic, older, crc, version, len, count, root, reserved]
);
