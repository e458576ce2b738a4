//! The results of pmem2_memcpy_async(3) and its relatives: futures that are complete.
//!
//! A program takes them by value, with the layout that <libpmem2/async.h> gives them. Its inline functions poll a future by
//! the state in it, and take the output from it.

use std::ffi::c_void;
use std::mem::size_of;

/// FUTURE_STATE_COMPLETE.
const COMPLETE: u32 = 1;
/// FUTURE_CHAIN_FLAG_ENTRY_LAST and FUTURE_CHAIN_FLAG_ENTRY_PROCESSED.
const LAST: u64 = 1;
const PROCESSED: u64 = 2;

/// The operations of `enum vdm_operation_type`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    /// VDM_OPERATION_MEMCPY.
    Copy = 0,
    /// VDM_OPERATION_MEMMOVE.
    Move = 1,
    /// VDM_OPERATION_MEMSET.
    Set = 2,
}

/// `struct future`.
#[repr(C)]
#[derive(Debug)]
struct Base {
    /// Called for a future that is not complete.
    task: *const c_void,
    has_property: extern "C" fn(*mut c_void, u32) -> i32,
    data_size: usize,
    output_size: usize,
    state: u32,
    padding: u32,
}

/// `struct vdm_operation_future` as an entry of a chain.
#[repr(C)]
#[derive(Debug)]
struct OperationEntry {
    map: *const c_void,
    map_arg: *const c_void,
    init: *const c_void,
    init_arg: *const c_void,
    flags: u64,
    base: Base,
    data: *const c_void,
    vdm: *const c_void,
    arguments: [usize; 5],
    kind: u32,
    padding: u32,
    output_kind: u32,
    output_result: u32,
    output_dest: *mut c_void,
}

/// `struct pmem2_persist_future` as an entry of a chain.
#[repr(C)]
#[derive(Debug)]
struct PersistEntry {
    map: *const c_void,
    map_arg: *const c_void,
    init: *const c_void,
    init_arg: *const c_void,
    flags: u64,
    base: Base,
    data: [usize; 3],
    unused: u64,
}

/// `struct pmem2_future`.
#[repr(C)]
#[derive(Debug)]
pub struct Future {
    base: Base,
    operation: OperationEntry,
    persist: PersistEntry,
    dest: *mut c_void,
}

/// Answers that a future has no property: it does not run beside the program.
extern "C" fn has_no_property(_future: *mut c_void, _property: u32) -> i32 {
    0
}

impl Base {
    fn complete(data_size: usize, output_size: usize) -> Base {
        let task = std::ptr::null();
        Base { task, has_property: has_no_property, data_size, output_size, state: COMPLETE, padding: 0 }
    }
}

impl Future {
    /// Returns the future of an operation that has stored `len` bytes at `dest`, durably.
    pub(crate) fn complete(operation: Operation, dest: *mut c_void, len: usize) -> Future {
        let null = std::ptr::null();
        let kind = operation as u32;
        let arguments = [dest.addr(), 0, len, 0, 0];
        let entry = OperationEntry {
            map: null,
            map_arg: null,
            init: null,
            init_arg: null,
            flags: PROCESSED | LAST,
            base: Base::complete(64, 16),
            data: null,
            vdm: null,
            arguments,
            kind,
            padding: 0,
            output_kind: kind,
            output_result: 0,
            output_dest: dest,
        };
        let persist = PersistEntry {
            map: null,
            map_arg: null,
            init: null,
            init_arg: null,
            flags: PROCESSED | LAST,
            base: Base::complete(24, 8),
            data: [0; 3],
            unused: 0,
        };
        let data_size = size_of::<OperationEntry>() + size_of::<PersistEntry>();
        Future { base: Base::complete(data_size, 8), operation: entry, persist, dest }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use std::mem::offset_of;

    /// The offsets at which Debian's 1.12.1 stores the fields.
    #[test]
    fn layout_is_that_of_the_header() {
        assert_eq!(size_of::<Future>(), 0x140);
        assert_eq!((offset_of!(Base, data_size), offset_of!(Base, state)), (0x10, 0x20));
        assert_eq!((offset_of!(Future, operation), offset_of!(Future, persist)), (0x28, 0xc8));
        assert_eq!(offset_of!(Future, operation) + offset_of!(OperationEntry, flags), 0x48);
        assert_eq!(offset_of!(Future, operation) + offset_of!(OperationEntry, arguments), 0x88);
        assert_eq!(offset_of!(Future, operation) + offset_of!(OperationEntry, kind), 0xb0);
        assert_eq!(offset_of!(Future, operation) + offset_of!(OperationEntry, output_dest), 0xc0);
        assert_eq!(offset_of!(Future, persist) + offset_of!(PersistEntry, data), 0x118);
        assert_eq!(offset_of!(Future, dest), 0x138);
    }

    #[test]
    fn futures_are_complete() {
        let future = Future::complete(Operation::Move, std::ptr::without_provenance_mut(64), 5);
        assert_eq!((future.base.state, future.base.data_size, future.base.output_size), (1, 0x110, 8));
        assert_eq!((future.dest.addr(), future.operation.output_kind), (64, 1));
        assert_eq!((future.base.has_property)(std::ptr::null_mut(), 0), 0);
    }
}
