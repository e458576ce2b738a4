//! Names of objects, as programs hold them.

use lode_layout::PoolOffset;

/// The PMEMoid of the headers.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oid {
    /// The number of the pool.
    pub pool_uuid_lo: u64,
    /// Offset of the object's data in the pool; 0 for no object.
    pub off: u64,
}

impl Oid {
    /// OID_NULL.
    pub const NULL: Oid = Oid { pool_uuid_lo: 0, off: 0 };

    /// Returns true if it names no object.
    pub fn is_null(self) -> bool {
        self.off == 0
    }

    /// Returns the offset of the object's data.
    pub fn offset(self) -> PoolOffset {
        PoolOffset::new(self.off)
    }
}
