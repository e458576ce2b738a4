//! The growth of an open pool, as its heap asks for it.

use std::{fmt, io};

/// The files under an open pool, in which its memory can become longer.
pub trait Growth: fmt::Debug + Send + Sync {
    /// Makes the memory of the pool longer: by `len` bytes, or by as many as there is room for. The new bytes are zeros.
    ///
    /// # Errors
    /// [`GrowthRefusal`]. The memory has its old length then.
    ///
    /// # Durability
    /// The new length is durable on return. After a crash before that, the pool has the old length or the new one.
    fn grow(&self, len: u64) -> Result<(), GrowthRefusal>;
}

/// The reason why a pool did not grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GrowthRefusal {
    /// The pool has no folder for new parts.
    #[error(
        "its set has no directory for new parts; make a set of directories, and transform the pool into it"
    )]
    FixedSize,
    /// The program wants none.
    #[error("heap.size.granularity is 0; set it to the bytes of a new part")]
    Off,
    /// The folders reserve no room for another part.
    #[error(
        "exceeded reservation size; {left} bytes of the directories' sizes are left, and a part has {least} at least: raise a \
         directory's size in the set file"
    )]
    Reserved {
        /// Bytes that are left.
        left: u64,
        /// The least bytes of a part.
        least: u64,
    },
    /// A call of the system failed for the new part.
    #[error("{op} of the new part: {}; make room for it, or mend its directory", io::Error::from_raw_os_error(*errno))]
    Io {
        /// The call.
        op: &'static str,
        /// Its error number.
        errno: i32,
    },
    /// The set is not as it was when the pool was opened.
    #[error("the files of its set are not those that were opened; open the pool again")]
    SetChanged,
}
