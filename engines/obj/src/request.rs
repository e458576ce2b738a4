//! The wish of a program for an object.

/// A request for an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Bytes of data.
    pub size: u64,
    /// The type number.
    pub type_number: u64,
    /// True if the usable bytes are to be zeros.
    pub is_zeroed: bool,
    /// Identifier of the allocation class; `None` for the one that fits best.
    pub class: Option<u8>,
    /// Number of the arena, from 1 on; `None` for the thread's.
    pub arena: Option<u32>,
    /// True for the root, which iterations leave out.
    pub is_internal: bool,
}
