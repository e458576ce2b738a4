//! The versions of labels.

use std::fmt;

/// The format of the labels of an area, as its index blocks state it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LabelFormat {
    /// Labels of 128 bytes without a checksum, from the time before UEFI specified them.
    V1_1,
    /// Labels of 256 bytes as UEFI specifies them. Linux writes them for all modules, including those of CXL.
    V1_2,
    /// Labels of 256 bytes that begin with their kind, as CXL specifies them.
    V2_1,
}

impl LabelFormat {
    /// Returns the length in bytes of a label and of its slot.
    pub const fn label_len(self) -> u64 {
        match self {
            LabelFormat::V1_1 => 128,
            LabelFormat::V1_2 | LabelFormat::V2_1 => 256,
        }
    }

    /// Returns the code of the label length, as stored in index blocks.
    pub(crate) const fn size_code(self) -> u8 {
        match self {
            LabelFormat::V1_1 => 0,
            LabelFormat::V1_2 | LabelFormat::V2_1 => 1,
        }
    }

    /// Returns the major and minor number as stored.
    pub(crate) const fn version(self) -> (u16, u16) {
        match self {
            LabelFormat::V1_1 => (1, 1),
            LabelFormat::V1_2 => (1, 2),
            LabelFormat::V2_1 => (2, 1),
        }
    }

    /// Returns the format with these numbers.
    pub(crate) const fn from_version(major: u16, minor: u16) -> Option<LabelFormat> {
        match (major, minor) {
            (1, 1) => Some(LabelFormat::V1_1),
            (1, 2) => Some(LabelFormat::V1_2),
            (2, 1) => Some(LabelFormat::V2_1),
            _ => None,
        }
    }
}

impl fmt::Display for LabelFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.version();
        write!(f, "{major}.{minor}")
    }
}
