//! Limits of images.

/// Bytes of the largest image.
pub(super) const IMAGE_MAX: u64 = 788 << 10;
/// Bytes that are sent to a module at a time.
pub(super) const PACKET: u64 = 64;
