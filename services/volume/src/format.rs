//! The formats of volumes.

use lode_btt::TableFormat;
use std::fmt;

/// The format of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VolumeFormat {
    /// A block translation table of version 1.1, as in a sector namespace of the kernel.
    Btt,
    /// A block translation table of version 2.0.
    Btt2,
    /// A block pool of PMDK.
    Pmemblk,
    /// A pool of atomic blocks of this project.
    Atomic,
    /// Plain blocks after a header.
    Raw,
}

impl VolumeFormat {
    /// Returns the name of the format on the command line.
    pub fn name(self) -> &'static str {
        match self {
            VolumeFormat::Btt => "btt",
            VolumeFormat::Btt2 => "btt2",
            VolumeFormat::Pmemblk => "pmemblk",
            VolumeFormat::Atomic => "atomic",
            VolumeFormat::Raw => "raw",
        }
    }
}

impl fmt::Display for VolumeFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<TableFormat> for VolumeFormat {
    fn from(format: TableFormat) -> VolumeFormat {
        match format {
            TableFormat::V1_1 => VolumeFormat::Btt,
            TableFormat::V2_0 => VolumeFormat::Btt2,
            TableFormat::Pmdk => VolumeFormat::Pmemblk,
        }
    }
}
