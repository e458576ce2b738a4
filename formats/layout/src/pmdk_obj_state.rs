//! The state of PMDK's object pools, which has no checksum.
#![doc = include_str!("pmdk_obj_state.md")]

use crate::format_table;
use crate::format_table::FormatTable;
use crate::{InvalidField, PmdkObj, PoolOffset, Want};
use std::mem::offset_of;
use zerocopy::byteorder::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The step of a run's number.
const STEP: u64 = 2;

pub(crate) const TABLE: FormatTable = format_table!(
    "pmdk_obj_state",
    PmdkObjStateBytes,
    [root, run_id, root_size, conversion, heap_size, allocated]
);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PmdkObjStateBytes {
    root: U64,
    run_id: U64,
    root_size: U64,
    conversion: U64,
    heap_size: U64,
    allocated: U64,
}

/// The state of an object pool of PMDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmdkObjState {
    /// Offset of the root object's data; [`NULL`](PoolOffset::NULL) without one.
    pub root: PoolOffset,
    /// Number of the run that has the pool open, or had it last: even.
    pub run_id: u64,
    /// Size of the root object as the program asked for it, in bytes.
    pub root_size: u64,
    /// Flags of PMDK's conversion tool.
    pub conversion: u64,
    /// Bytes of the heap; 0 if no open has stored them yet.
    pub heap_size: u64,
    /// The statistic `curr_allocated`, in bytes.
    pub allocated: u64,
}

impl PmdkObjState {
    /// Bytes of the state.
    pub const LEN: usize = size_of::<PmdkObjStateBytes>();
    /// Offset of the state in the pool.
    pub const OFF: PoolOffset = PoolOffset::new(PmdkObj::OFF + PmdkObj::LEN as u64);
    /// Offset of the word `root`.
    pub const ROOT_OFF: PoolOffset = PmdkObjState::OFF.plus(offset_of!(PmdkObjStateBytes, root) as u64);
    /// Offset of the word `run_id`.
    pub const RUN_ID_OFF: PoolOffset = PmdkObjState::OFF.plus(offset_of!(PmdkObjStateBytes, run_id) as u64);
    /// Offset of the word `root_size`.
    pub const ROOT_SIZE_OFF: PoolOffset =
        PmdkObjState::OFF.plus(offset_of!(PmdkObjStateBytes, root_size) as u64);
    /// Offset of the word `heap_size`.
    pub const HEAP_SIZE_OFF: PoolOffset =
        PmdkObjState::OFF.plus(offset_of!(PmdkObjStateBytes, heap_size) as u64);
    /// Offset of the word `allocated`.
    pub const ALLOCATED_OFF: PoolOffset =
        PmdkObjState::OFF.plus(offset_of!(PmdkObjStateBytes, allocated) as u64);

    /// Decodes the state of a pool with `heap_max` bytes from its heap to its end.
    ///
    /// # Errors
    /// The first field that breaks its rule.
    pub fn decode(bytes: [u8; PmdkObjState::LEN], heap_max: u64) -> Result<PmdkObjState, InvalidField> {
        let raw: PmdkObjStateBytes = zerocopy::transmute!(bytes);
        let state = PmdkObjState {
            root: PoolOffset::new(raw.root.get()),
            run_id: raw.run_id.get(),
            root_size: raw.root_size.get(),
            conversion: raw.conversion.get(),
            heap_size: raw.heap_size.get(),
            allocated: raw.allocated.get(),
        };
        Want::MultipleOf(STEP).check("run_id", 0, state.run_id)?;
        Want::AtMost(heap_max).check("heap_size", 0, state.heap_size)?;
        Ok(state)
    }

    /// Returns the bytes of the state.
    pub fn encode(&self) -> [u8; PmdkObjState::LEN] {
        let PmdkObjState { root, run_id, root_size, conversion, heap_size, allocated } = *self;
        let [root, run_id, root_size, conversion, heap_size, allocated] =
            [root.get(), run_id, root_size, conversion, heap_size, allocated].map(U64::new);
        zerocopy::transmute!(PmdkObjStateBytes { root, run_id, root_size, conversion, heap_size, allocated })
    }

    /// Returns the number of the next run.
    pub fn next_run(&self) -> u64 {
        match self.run_id.wrapping_add(STEP) {
            0 => STEP,
            next => next,
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const STATE: PmdkObjState = PmdkObjState {
        root: PoolOffset::new(0x3c_0550),
        run_id: 4,
        root_size: 1000,
        conversion: 0,
        heap_size: 1 << 20,
        allocated: 77,
    };

    #[test]
    fn states_round_trip() {
        assert_eq!(PmdkObjState::decode(STATE.encode(), 1 << 20), Ok(STATE));
    }

    #[test]
    fn each_rule_is_checked() {
        let odd = PmdkObjState { run_id: 3, ..STATE };
        assert_eq!(PmdkObjState::decode(odd.encode(), 1 << 20).unwrap_err().field, "run_id");
        assert_eq!(PmdkObjState::decode(STATE.encode(), (1 << 20) - 1).unwrap_err().field, "heap_size");
    }

    #[test]
    fn runs_skip_zero() {
        assert_eq!(STATE.next_run(), 6);
        assert_eq!(PmdkObjState { run_id: u64::MAX - 1, ..STATE }.next_run(), 2);
    }
}
