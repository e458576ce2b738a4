//! Firmware image of modules.
//!
//! An image starts with a header (Intel CSS) of 128 bytes, little-endian, as `ipmctl load -source FILE -dimm` checks it
//! (ipmctl, `DcpmPkg/common/FwUtility.h`). Modules themselves check a signature behind it, which an emulated module does
//! not:
//!
//! | off  | len | field         | valid if                                                     |
//! |------|-----|---------------|--------------------------------------------------------------|
//! | 0x00 | 4   | module type   | 6                                                            |
//! | 0x10 | 4   | module vendor | 0x8086                                                       |
//! | 0x18 | 4   | size          | in units of 4 bytes, not more than the file has              |
//! | 0x28 | 1   | image type    | 0x1d production, 0x1e diagnostics, 0x1f debug                |
//! | 0x29 | 5   | version       | build (2), security revision, revision, product, in decimal digits; not zero |

use super::image_fault::ImageFault;
use super::limits::{IMAGE_MAX, PACKET};
use super::version::FirmwareVersion;

/// Bytes of the header.
const HEADER_LEN: usize = 128;
const MODULE_TYPE: u32 = 6;
const VENDOR: u32 = 0x8086;
/// Bytes of the unit of the size.
const SIZE_UNIT: u64 = 4;

/// Kind of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirmwareKind {
    /// For use.
    Production,
    /// For diagnostics of the manufacturer.
    Diagnostics,
    /// For debugging.
    Debug,
}

/// Firmware image of modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirmwareImage {
    /// Its version.
    pub version: FirmwareVersion,
    /// Its kind.
    pub kind: FirmwareKind,
}

impl FirmwareImage {
    /// Returns the largest number of bytes of an image.
    pub const fn len_max() -> u64 {
        IMAGE_MAX
    }

    /// Parses the bytes of a file.
    ///
    /// # Errors
    /// Fails with the first rule at the head of this module that the file breaks.
    pub fn parse(bytes: &[u8]) -> Result<FirmwareImage, ImageFault> {
        let len = bytes.len() as u64;
        let short = ImageFault::Short { found: len, want: HEADER_LEN as u64 };
        let header: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(short)?;
        if len > IMAGE_MAX {
            return Err(ImageFault::Long { found: len });
        }
        let word = |off: usize| u32::from_le_bytes([0, 1, 2, 3].map(|at| header[off + at]));
        for (field, found, want, text) in
            [("module type", word(0x00), MODULE_TYPE, "6"), ("module vendor", word(0x10), VENDOR, "0x8086")]
        {
            if found != want {
                return Err(ImageFault::Field { field, found, want: text });
            }
        }
        if !len.is_multiple_of(PACKET) {
            return Err(ImageFault::Packets { found: len });
        }
        let size = u64::from(word(0x18)) * SIZE_UNIT;
        if size > len {
            return Err(ImageFault::CutOff { found: len, want: size });
        }
        let kind = match header[0x28] {
            0x1d => FirmwareKind::Production,
            0x1e => FirmwareKind::Diagnostics,
            0x1f => FirmwareKind::Debug,
            other => {
                let (field, want) = ("image type", "0x1d, 0x1e or 0x1f");
                return Err(ImageFault::Field { field, found: other.into(), want });
            }
        };
        let digits = [0x2d, 0x2c, 0x2b, 0x2a, 0x29].map(|off: usize| header[off]);
        let version = FirmwareVersion::from_digits(digits).filter(|version| version.number() != 0);
        let version = version.ok_or(ImageFault::Version { digits })?;
        Ok(FirmwareImage { version, kind })
    }
}
