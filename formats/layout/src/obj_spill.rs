//! Old bytes of a transaction that its record in the log can't hold.
#![doc = include_str!("obj_spill.md")]
#![doc = include_str!("obj_spill_entry.md")]

use crate::format_table;
use crate::format_table::FormatTable;
use crate::{InvalidField, LINE, PoolOffset, Want, align_up};
use std::mem::offset_of;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: u64 = u64::from_le_bytes(*b"LdSpill\0");

pub(crate) const TABLE: FormatTable =
    format_table!("obj_spill", ObjSpillBytes, [magic, nonce, len, before, reserved, crc]);
pub(crate) const TABLE_ENTRY: FormatTable =
    format_table!("obj_spill_entry", ObjSpillEntryBytes, [at, len, reserved, crc]);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ObjSpillBytes {
    magic: U64,
    nonce: [u8; 16],
    len: U64,
    before: U64,
    reserved: [u8; 20],
    crc: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ObjSpillEntryBytes {
    at: U64,
    len: U64,
    reserved: [u8; 44],
    crc: U32,
}

/// The header of a spill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjSpill {
    /// A random number, by which entries of an earlier spill at the same place are told.
    pub nonce: [u8; 16],
    /// Bytes of the spill, with the header.
    pub len: u64,
    /// The spill of the same transaction before this one, or null.
    pub before: PoolOffset,
}

/// The head of an entry of a spill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjSpillEntry {
    /// The first byte of the range.
    pub at: PoolOffset,
    /// Bytes of the range.
    pub len: u64,
    crc: u32,
}

impl ObjSpill {
    /// Bytes of the header.
    pub const LEN: usize = size_of::<ObjSpillBytes>();
    /// Least bytes of a spill.
    pub const LEN_MIN: u64 = 2 * LINE;

    /// Returns the bytes of the header in the pool `uuid`.
    pub fn encode(&self, uuid: &[u8; 16]) -> [u8; ObjSpill::LEN] {
        let mut raw = ObjSpillBytes::new_zeroed();
        (raw.magic, raw.nonce, raw.len) = (MAGIC.into(), self.nonce, self.len.into());
        raw.before = self.before.get().into();
        raw.crc = header_crc(&raw, uuid).into();
        zerocopy::transmute!(raw)
    }

    /// Decodes the header of a spill of the pool `uuid` with room for at most `len_max` bytes.
    ///
    /// # Errors
    /// The first field that breaks its rule, the checksum first.
    pub fn decode(
        bytes: [u8; ObjSpill::LEN],
        uuid: &[u8; 16],
        len_max: u64,
    ) -> Result<ObjSpill, InvalidField> {
        let raw: ObjSpillBytes = zerocopy::transmute!(bytes);
        Want::Exactly(header_crc(&raw, uuid).into()).check("crc", 0, raw.crc.get().into())?;
        Want::Exactly(MAGIC).check("magic", 0, raw.magic.get())?;
        let len = raw.len.get();
        Want::AtLeast(ObjSpill::LEN_MIN).check("len", 0, len)?;
        Want::AtMost(len_max).check("len", 0, len)?;
        Want::MultipleOf(LINE).check("len", 0, len)?;
        Ok(ObjSpill { nonce: raw.nonce, len, before: PoolOffset::new(raw.before.get()) })
    }
}

impl ObjSpillEntry {
    /// Bytes of the head of an entry.
    pub const LEN: usize = size_of::<ObjSpillEntryBytes>();

    /// Returns the head of the entry with the old bytes of a range.
    pub fn encode(at: PoolOffset, old: &[u8], nonce: &[u8; 16]) -> [u8; ObjSpillEntry::LEN] {
        let mut raw = ObjSpillEntryBytes::new_zeroed();
        (raw.at, raw.len) = (at.get().into(), (old.len() as u64).into());
        raw.crc = crc32c::crc32c_append(entry_crc(&raw, nonce), old).into();
        zerocopy::transmute!(raw)
    }

    /// Decodes the head of an entry in a spill with `room` bytes left. `None` if the entry would not fit: no entry is there.
    pub fn decode(bytes: [u8; ObjSpillEntry::LEN], room: u64) -> Option<ObjSpillEntry> {
        let raw: ObjSpillEntryBytes = zerocopy::transmute!(bytes);
        let (at, len) = (PoolOffset::new(raw.at.get()), raw.len.get());
        // No sum wraps: a pool is shorter.
        let fits = len > 0 && len <= 1 << 62 && ObjSpillEntry::len_in_spill(len) <= room;
        fits.then_some(ObjSpillEntry { at, len, crc: raw.crc.get() })
    }

    /// Returns true if `old`, the bytes after the head, are whole. `nonce` is that of the spill.
    pub fn is_whole(&self, old: &[u8], nonce: &[u8; 16]) -> bool {
        let mut raw = ObjSpillEntryBytes::new_zeroed();
        (raw.at, raw.len) = (self.at.get().into(), self.len.into());
        crc32c::crc32c_append(entry_crc(&raw, nonce), old) == self.crc
    }

    /// Returns the bytes that an entry with `len` old bytes takes. At most 2^62 are old.
    pub const fn len_in_spill(len: u64) -> u64 {
        ObjSpillEntry::LEN as u64 + align_up(len, LINE)
    }
}

fn header_crc(raw: &ObjSpillBytes, uuid: &[u8; 16]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(uuid), &raw.as_bytes()[..offset_of!(ObjSpillBytes, crc)])
}

fn entry_crc(raw: &ObjSpillEntryBytes, nonce: &[u8; 16]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(nonce), &raw.as_bytes()[..offset_of!(ObjSpillEntryBytes, crc)])
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn headers_round_trip() {
        let (spill, uuid) =
            (ObjSpill { nonce: [3; 16], len: 4096, before: PoolOffset::new(0x30_2000) }, [9; 16]);
        let bytes = spill.encode(&uuid);
        assert_eq!(ObjSpill::decode(bytes, &uuid, 4096), Ok(spill));
        assert_eq!(ObjSpill::decode(bytes, &uuid, 4095).unwrap_err().field, "len");
        assert_eq!(ObjSpill::decode(bytes, &[8; 16], 4096).unwrap_err().field, "crc");
        let odd = ObjSpill { len: 130, ..spill }.encode(&uuid);
        assert_eq!(ObjSpill::decode(odd, &uuid, 4096).unwrap_err().field, "len");
    }

    #[test]
    fn entries_round_trip() {
        let (at, nonce) = (PoolOffset::new(0x30_2000), [3; 16]);
        for len in [1, 63, 64, 65, 5000] {
            let mut old = vec![7; len];
            let bytes = ObjSpillEntry::encode(at, &old, &nonce);
            let room = ObjSpillEntry::len_in_spill(len as u64);
            let entry = ObjSpillEntry::decode(bytes, room).unwrap();
            assert_eq!((entry.at, entry.len), (at, len as u64));
            assert!(entry.is_whole(&old, &nonce) && !entry.is_whole(&old, &[4; 16]));
            old[len - 1] ^= 1;
            assert!(!entry.is_whole(&old, &nonce));
            assert_eq!(ObjSpillEntry::decode(bytes, room - 1), None);
        }
        assert_eq!(ObjSpillEntry::decode([0; 64], 4096), None);
        assert_eq!(ObjSpillEntry::decode([0xFF; 64], u64::MAX), None);
    }
}
