//! The descriptor of PMDK's object pools.
#![doc = include_str!("pmdk_obj.md")]

use crate::format_table;
use crate::format_table::FormatTable;
use crate::{BLOCK, InvalidField, LINE, Want, fletcher64_with_hole, store_fletcher64};
use std::mem::offset_of;
use zerocopy::byteorder::little_endian::U64;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a descriptor.
const LEN: usize = size_of::<PmdkObjBytes>();
/// Bytes of a layout's name, with the zero byte at its end.
const LAYOUT_LEN: usize = 1024;
/// Bytes of a lane.
const LANE: u64 = crate::PmdkUlog::LANE_LEN;
const LANES_MIN: u64 = 2 * BLOCK;
const CHECKSUM: usize = offset_of!(PmdkObjBytes, checksum);

pub(crate) const TABLE: FormatTable =
    format_table!("pmdk_obj", PmdkObjBytes, [layout, lanes, lane_count, heap, unused, reserved, checksum]);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PmdkObjBytes {
    layout: [u8; LAYOUT_LEN],
    lanes: U64,
    lane_count: U64,
    heap: U64,
    unused: U64,
    reserved: [u8; 984],
    checksum: U64,
}

/// The descriptor of an object pool of PMDK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmdkObj {
    /// The name of the program's layout, at most 1023 bytes without a zero byte.
    pub layout: Vec<u8>,
    /// Offset of the first lane in the pool, in bytes.
    pub lanes: u64,
    /// Number of lanes.
    pub lane_count: u64,
    /// Offset of the heap in the pool, in bytes.
    pub heap: u64,
}

impl PmdkObj {
    /// Offset of the descriptor in the pool, in bytes.
    pub const OFF: u64 = BLOCK;
    /// Bytes of a descriptor.
    pub const LEN: usize = LEN;

    /// Decodes a descriptor.
    ///
    /// # Errors
    /// The first field that breaks its rule, the checksum first.
    pub fn decode(bytes: &[u8; LEN]) -> Result<PmdkObj, InvalidField> {
        let raw: PmdkObjBytes = zerocopy::transmute!(*bytes);
        Want::Exactly(fletcher64_with_hole(bytes, CHECKSUM)).check("checksum", 0, raw.checksum.get())?;
        let (lanes, lane_count, heap) = (raw.lanes.get(), raw.lane_count.get(), raw.heap.get());
        Want::AtLeast(LANES_MIN).check("lanes", 0, lanes)?;
        Want::MultipleOf(LINE).check("lanes", 0, lanes)?;
        Want::AtLeast(1).check("lane_count", 0, lane_count)?;
        Want::MultipleOf(BLOCK).check("heap", 0, heap)?;
        let end = lane_count.checked_mul(LANE).and_then(|len| len.checked_add(lanes));
        Want::AtLeast(end.unwrap_or(u64::MAX)).check("heap", 0, heap)?;
        let name = raw.layout.split(|byte| *byte == 0).next().unwrap_or_default();
        // A name without its end is as long as it can be.
        let layout = name[..name.len().min(LAYOUT_LEN - 1)].to_vec();
        Ok(PmdkObj { layout, lanes, lane_count, heap })
    }

    /// Returns the bytes of the descriptor. A longer layout is cut.
    pub fn encode(&self) -> [u8; LEN] {
        let mut raw = PmdkObjBytes::new_zeroed();
        let len = self.layout.len().min(LAYOUT_LEN - 1);
        raw.layout[..len].copy_from_slice(&self.layout[..len]);
        (raw.lanes, raw.lane_count, raw.heap) = (self.lanes.into(), self.lane_count.into(), self.heap.into());
        let mut bytes: [u8; LEN] = zerocopy::transmute!(raw);
        store_fletcher64(&mut bytes, CHECKSUM);
        bytes
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn sound() -> PmdkObj {
        PmdkObj { layout: b"queue".to_vec(), lanes: 0x2000, lane_count: 1024, heap: 0x302000 }
    }

    #[test]
    fn descriptors_round_trip() {
        for layout in [&b""[..], b"queue", &[b'x'; 1023]] {
            let descriptor = PmdkObj { layout: layout.to_vec(), ..sound() };
            assert_eq!(PmdkObj::decode(&descriptor.encode()), Ok(descriptor));
        }
    }

    #[test]
    fn each_rule_is_checked() {
        let changes: [(PmdkObj, &str); 5] = [
            (PmdkObj { lanes: 0x1000, ..sound() }, "lanes"),
            (PmdkObj { lanes: 0x2001, ..sound() }, "lanes"),
            (PmdkObj { lane_count: 0, ..sound() }, "lane_count"),
            (PmdkObj { lane_count: u64::MAX, ..sound() }, "heap"),
            (PmdkObj { heap: 0x301000, ..sound() }, "heap"),
        ];
        for (descriptor, field) in changes {
            assert_eq!(PmdkObj::decode(&descriptor.encode()).unwrap_err().field, field);
        }
        let mut bytes = sound().encode();
        bytes[0] ^= 1;
        assert_eq!(PmdkObj::decode(&bytes).unwrap_err().field, "checksum");
    }
}
