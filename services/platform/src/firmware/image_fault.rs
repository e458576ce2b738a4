//! Faults of firmware images.

use super::limits::{IMAGE_MAX, PACKET};
use thiserror::Error;

/// A file is no firmware image of modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ImageFault {
    /// The file is shorter than a header.
    #[error("it has {found} B, and the header of an image alone has {want}")]
    Short {
        /// Bytes of the file.
        found: u64,
        /// Bytes of a header.
        want: u64,
    },
    /// The file is longer than a module takes.
    #[error("it has {found} B, and a module takes images of up to {IMAGE_MAX}")]
    Long {
        /// Bytes of the file.
        found: u64,
    },
    /// The file does not consist of whole packets.
    #[error("it has {found} B, and images are sent in packets of {PACKET}: it is cut off, or no image")]
    Packets {
        /// Bytes of the file.
        found: u64,
    },
    /// A field of the header is not that of an image.
    #[error("its {field} is {found:#x}, and images have {want}: it is no image for these modules")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        found: u32,
        /// Description of valid values.
        want: &'static str,
    },
    /// The file has less than the header says.
    #[error("it has {found} B of the {want} that its header names: it is cut off; get it again")]
    CutOff {
        /// Bytes of the file.
        found: u64,
        /// Bytes that the header names.
        want: u64,
    },
    /// The version is zero or not decimal.
    #[error("its version is {digits:02x?}, which is none: it is damaged; get it again")]
    Version {
        /// The bytes of the version, product first.
        digits: [u8; 5],
    },
}
